"""``trainmark bisect``: which commit, version or value made a program slower or faster."""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainmark.cli.typer_commands import WithCommand, with_groups, words_of
from trainmark.schema.names import BISECTION

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainmark.bisection import Search
    from trainmark.schema.bisection import Bisection, Candidate, CandidateKind, MeasuredRun, Skipped

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@dataclass(frozen=True, slots=True)
class CandidateOptions:
    """The searched candidates: commits, versions of a package, or values of an axis."""

    good: Annotated[str | None, typer.Option(metavar="COMMIT", help="A commit with the old speed.")] = None
    bad: Annotated[str | None, typer.Option(metavar="COMMIT", help="A later commit with the new speed.")] = (
        None
    )
    package: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=V1,V2",
            help="Versions of a package instead of commits, in order, the good one first.",
        ),
    ] = None
    vary: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=V1,V2", help="Values of {NAME} in the command, in order, the good one first."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class StopOptions:
    """The conditions that end the search."""

    confidence: Annotated[
        float, typer.Option(min=0.5, max=0.9999, help="Stop once the first bad one has this probability.")
    ] = 0.98
    least: Annotated[
        float,
        typer.Option(min=0.0, max=100.0, metavar="PERCENT", help="The smallest difference that counts."),
    ] = 1.0
    most_runs: Annotated[int, typer.Option(min=4, help="The maximum number of runs.")] = 60


@app.command(cls=WithCommand)
@with_groups
def bisect(
    context: typer.Context,
    *,
    searched: CandidateOptions,
    build: Annotated[
        str,
        typer.Option(
            metavar="'COMMAND'", help="Run in each commit (or next to each package) before its first run."
        ),
    ] = "",
    options: Annotated[
        str, typer.Option("--run", metavar="'OPTIONS'", help="Options of trainmark run, e.g. '--seconds 20'.")
    ] = "",
    out: Annotated[Path, typer.Option(help="The directory for builds, runs and the state.")] = Path("bisect"),
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue an interrupted bisection; finished runs are not repeated."),
    ] = False,
    stop: StopOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print the bisection as one JSON object.")] = False,
) -> None:
    """Find the commit, package version or value that made a command slower or faster.

    trainmark bisect --good v1.2 --bad HEAD -- python train.py --steps 50

    It first runs good and bad in the order A B B A until their difference is certain. Then it runs the candidate that
    divides the probability most evenly, and the good one after every second candidate, until one candidate is the first
    bad one with the requested confidence. It skips a candidate that cannot be built or twice gives no number.
    Exit code 0: the first bad one is found. 1: it is not, or good and bad are not distinguishable.
    """
    from trainmark.bisection import Search, Workshop, render_bisection
    from trainmark.errors import InputError
    from trainmark.schema.bisection import Bisection, Ending

    command = words_of(context)
    if not command:
        raise InputError("give the command to measure after '--': trainmark bisect … -- python train.py")
    kind, axis, candidates = _candidates(searched)
    state = Bisection(
        kind=kind,
        candidates=candidates,
        command=command,
        build=tuple(_split("--build", build)),
        run_options=tuple(_split("--run", options)),
    )
    state = _stored(out / BISECTION, state, resume=resume)
    workshop = Workshop(out.resolve(), Path.cwd(), state, axis)
    search = Search(state, stop.confidence, stop.least / 100, stop.most_runs)
    _run(search, workshop.measure, out / BISECTION)
    found = search.state
    workshop.remove_trees()
    sys.stdout.write(found.to_json() if as_json else render_bisection(found))
    ending = found.verdict.ending if found.verdict else None
    raise typer.Exit(0 if ending is Ending.FOUND else 1)


def _split(option: str, text: str) -> list[str]:
    from trainmark.errors import InputError

    try:
        return shlex.split(text)
    except ValueError as error:
        raise InputError(f"{option}: {error}") from None


def _candidates(given: CandidateOptions) -> "tuple[CandidateKind, str, tuple[Candidate, ...]]":
    """Return what is searched; raise ``InputError`` if it is not exactly one kind."""
    from trainmark.bisection import commits_between, listed
    from trainmark.errors import InputError
    from trainmark.schema.bisection import CandidateKind

    good, bad = given.good, given.bad
    kinds = [good is not None or bad is not None, given.package is not None, given.vary is not None]
    if sum(kinds) != 1 or (good is None) != (bad is None):
        raise InputError("give either --good and --bad (commits), or --package, or --vary")
    if given.package is not None:
        return CandidateKind.PACKAGE, *listed("--package", given.package)
    if given.vary is not None:
        return CandidateKind.VALUE, *listed("--vary", given.vary)
    assert good is not None
    assert bad is not None
    return CandidateKind.COMMIT, "", commits_between(Path.cwd(), good, bad)


def _stored(path: Path, state: "Bisection", *, resume: bool) -> "Bisection":
    """Return the state to start from; raise ``InputError`` if there is one that must not be continued."""
    from pydantic import ValidationError

    from trainmark.errors import InputError
    from trainmark.schema.bisection import Bisection

    if not path.is_file():
        from trainmark.execution import require_empty

        require_empty(path.parent)
        return state
    if not resume:
        raise InputError(
            f"{path.parent}: has a bisection already: continue it with --resume, or choose another --out"
        )
    try:
        before = Bisection.model_validate_json(path.read_bytes())
    except ValidationError:
        raise InputError(f"{path}: not a bisection of this version") from None
    if before.question != state.question:
        raise InputError(f"{path.parent}: is a bisection of something else: choose another --out")
    return before.model_copy(update={"verdict": None})


def _run(search: "Search", measure: "Callable[[int], MeasuredRun | Skipped]", path: Path) -> None:
    """Run candidates until the verdict; the state is on disk after each."""
    from trainmark.files import write_atomically

    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, search.state.to_json())
    while (candidate := search.next_candidate()) is not None:
        label = search.state.candidates[candidate].label
        sys.stderr.write(f"run {len(search.state.runs) + 1}: {label}\n")
        search.add(measure(candidate))
        write_atomically(path, search.state.to_json())
    search.end()
    write_atomically(path, search.state.to_json())
