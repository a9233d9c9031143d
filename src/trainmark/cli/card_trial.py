"""One brief run of a card, and how its log is read: ``trainmark card check``."""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from trainmark.errors import InputError, nearest
from trainmark.printable import significant

if TYPE_CHECKING:
    from trainmark.logs import Facts
    from trainmark.schema.case import Case
    from trainmark.schema.results import Results, RunResult
    from trainmark.schema.suite import Suite
    from trainmark.workload import Card, Workload

_LOGGED = {
    "model": "model",
    "precision": "precision",
    "batch_per_device": "batch_per_device",
    "nodes": "nodes",
    "framework": "framework",
}
"""The facts of a log that state an axis."""


def check_card(
    path: Path, given: Sequence[str], seconds: float, environment: str | None, out: Path | None, *, dry: bool
) -> int:
    """Read the card, run it once, print what its log shows, and return the exit code."""
    from trainmark.campaign import program_mistakes
    from trainmark.cli.run import run_suite
    from trainmark.cli.run_options import RunOptions
    from trainmark.documents import read_document
    from trainmark.workload import read_card

    workload = read_card(path, (program_mistakes,))
    card = workload.card
    sys.stdout.write(f"{path}: a card of {card.framework}, task {card.task}, log format {card.format_name}\n")
    values = _case_values(card, given)
    with nullcontext(out) if out is not None else tempfile.TemporaryDirectory() as folder:
        place = Path(folder or ".")
        place.mkdir(parents=True, exist_ok=True)
        document = trial_card(read_document(path).values, workload, path, seconds)
        suite = write_trial_suite(place, document, environment or _own_python(card), values)
        if dry:
            return 0
        results = run_suite(RunOptions(), suite, place / "run", (f"trainmark card check {path}",)).results
        return _print_trial(results, card, place / "run")


def _own_python(card: "Card") -> str | None:
    """Return the Python that a card's command names, in which `trainmark run -- COMMAND` would run it; None without."""
    from trainmark.cli.suite_input import python_of
    from trainmark.schema.suite import Launcher
    from trainmark.workload import recognise

    if card.launcher is not Launcher.COMMAND or card.environment != "system":
        return None
    return python_of(recognise(card.command, Path(card.working_directory), os.environ))


def _case_values(card: "Card", given: Sequence[str]) -> dict[str, Any]:
    from trainmark.schema.case import axes_of

    values: dict[str, Any] = {}
    options: dict[str, Any] = {}
    known = (*axes_of(card.task), *card.options)
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or name not in known:
            raise InputError(f"--set {text}: '{name}' is not an axis or option{nearest(name, known)}")
        (options if name in card.options else values)[name] = yaml.safe_load(value)
    return values | ({"options": options} if options else {})


def trial_card(
    document: Mapping[str, Any], workload: "Workload", path: Path, seconds: float
) -> dict[str, Any]:
    """Return a card's document for another folder, whose run is ended after ``seconds``."""
    from trainmark.workload import FilesSource, FolderSource

    card, base = workload.card, path.resolve().parent
    copy = dict(document)
    if isinstance(card.source, FolderSource):
        copy["source"] = dict(document["source"]) | {"path": str(workload.source)}
    if isinstance(card.source, FilesSource):
        copy["source"] = dict(document["source"]) | {
            "files": [str(base / name) for name in card.source.files]
        }
    copy["working_directory"] = str(card.working_directory)
    own = card.stop_after
    limit = seconds if own is None or own.seconds is None else min(seconds, own.seconds)
    copy["stop_after"] = dict(document.get("stop_after") or {}) | {"seconds": limit}
    return copy


def write_trial_suite(
    folder: Path, card: Mapping[str, Any], environment: str | None, values: Mapping[str, Any]
) -> "Suite":
    """Write a card and a suite of one run of it into ``folder``, and return the suite."""
    from trainmark.cli.suite_input import read_suite

    document = {
        "name": str(card["name"]),
        "cards": ["card.yaml"],
        "protocol": {"name": "adaptive", "repeats": 1},
        "cases": [{"workload": card["name"], **values}],
    }
    if environment is not None:
        document["environment"] = environment
    for name, content in (("card.yaml", dict(card)), ("suite.yaml", document)):
        (folder / name).write_text(
            yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8"
        )
    return read_suite(folder / "suite.yaml")


def run_of(results: "Results") -> "RunResult | None":
    """Return the one run of a trial's results; None if its case could not be started."""
    return next((run for case in results.cases for run in case.runs), None)


def _print_trial(results: "Results", card: "Card", directory: Path) -> int:
    from trainmark.campaign.log_measurement import read_run_log
    from trainmark.cli.log_explain import explain_lines
    from trainmark.execution import ResultDirectory
    from trainmark.measure.rules import measure_log
    from trainmark.schema.measurement import About
    from trainmark.schema.names import LOG
    from trainmark.workload.card import OWN_FORMAT

    (result,) = results.cases
    run = run_of(results)
    if run is None:
        sys.stdout.write(f"the run did not start: {result.reason}\n")
        return 1
    sys.stdout.write(f"run: {run.outcome}{f': {run.reason}' if run.reason else ''}\n")
    found = run.measurement
    if found is not None:
        sys.stdout.write(
            f"number: {significant(found.throughput, 6)} {found.unit} by the rule '{found.rule}'\n"
        )
    folder = ResultDirectory(directory).run(result.case, 1)
    if card.log_format != OWN_FORMAT and (folder / LOG).exists():
        log = read_run_log(card, folder)
        read = measure_log(log.parsed)
        by_arrival = found is not None and read.value is None
        known = None if log.is_stamped else log.known
        lines = explain_lines(str(folder / LOG), log.parsed, read, known, by_arrival=by_arrival)
        sys.stdout.writelines(f"{line}\n" for line in lines)
        sys.stdout.writelines(f"{line}\n" for line in unverified(result.case, log.parsed.facts))
    doubts = [] if found is None else [doubt for doubt in run.suspicions if doubt.about is About.WORK]
    sys.stdout.writelines(f"doubt: {doubt.sentence} ({doubt.code})\n" for doubt in doubts)
    return 0 if found is not None and not doubts else 1


def unverified(case: "Case", facts: "Facts") -> Iterator[str]:
    """Yield the axes that nothing states, and those that the card or the caller states and the log does not show."""
    from trainmark.schema.case import UNKNOWN, UNSTATED

    shown = {axis for axis, fact in _LOGGED.items() if getattr(facts, fact, None) is not None}
    stated = [axis for axis in UNSTATED if case.value(axis) != UNKNOWN and axis not in shown]
    unknown = [axis for axis in UNSTATED if case.value(axis) == UNKNOWN and axis not in shown]
    if stated:
        values = ", ".join(f"{axis} {case.value(axis)}" for axis in stated)
        yield f"unverified: {values}: stated by the card or --set; the log does not show it"
    if unknown:
        yield f"not known: {', '.join(unknown)}: neither the card, --set nor the log states it"
