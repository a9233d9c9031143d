"""``trainmark history``: results over time, their changes of level and the causes."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from trainmark.history import Point
    from trainmark.schema.history import HistoryReport

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

_LONGEST_NAME = 150


@app.command()
def history(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="STORE | DIR...",
            help="A database with campaigns, or result directories (--out of trainmark run), or a directory of those.",
        ),
    ],
    case: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Only cases whose id matches, e.g. 'pytorch-*amp*'.")
    ] = None,
    least: Annotated[
        float,
        typer.Option(min=0.0, max=100.0, metavar="PERCENT", help="The smallest change of level that counts."),
    ] = 1.5,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            help="Exit with code 1 only for regressions since this day, e.g. 2026-11-01 (UTC).",
        ),
    ] = None,
    plots: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write an SVG picture of each case to this directory.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the histories as one JSON object.")] = False,
) -> None:
    """Find changes of level in the results of each case over time, and name their causes.

    Outliers, jumps between two levels, correlated neighbours, a slow drift and alternating machines do not hide a
    change. It is an alarm once 4 results confirm it. It is classified as a regression, an improvement, a change of
    method or a change of hardware, with the facts that changed at the same time.
    Exit code 1: a case has a confirmed regression.
    """
    from trainmark.history import analyse, render_history

    day = None if since is None else _day(since)
    cases = _points(sources)
    if case is not None:
        cases = _matching(cases, case)
    report = analyse(cases, sources, least / 100, day)
    if plots is not None:
        _write_plots(report, plots)
    sys.stdout.write(report.to_json() if as_json else render_history(report))
    raise typer.Exit(1 if report.alarms else 0)


def _day(text: str) -> datetime:
    from trainmark.errors import InputError

    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"--since {text}: expected a day, such as 2026-11-01") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _matching(cases: "dict[str, list[Point]]", pattern: str) -> "dict[str, list[Point]]":
    from fnmatch import fnmatchcase

    from trainmark.errors import InputError, nearest

    found = {case: points for case, points in cases.items() if fnmatchcase(case, pattern)}
    if not found:
        raise InputError(f"--case {pattern}: no case matches{nearest(pattern, cases)} ({len(cases)} cases)")
    return found


def _points(sources: list[str]) -> "dict[str, list[Point]]":
    """Return the points of each case; raise ``InputError`` if a source has none."""
    from trainmark.errors import InputError
    from trainmark.history import points_of_results, points_of_store

    folders = [Path(source) for source in sources if Path(source).is_dir()]
    if len(folders) == len(sources):
        from trainmark.campaign import result_folders, results_of

        found = [folder for source in folders for folder in result_folders(source)]
        return points_of_results((str(folder), results_of(folder)) for folder in found)
    if len(sources) > 1:
        raise InputError("give one database, or result directories")
    from trainmark.store import existing_store, require_database

    require_database(sources[0])
    store = existing_store(sources[0])
    try:
        points = points_of_store(store, sources[0])
    finally:
        store.close()
    if not points:
        raise InputError(f"{sources[0]}: no campaign has a case with a number")
    return points


def _write_plots(report: "HistoryReport", folder: Path) -> None:
    from trainmark.files import write_atomically
    from trainmark.report import Language, history_chart

    folder.mkdir(parents=True, exist_ok=True)
    for case in report.cases:
        name = "".join(letter if letter.isalnum() or letter in "._+-" else "_" for letter in case.case)
        write_atomically(folder / f"{name[:_LONGEST_NAME]}.svg", history_chart(case, Language.EN).file())
