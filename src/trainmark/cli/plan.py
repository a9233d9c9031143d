"""``trainmark plan``: print the commands that a suite would run, without running them."""

import gc
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from trainmark.cli.arguments import Argument, Command, Option
from trainmark.errors import InputError, nearest

if TYPE_CHECKING:
    from trainmark.campaign import CannotStart
    from trainmark.schema.case import Case
    from trainmark.schema.plan import Plan
    from trainmark.schema.suite import Protocol, Suite


def plan(
    suite: Annotated[Path, Argument(metavar="SUITE", help="The suite's YAML file.")],
    out: Annotated[
        Path | None,
        Option(metavar="PATH", help="The result directory of the run; default: results/<suite>."),
    ] = None,
    only: Annotated[str | None, Option(help="Plan only these cases; see trainmark run.")] = None,
    hosts: Annotated[
        str | None, Option(help="The hosts to plan for; see trainmark run. Their hardware is queried.")
    ] = None,
    engine: Annotated[str | None, Option(help="How to reach the hosts; see trainmark run.")] = None,
    as_job: Annotated[
        str | None,
        Option(
            flags=("--as",),
            metavar="KIND",
            help="Print a cluster job that runs the suite instead of the commands: sbatch (a Slurm script), trainjob "
            "or mpijob (Kubeflow manifests for Kubernetes). Its settings are under 'job' in --hosts FILE.",
        ),
    ] = None,
    as_json: Annotated[
        bool, Option(flags=("--json",), help="Print one JSON object per case, one per line.")
    ] = False,
) -> int:
    """Print the cases of a suite and the exact commands of each case's first run, without running anything.

    With --as: print a job for a cluster's queue that runs the suite; pipe it into sbatch or kubectl apply -f -.
    Exit code 1: an interpreter does not exist, or a program has no such model.
    """
    if as_job is not None:
        if out is not None or engine is not None or as_json:
            raise InputError(
                "--as cannot be combined with --out, --engine or --json: the hosts file sets directory and engine"
            )
        sys.stdout.write(_job(suite, only, hosts, as_job))
        return 0
    from trainmark.campaign import cases_over_limit, plan_campaign
    from trainmark.cli.suite_input import chosen_hosts, read_suite
    from trainmark.files import default_home
    from trainmark.schema.plan import Plan
    from trainmark.suite import select
    from trainmark.workload.card import OWN_FORMAT

    with _uncollected():
        resolved = read_suite(suite)
    cases = resolved.cases if only is None else select(resolved.cases, only)
    directory = out or Path("results") / resolved.name
    late = cases_over_limit(resolved, directory)
    printed: set[str] = set()
    texts: list[str] = []
    interpreters: set[str] = set()
    wrong, foreign = False, True
    with _uncollected(), chosen_hosts(hosts, engine) as connected:
        plans = plan_campaign(resolved, cases, directory, default_home(os.environ), connected)
        # Each plan becomes text at once: ten thousand at a time would take much memory.
        for case, planned in zip(cases, plans, strict=True):
            missing = _missing_interpreter(resolved, case) if hosts is None else None
            wrong |= missing is not None or f" has no model '{case.model}'" in (_reason(planned) or "")
            foreign &= getattr(planned, "log_format", OWN_FORMAT) != OWN_FORMAT
            found = replace(planned, cannot_run=missing) if missing and isinstance(planned, Plan) else planned
            interpreters.update(command.words[0] for command in getattr(planned, "commands", ())[:1])
            texts.append(
                _as_json(case, found, late.get(case.id))
                if as_json
                else _as_text(case, found, late.get(case.id), printed)
            )
    sys.stderr.writelines(_not_created(interpreters) if hosts is None else ())
    heading = "" if as_json else _heading(resolved.name, len(cases), resolved.protocol, foreign)
    sys.stdout.writelines([heading, *texts])
    return int(wrong)


app = Command(plan)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Search for no cycles: ten thousand cases have none, and the search takes a tenth of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _not_created(interpreters: set[str]) -> Iterator[str]:
    """Yield a note for each environment of trainmark that the commands need and that does not exist yet."""
    from trainmark.environment.locations import folder_of, python_of
    from trainmark.files import default_home

    for path in (Path(word) for word in sorted(interpreters)):
        name = path.parent.parent.name
        if path == python_of(folder_of(default_home(os.environ), name)) and not path.exists():
            yield f"note: environment '{name}' is not created yet (trainmark env create {name})\n"


def _missing_interpreter(resolved: "Suite", case: "Case") -> str | None:
    """Return a sentence if the suite names an interpreter for the case that does not exist on this machine."""
    word = resolved.environment_of(case.framework)
    return (
        f"{word}: no such interpreter (environment)" if os.sep in word and not Path(word).exists() else None
    )


def _job(suite: Path, only: str | None, hosts: str | None, kind: str) -> str:
    from trainmark.cli.suite_input import read_suite
    from trainmark.schema.job import JobKind
    from trainmark.submission import make_job, render
    from trainmark.suite import load_job, select

    if kind not in set(JobKind):
        raise InputError(f"--as {kind}: unknown kind of job{nearest(kind, JobKind)} ({', '.join(JobKind)})")
    if hosts is None:
        raise InputError(
            f"--as {kind}: add --hosts FILE; its 'job' section names the directory for the results"
        )
    settings, names = load_job(hosts)
    resolved = read_suite(suite)
    cases = resolved.cases if only is None else select(resolved.cases, only)
    job = make_job(suite, resolved.name, cases, only, settings, names, hosts)
    if JobKind(kind) is not JobKind.SBATCH:
        _check_pods(resolved, kind)
    return render(job, JobKind(kind))


def _check_pods(resolved: "Suite", kind: str) -> None:
    """Raise ``InputError`` for a command that pods cannot run, and name the folders that they need."""
    from trainmark.workload import is_srun, load_workloads
    from trainmark.workload.source import FilesSource

    cards = load_workloads(Path(card) for card in resolved.cards)
    for card in {case.workload: cards.find(case).card for case in resolved.cases}.values():
        if is_srun(card.command):
            raise InputError(
                f"--as {kind}: the command of {card.name} is srun, but pods have no Slurm; use torchrun or mpirun"
            )
        if isinstance(card.source, FilesSource):
            sys.stderr.write(
                f"note: the program of {card.name} is not part of the job: the pods need {card.working_directory} "
                "from their image or a claim\n"
            )


def _heading(name: str, cases: int, protocol: "Protocol", foreign: bool) -> str:
    fixed = protocol.min_repeats == protocol.max_repeats
    repeats = f"{protocol.min_repeats}" if fixed else f"{protocol.min_repeats} to {protocol.max_repeats}"
    runs = "run" if protocol.max_repeats == 1 else "runs"
    steps = f"{protocol.steps} steps per run, the first {protocol.warmup_steps} not measured"
    if foreign:
        steps = "as many steps per run as the command requests"
    return (
        f"# suite {name}: {cases} case{'s' if cases != 1 else ''}, {repeats} {runs} each, {steps} "
        f"(protocol {protocol.name.value})\n"
    )


def _as_text(case: "Case", found: "Plan | CannotStart", cannot_end: str | None, printed: set[str]) -> str:
    """Return the lines of a case without the preparation commands in ``printed``, and add the new ones to it."""
    lines = [f"\n# {case.id}"]
    if _reason(found):
        lines.append(f"# cannot run here: {_reason(found)}")
    if cannot_end:
        lines.append(f"# cannot end in time: {cannot_end}")
    lines += [f"# by hand: {step}" for step in getattr(found, "by_hand", ())]
    heading = None
    for description, command in _preparation(found):
        if command not in printed:
            lines += [f"# before: {description}"] * (description != heading)
            lines.append(command)
            printed.add(command)
            heading = description
    for command in getattr(found, "commands", ()):
        if case.nodes > 1:
            lines.append(f"# on node {command.node}")
        lines.append(command.text())
    return "\n".join(lines) + "\n"


def _as_json(case: "Case", found: "Plan | CannotStart", cannot_end: str | None) -> str:
    value: dict[str, Any] = {
        "id": case.id,
        "case": case.model_dump(mode="json"),
        "before": [
            {"description": description, "command": command} for description, command in _preparation(found)
        ],
        "commands": _commands(found),
        "by_hand": list(getattr(found, "by_hand", ())),
        "cannot_run": _reason(found),
        "cannot_end": cannot_end,
    }
    return json.dumps(value, ensure_ascii=False) + "\n"


def _commands(found: "Plan | CannotStart") -> list[dict[str, Any]]:
    nodes = getattr(found, "nodes", ())
    return [
        {
            "node": command.node,
            "host": nodes[command.node].host,
            "rank": command.rank,
            "words": command.words,
            "variables": command.variables,
            "without": command.without,
        }
        for command in getattr(found, "commands", ())
    ]


def _preparation(found: "Plan | CannotStart") -> list[tuple[str, str]]:
    return [line for preparation in getattr(found, "preparations", ()) for line in preparation.lines()]


def _reason(found: "Plan | CannotStart") -> str | None:
    return getattr(found, "cannot_run", None) or getattr(found, "reason", None)
