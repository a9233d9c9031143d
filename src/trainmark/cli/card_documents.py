"""Cards as text: of a command that was run once, and of the shipped programs."""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from trainmark.errors import InputError
from trainmark.printable import significant

if TYPE_CHECKING:
    from trainmark.campaign.log_measurement import RunLog
    from trainmark.schema.results import RunResult
    from trainmark.workload import Card

_COMMENTS = {
    "name": "the suite's axis `workload`",
    "description": "shown in reports",
    "framework": "the framework that the program uses; a label of its results",
    "task": "`program`: only what a suite, the card or the log states is a fact of a run",
    "environment": "where a suite's `environment: auto` runs it: an environment's name, system, docker or apptainer",
    "source": "the files that identify the program: runs of changed files are not pooled",
    "launcher": "`command`: the command as it is; others start the ranks (docs/reference/workloads.md)",
    "working_directory": "relative to this file; or `run` (the run's own folder), `source`",
    "command": "each word; {NAME} is the value of an option below",
    "axes": 'axes of a suite and their words: {batch_per_device: {flags: ["--batch-size={value}"]}}',
    "unit": "what the work of a step is counted in",
    "options": 'further values of a case: {lr: {type: float, flags: ["--lr={value}"]}}',
}
_ORDER = (*_COMMENTS, "log_format")


def write_card_of_command(
    words: Sequence[str], out: Path | None, name: str | None, seconds: float, log_format: str | None
) -> int:
    """Run a command once, write its card, and return the exit code: 1 if the run gave no number."""
    from trainmark.campaign.log_measurement import read_run_log
    from trainmark.cli.card_trial import run_of
    from trainmark.cli.run import run_suite
    from trainmark.cli.run_options import CommandOptions, RunOptions
    from trainmark.cli.suite_input import command_suite, read_suite
    from trainmark.execution import ResultDirectory
    from trainmark.schema.names import LOG
    from trainmark.workload import read_card

    options = CommandOptions(name=name, repeats=1, seconds=seconds, format=log_format)
    found = command_suite(words, options, Path.cwd())
    path = out or Path(f"{found.name}.yaml")
    if path.exists():
        raise InputError(f"{path} exists: give another --out, or remove it")
    with tempfile.TemporaryDirectory() as folder:
        suite = read_suite(found.write(Path(folder)))
        results = run_suite(RunOptions(), suite, Path(folder, "run"), ("trainmark card new",)).results
        run = run_of(results)
        runs = ResultDirectory(Path(folder, "run")).run(results.cases[0].case, 1)
        log = read_run_log(read_card(Path(folder, "card.yaml")).card, runs) if (runs / LOG).exists() else None
    card = {key: value for key, value in found.card.items() if key != "stop_after"}
    text = "".join(
        f"{line}\n"
        for line in (
            *_head(found.suite),
            *_body(_movable(card, path.resolve().parent)),
            *_reading(card, log, run),
        )
    )
    path.write_text(text, encoding="utf-8")
    read_card(path)
    reason = results.cases[0].reason if run is None else run.reason
    if run is None or run.measurement is None:
        sys.stdout.write(f"{path}: written, but its run gave no number: {reason}\n")
        return 1
    number = f"{significant(run.measurement.throughput)} {run.measurement.unit}"
    sys.stdout.write(f"{path}: written; its run gave {number}; check it with: trainmark card check {path}\n")
    return 0


def card_text(card: "Card") -> str:
    """Return a card as YAML: of another project's program as it is written, of a built-in one its merged parts."""
    from trainmark.documents import documents_of

    document = next(
        (document for document in documents_of("programs/cards") if document.name == card.name), None
    )
    if document is not None:
        return document.text.lstrip("\n")
    values = card.model_dump(mode="json", exclude_defaults=True)
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=110)


def _head(suite: Mapping[str, Any]) -> Iterator[str]:
    yield "# A card: how to start a program and to read its log (docs/reference/workloads.md). A suite that runs it:"
    short = {
        "name": suite["name"],
        "environment": suite["environment"],
        "cards": ["THIS FILE"],
        "cases": [{"workload": suite["name"]}],
    }
    yield from (f"#   {line}" for line in yaml.safe_dump(short, sort_keys=False).splitlines())


def _body(card: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted((key for key in card if key != "log_format"), key=_ORDER.index):
        yield f"# {_COMMENTS[key]}"
        yield yaml.safe_dump({key: card[key]}, sort_keys=False, allow_unicode=True, width=110).rstrip()


def _movable(card: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a card whose paths are relative to its own folder, if they are in it."""

    def relative(path: str) -> str:
        return os.path.relpath(path, folder) if Path(path).is_relative_to(folder) else path

    source = dict(card["source"]) | {"files": [relative(file) for file in card["source"]["files"]]}
    place = relative(card["working_directory"])
    return dict(card) | {"source": source, "working_directory": "./" if place == "." else place}


def _reading(card: Mapping[str, Any], log: "RunLog | None", run: "RunResult | None") -> Iterator[str]:
    """Yield the part of a card about its log, by what the run showed."""
    from trainmark.logs import Status
    from trainmark.schema.names import EPOCHS_UNIT, STEPS_UNIT
    from trainmark.workload.card import AUTO_FORMAT

    known = card["log_format"]
    if known == AUTO_FORMAT and log is not None and log.parsed.status is Status.OK and log.parsed.format:
        known = log.parsed.format
        yield "# recognised in the program's log"
    elif known == AUTO_FORMAT:
        yield "# No known format: `auto` reads it by a guess, which is a doubt of each run. Describe its lines instead"
        if log is None or log.guess is None:
            yield "# (docs/how-to/describe-a-log.md)."
        else:
            yield "# (docs/how-to/describe-a-log.md); a proposal by its words, to be corrected:"
            yield from (f"#   {line}" for line in ("log_format:", *_proposed(log)))
    else:
        yield "# as given by --format"
    yield yaml.safe_dump({"log_format": known}, sort_keys=False, allow_unicode=True, width=110).rstrip()
    if run is not None and run.measurement is not None:
        found = run.measurement
        if found.unit in (STEPS_UNIT, EPOCHS_UNIT):
            yield f"# The log does not print the work of a step, so the number is in {found.unit}. To state it:"
            yield '# work_per_step: 32   # of all devices: a number, or an expression such as "{global_batch} * 1024"'
            yield "# unit: samples/s"
        yield f"# skip: {found.warmup_steps}   # records left out as warm-up"


def _proposed(log: "RunLog") -> Iterator[str]:
    """Yield the proposed description of the lines, without the stamp of their arrival, which no line has."""
    from trainmark.logs.guess.reading import proposal
    from trainmark.logs.records import STAMP_PATTERN

    assert log.guess is not None
    for line in proposal(log.guess).splitlines():
        yield f"  {line.replace(STAMP_PATTERN, '') if log.is_stamped else line}"
