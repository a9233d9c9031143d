"""``trainmark export``: write results for other tools, each through that tool's own library."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from trainmark.report.export import ExportFormat
    from trainmark.schema.comparison import Comparison
    from trainmark.schema.results import Results

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

_FORMATS = "parquet|mllog|mlflow|tensorboard|wandb|openmetrics|junit|github-summary"
_SUMMARY = "GITHUB_STEP_SUMMARY"


@app.command()
def export(
    source: Annotated[
        str,
        typer.Argument(
            metavar="DIR|STORE",
            help="The --out directory of a trainmark run, its results.json, or STORE#CAMPAIGN of a database.",
        ),
    ],
    to: Annotated[str, typer.Option(metavar=_FORMATS, help="The format (docs/how-to/exports.md).")],
    output: Annotated[
        str | None,
        typer.Option(
            metavar="PATH|URL",
            help="A new folder for parquet, mllog, tensorboard and wandb; a file for junit and github-summary "
            f"(default there: ${_SUMMARY}); a tracking URI for mlflow; a file or the address of a Pushgateway for "
            "openmetrics.",
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(help="Only these cases, as in trainmark run (axis=value|value, or a pattern)."),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BASELINE",
            help="For junit and github-summary: the result to compare with, as in trainmark compare BASELINE DIR; "
            "repeatable: several campaigns of one baseline.",
        ),
    ] = None,
    within: Annotated[
        float,
        typer.Option(
            min=0.0,
            max=100.0,
            metavar="PERCENT",
            help="With --against: treat differences of up to this as no change.",
        ),
    ] = 0.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was written as one JSON object.")
    ] = False,
) -> None:
    """Export results to another tool: figures with units, intervals, outcomes as words, doubts.

    Each format needs the library of its tool, an extra of trainmark. An export is written whole or not at all.
    """
    from trainmark.cli.results import results_at, selected
    from trainmark.report.export import EXPORTERS, export, find_format

    target = find_format(to)
    results = selected(results_at(source), only)
    comparison = _comparison(results, source, against, only, within / 100) if against else None
    place = output or _default(target)
    if not place:
        from trainmark.errors import InputError

        raise InputError(f"--to {target} needs --output: {EXPORTERS[target].output}")
    directory = Path(source) if Path(source).is_dir() else None
    done = export(results, target, place, directory, comparison)
    if as_json:
        import json

        document = {
            "format": done.format.value,
            "written": list(done.written),
            "cases": done.cases,
            "runs": done.runs,
        }
        sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=1) + "\n")
    for path in done.written:
        sys.stderr.write(f"wrote {path}\n")


def _default(target: "ExportFormat") -> str | None:
    from trainmark.report.export import ExportFormat

    return os.environ.get(_SUMMARY) if target is ExportFormat.GITHUB_SUMMARY else None


def _comparison(
    results: "Results", source: str, against: list[str], only: str | None, within: float
) -> "Comparison":
    from trainmark.cli.results import results_at, selected
    from trainmark.insight import compare

    baselines = [selected(results_at(one), only) for one in against]
    return compare(baselines, results, (*against, source), within)
