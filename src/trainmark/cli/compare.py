"""``trainmark compare``: compare results case by case, and list what else differs between them."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from trainmark.cli.typer_commands import with_groups

if TYPE_CHECKING:
    from trainmark.schema.comparison import Comparison, History
    from trainmark.schema.results import Results

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

_MOST_CAMPAIGNS = 20
"""The number of earlier campaigns that are read at most, the latest ones."""

_SOURCE = "The --out directory of a trainmark run, its results.json, STORE#CAMPAIGN of a database, or a log."


@dataclass(frozen=True, slots=True)
class CaseOptions:
    """The compared cases, and the difference that counts; None for an option that is not given."""

    within: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            max=100.0,
            metavar="PERCENT",
            help="Treat differences of up to this as no change. Default for one baseline: the usual difference between "
            "its earlier campaigns on this machine, if the database (--history) has three or more; else 0.",
        ),
    ] = None
    history: Annotated[
        str | None,
        typer.Option(
            metavar="STORE",
            help="The database with earlier campaigns, for the default of --within; default: that of STORE#CAMPAIGN.",
        ),
    ] = None
    only: Annotated[
        str | None,
        typer.Option(help="Compare only these cases, as in trainmark run (axis=value|value, or a pattern)."),
    ] = None
    ignoring: Annotated[
        str | None,
        typer.Option(metavar="AXIS,…", help="Axes on which A and B may differ, e.g. precision,compiler."),
    ] = None

    @property
    def share(self) -> float | None:
        """The difference of ``within``, as a share."""
        return None if self.within is None else self.within / 100


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The facts that two logs lack, and how they are read; None for an option that is not given."""

    gpus: Annotated[
        int | None, typer.Option(min=1, help="For logs: the number of devices, if they do not state it.")
    ] = None
    batch: Annotated[
        int | None, typer.Option(min=1, help="For logs: the batch size per device, if they do not state it.")
    ] = None
    skip: Annotated[
        int | None, typer.Option(min=0, help="For logs: the number of records to skip at the start of each.")
    ] = None
    format: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE.yaml",
            help="For logs: read both in this format, as in trainmark parse.",
        ),
    ] = None


@app.command()
@with_groups
def compare(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="A B | BASELINE... --to CANDIDATE | DIR --axis NAME",
            help="The baseline A and the result B to judge; or several baselines with --to; or one result with --axis. "
            f"{_SOURCE}",
        ),
    ],
    to: Annotated[
        str | None,
        typer.Option(
            metavar="CANDIDATE",
            help="The result to judge; all others are campaigns of one baseline, and every interval includes the "
            "variation between them. Use three or more.",
        ),
    ] = None,
    axis: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[=BASE]",
            help="Pair the cases of one result that differ only in this axis or option; the baseline has the value "
            "BASE (default: the value of the first case).",
        ),
    ] = None,
    *,
    cases: CaseOptions,
    for_logs: LogOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as one JSON object.")] = False,
) -> None:
    """Compare results case by case (faster, slower or not distinguishable), and list what else differs.

    Two cases are compared if they have equal values on all axes except the ignored ones. The whole table has one
    significance level: if nothing changed, at most 5 % of tables call any case faster or slower (Holm's method).
    With one baseline this covers only the variation between the runs of one campaign; with several (BASE1 BASE2 BASE3
    --to CANDIDATE), also the variation between campaigns. A and B may also be two training logs of any known program.
    Exit code 1: a case is slower, or has a number only in the baseline. For two logs: B is slower, or the logs have
    too few records to tell. With --axis: a case has no number where its baseline has one.
    """
    from trainmark.cli.log_compare import compare_two_logs, is_log

    if axis is not None:
        if any(option is not None for option in (to, cases.history)) or for_logs != LogOptions():
            from trainmark.errors import InputError

            raise InputError(
                "--axis takes one result; of the other options only --only, --ignoring, --within and --json"
            )
        raise typer.Exit(_compare_axis(sources, axis, cases, as_json=as_json))
    baselines, candidate = _sides(sources, to)
    logs = [is_log(source) for source in (*baselines, candidate)]
    if all(logs) and len(logs) == 2:
        from trainmark.logs import Facts

        given = Facts(gpus=for_logs.gpus, batch_per_device=for_logs.batch)
        raise typer.Exit(
            compare_two_logs(
                (baselines[0], candidate),
                given,
                for_logs.skip,
                cases.share or 0.0,
                for_logs.format,
                as_json=as_json,
            )
        )
    if any(logs) or for_logs != LogOptions():
        from trainmark.errors import InputError

        raise InputError(
            "a log can be compared only with one other log: compare two logs, or two results"
            if any(logs)
            else "--gpus, --batch, --skip and --format are for two logs"
        )
    raise typer.Exit(_compare_results(baselines, candidate, cases, as_json=as_json))


def _compare_results(baselines: list[str], candidate: str, given: CaseOptions, *, as_json: bool) -> int:
    """Print the comparison of results; return 1 if a case is slower in the candidate or missing there."""
    from trainmark.cli.results import results_at, selected
    from trainmark.insight import compare as compared

    sides = [selected(results_at(source), given.only) for source in (*baselines, candidate)]
    axes, known = axes_to_ignore(given.ignoring, sides), None
    if given.within is None and len(baselines) == 1:
        known = _history(given.history, (baselines[0], candidate), sides)
    found = compared(sides[:-1], sides[-1], (*baselines, candidate), given.share, axes, known)
    _print(found, as_json=as_json)
    return 0 if found.holds else 1


def _print(found: "Comparison", *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(found.to_json())
        return
    from trainmark.report.comparison import render_comparison

    sys.stdout.write(render_comparison(found))


def _compare_axis(sources: list[str], name: str, given: CaseOptions, *, as_json: bool) -> int:
    """Print the comparison of the cases of one result that differ in one axis; return 1 if a number is missing."""
    from trainmark.cli.results import results_at, selected
    from trainmark.errors import InputError
    from trainmark.insight import compare_axis

    if len(sources) != 1:
        raise InputError(f"--axis pairs the cases of one result: {len(sources)} are given")
    axis, _, base = name.partition("=")
    results = selected(results_at(sources[0]), given.only)
    ignored = axes_to_ignore(given.ignoring, [results])
    found = compare_axis(results, axis, base or None, sources[0], given.share or 0.0, ignored)
    _print(found, as_json=as_json)
    return 1 if any(case.lost for case in found.cases) else 0


def _sides(sources: list[str], to: str | None) -> tuple[list[str], str]:
    """Return the baselines and the candidate; raise ``InputError`` if the candidate is unclear."""
    if to is not None:
        return sources, to
    if len(sources) != 2:
        from trainmark.errors import InputError

        if len(sources) == 1:
            raise InputError(
                f"compare takes two results: add the candidate after {sources[0]}, or compare the cases of this one "
                "that differ in an axis: --axis NAME"
            )
        raise InputError(
            f"compare takes a baseline and a candidate, not {len(sources)} results; several baselines need --to: "
            "trainmark compare BASE1 BASE2 BASE3 --to CANDIDATE"
        )
    return sources[:1], sources[1]


def _history(given: str | None, sources: tuple[str, str], sides: "list[Results]") -> "History | None":
    """Return what the database with earlier campaigns shows of the variation between them; None if it is unknown."""
    from trainmark.cli.results import database_of
    from trainmark.insight import history_of

    store = given or next(filter(None, (database_of(source)[0] for source in sources)), None)
    if store is None:
        return None
    from trainmark.campaign import stored_results
    from trainmark.store import existing_store

    database = existing_store(store)
    try:
        numbers = {number for case in sides[0].cases for number in database.throughputs(case.id)}
    finally:
        database.close()
    latest = sorted(numbers)[-_MOST_CAMPAIGNS:]
    return history_of(sides[0], sides[1], (stored_results(store, str(number))[0] for number in latest), store)


def axes_to_ignore(ignoring: str | None, sides: "list[Results]") -> list[str]:
    """Return the axes and options in a list of names; raise ``InputError`` for one that no case has."""
    from trainmark.errors import InputError, nearest

    names = [name.strip() for name in (ignoring or "").split(",") if name.strip()]
    cases = [result.case for side in sides for result in side.cases]
    known = {name: None for case in cases for name in (*case.axes, *case.options)}
    for name in names:
        if name not in known:
            raise InputError(f"--ignoring {name}: no case has this axis or option{nearest(name, known)}")
    return names
