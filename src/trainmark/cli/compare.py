"""``trainmark compare``: compare two results case by case, and list what else differs between them."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from trainmark.schema.results import Results

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

_SOURCE = "The --out directory of a trainmark run, its results.json, STORE#CAMPAIGN of a database, or a log."


@app.command()
def compare(
    baseline: Annotated[str, typer.Argument(metavar="A", help=f"The baseline. {_SOURCE}")],
    candidate: Annotated[
        str, typer.Argument(metavar="B", help="The result to judge, in the same forms as A.")
    ],
    within: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=100.0,
            metavar="PERCENT",
            help="Call a case faster or slower only if its whole interval differs by more than this.",
        ),
    ] = 0.0,
    only: Annotated[
        str | None,
        typer.Option(help="Compare only these cases, as in trainmark run (axis=value|value, or a pattern)."),
    ] = None,
    ignoring: Annotated[
        str | None,
        typer.Option(metavar="AXIS,…", help="Axes on which A and B may differ, e.g. precision,compiler."),
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(min=1, help="For logs: the number of devices, if they do not state it.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, help="For logs: the batch size per device, if they do not state it.")
    ] = None,
    skip: Annotated[
        int | None, typer.Option(min=0, help="For logs: the number of records to skip at the start of each.")
    ] = None,
    format_name: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME|FILE.yaml",
            help="For logs: read both by this format only, as in trainmark parse.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as one JSON object.")] = False,
) -> None:
    """Compare two results case by case (faster, slower or indistinguishable), and list what differs between A and B.

    Two cases are compared if they have equal values on all axes except the ignored ones. A and B may also be two
    training logs of any known program.
    Exit code 1: a case is slower in B, or has a result only in A. For two logs: B is slower, or the logs have too few
    records to tell.
    """
    from trainmark.cli.log_compare import compare_two_logs, is_log

    logs = [is_log(source) for source in (baseline, candidate)]
    if all(logs):
        from trainmark.logs import Facts

        given = Facts(gpus=gpus, batch_per_device=batch)
        sources = (baseline, candidate)
        raise typer.Exit(compare_two_logs(sources, given, skip, within / 100, format_name, as_json=as_json))
    _refuse_mixture(some_logs=any(logs), for_logs=(gpus, batch, skip, format_name))
    raise typer.Exit(_compare_results(baseline, candidate, within / 100, only, ignoring, as_json=as_json))


def _refuse_mixture(*, some_logs: bool, for_logs: tuple[object, ...]) -> None:
    """Raise ``InputError`` if one source is a log, or options ``for_logs`` are given although none is."""
    from trainmark.errors import InputError

    if some_logs:
        raise InputError("one of A and B is a log and the other is not: compare two logs, or two results")
    if any(option is not None for option in for_logs):
        raise InputError("--gpus, --batch, --skip and --format are for two logs")


def _compare_results(
    baseline: str, candidate: str, within: float, only: str | None, ignoring: str | None, *, as_json: bool
) -> int:
    """Print the comparison of two results; return 1 if a case is slower in the candidate or missing there."""
    from trainmark.cli.results import selected
    from trainmark.insight import compare as compared

    sides = [selected(_results(source), only) for source in (baseline, candidate)]
    found = compared(sides[0], sides[1], (baseline, candidate), within, _axes(ignoring, sides))
    if as_json:
        sys.stdout.write(found.model_dump_json(indent=1) + "\n")
    else:
        from trainmark.report.comparison import render_comparison

        sys.stdout.write(render_comparison(found))
    return 0 if found.holds else 1


def _axes(ignoring: str | None, sides: "list[Results]") -> list[str]:
    from trainmark.errors import InputError, nearest

    names = [name.strip() for name in (ignoring or "").split(",") if name.strip()]
    known = {axis: None for side in sides for result in side.cases for axis in result.case.axes}
    for name in names:
        if name not in known:
            raise InputError(f"--ignoring {name}: no case has this axis{nearest(name, known)}")
    return names


def _results(source: str) -> "Results":
    if Path(source).suffix == ".json" and not Path(source).is_dir():
        from trainmark.store import read_results

        return read_results(Path(source))
    from trainmark.cli.results import results_from

    address, _, campaign = (source, "", "") if Path(source).is_dir() else source.partition("#")
    return results_from(address, campaign or None)[0]
