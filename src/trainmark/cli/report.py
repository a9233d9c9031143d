"""``trainmark report``: write results as Markdown, HTML, CSV or JSON, or as rows for other projects' databases."""

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from trainmark.report import Language
    from trainmark.schema.results import Results

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


class ReportFormat(StrEnum):
    """The output formats of ``--to``."""

    MD = "md"
    HTML = "html"
    JSON = "json"
    CSV = "csv"
    PADDLE_JSON = "paddle-json"
    DLPERF_JSON = "dlperf-json"


_EXCHANGED = (ReportFormat.PADDLE_JSON, ReportFormat.DLPERF_JSON)


class Lang(StrEnum):
    """The languages of a report, repeated here so that ``--help`` does not import the report."""

    EN = "en"
    ZH = "zh"


@app.command()
def report(
    source: Annotated[
        str,
        typer.Argument(
            metavar="DIR|STORE",
            help="The result directory (--out) of a trainmark run, or a database (SQLite file or URL).",
        ),
    ],
    to: Annotated[
        ReportFormat | None,
        typer.Option(help="Print this format; by default the report files in DIR are rewritten."),
    ] = None,
    lang: Annotated[Lang, typer.Option(help="The language of Markdown and HTML.")] = Lang.EN,
    output: Annotated[Path | None, typer.Option(help="Write to this file instead of printing.")] = None,
    campaign: Annotated[
        str | None,
        typer.Option(
            help="The campaign of a database, by its id, suite name or directory (see trainmark store list).",
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            help="With --to: only these cases, as in trainmark run (axis=value|value, or a pattern).",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="For paddle-json and dlperf-json: the name to write for the model.")
    ] = None,
    mission: Annotated[
        str | None,
        typer.Option(help="For paddle-json: the mission, if it cannot be derived from the model's name."),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            help="For Markdown and HTML: the case of each model that the first screen compares the others with, "
            "selected as with --only (default: the suite's baseline, else the first measured case).",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --to json.")] = False,
) -> None:
    """Write a report: hardware, throughput tables, speedups, charts, failed runs, environment.

    With --to paddle-json or dlperf-json: print rows for the databases of those projects (docs/reference/exchange.md).
    Exit code 1: a run cannot be written in that format, or there are no runs.
    """
    from trainmark.cli.results import selected
    from trainmark.errors import InputError
    from trainmark.report import Language

    if as_json and to not in (None, ReportFormat.JSON):
        raise InputError(f"--json and --to {to} contradict each other; give one of them")
    target = ReportFormat.JSON if as_json else to
    _refuse_unused_options(target, output, only, model, mission)
    if baseline is not None and target not in (None, ReportFormat.MD, ReportFormat.HTML):
        raise InputError("--baseline is for Markdown and HTML")
    language = Language(lang)
    results, folder = _results(source, campaign, target)
    try:
        if target is None:
            _write_all(results, folder, language, baseline)
            return
        whole = True
        results = selected(results, only)
        if target in _EXCHANGED:
            text, whole = _exchanged(results, target, model, mission)
        else:
            text = _render(results, folder, target, language, output, baseline)
        _write(text, output)
    except OSError as error:
        raise InputError(f"{error.filename or source}: cannot be written: {error.strerror}") from None
    if not whole:
        raise typer.Exit(1)


def _results(source: str, campaign: str | None, target: ReportFormat | None) -> "tuple[Results, Path]":
    """Return the results of a directory or a database, and their directory."""
    from trainmark.cli.results import results_from
    from trainmark.errors import InputError

    found = results_from(source, campaign)
    if target is None and not Path(source).is_dir():
        raise InputError(
            "a database has no report files to rewrite: add --to FORMAT (and --output FILE to write a file)"
        )
    return found


def _write_all(results: "Results", folder: Path, language: "Language", baseline: str | None) -> None:
    from trainmark.files import write_atomically
    from trainmark.report import write_reports
    from trainmark.schema.names import RESULTS

    _report_lost_runs(folder / RESULTS, results)
    write_atomically(folder / RESULTS, results.to_json())
    for path in write_reports(folder, results, language, baseline):
        sys.stderr.write(f"wrote {path}\n")


def _report_lost_runs(document: Path, results: "Results") -> None:
    """Print which measured runs are in the results.json to be replaced but no longer in the directory.

    Runs that still exist but are no longer measurable are printed with the reason. Raises ``InputError`` if the
    directory has none of the measured runs: the document is then the only copy, even if it cannot be read.
    """
    from trainmark.errors import InputError
    from trainmark.printable import counted
    from trainmark.store import read_results

    present = {(case.id, run.repeat): run for case in results.cases for run in case.runs}
    measured = any(run.measurement for run in present.values())
    try:
        before = read_results(document)
    except InputError:
        if measured or not document.is_file():
            return
        raise
    had = {
        (case.id, run.repeat): run.directory for case in before.cases for run in case.runs if run.measurement
    }
    lost = [folder for known, folder in had.items() if known not in present]
    unmeasured = [
        f"{run.directory} ({run.reason or run.outcome.value})"
        for known in had
        if (run := present.get(known)) is not None and run.measurement is None
    ]
    if had and not measured:
        state, remedy = "contains none of them", "put the runs back"
        if unmeasured:
            state, remedy = f"has no result for any of them: {unmeasured[0]}", "restore their files"
        raise InputError(
            f"{document}: records {counted(len(had), 'run')}, but runs/ {state}; the file is not overwritten: "
            f"{remedy}, or delete it"
        )
    for folders, one, more in (
        (lost, "is missing from runs/", "are missing from runs/"),
        (unmeasured, "no longer has a result", "no longer have a result"),
    ):
        if folders:
            now = one if len(folders) == 1 else more
            sys.stderr.write(f"{counted(len(folders), 'run')} of {document} {now}: {', '.join(folders)}\n")


def _write(text: str, output: Path | None) -> None:
    from trainmark.files import write_atomically

    if output is None:
        sys.stdout.write(text)
    else:
        write_atomically(output, text)


def _refuse_unused_options(
    target: ReportFormat | None, output: Path | None, only: str | None, model: str | None, mission: str | None
) -> None:
    from trainmark.errors import InputError

    if target is None and output is not None:
        raise InputError("--output needs --to FORMAT, the format of the file")
    if output is not None and not output.parent.is_dir():
        raise InputError(f"--output {output}: the folder {output.parent} does not exist")
    if target is None and only is not None:
        raise InputError("--only needs --to FORMAT: the report files in DIR have all cases")
    if target not in _EXCHANGED and model is not None:
        raise InputError("--model is for --to paddle-json and dlperf-json")
    if target is not ReportFormat.PADDLE_JSON and mission is not None:
        raise InputError("--mission is for --to paddle-json")


def _render(
    results: "Results",
    source: Path,
    target: ReportFormat,
    language: "Language",
    output: Path | None,
    baseline: str | None,
) -> str:
    from trainmark.report import render_csv, render_html, render_markdown, write_plots

    match target:
        case ReportFormat.JSON:
            return results.to_json()
        case ReportFormat.CSV:
            return render_csv(results)
        case ReportFormat.HTML:
            return render_html(results, source, language, _relative_path(source, output), baseline)
        case ReportFormat.MD:
            if output is None:
                return render_markdown(results, source, language, baseline=baseline)
            plots = f"{output.stem}-plots"
            write_plots(output.parent / plots, results, source, language)
            return render_markdown(results, source, language, _relative_path(source, output), plots, baseline)
        case _:
            raise AssertionError(target)


def _exchanged(
    results: "Results", target: ReportFormat, model: str | None, mission: str | None
) -> tuple[str, bool]:
    """Return the rows as JSON, and whether they are complete; print the runs that are left out."""
    from dataclasses import replace

    from trainmark.errors import InputError
    from trainmark.files import to_json
    from trainmark.report.exchange import (
        dlperf_json,
        list_rows,
        rows_from_results,
        why_no_rows,
        without_speedup,
    )

    _print_doubtful_cases(results)
    runs = rows_from_results(results)
    if model is not None:
        names = sorted({run.model for run in runs})
        if len(names) > 1:
            raise InputError(
                f"--model {model}: the results contain several models ({', '.join(names)}); select one with --only"
            )
        runs = tuple(replace(run, model=model) for run in runs)
    if not runs:
        sys.stderr.write(f"{why_no_rows(results)}, so there are no rows\n")
    if target is ReportFormat.DLPERF_JSON:
        text = to_json(dlperf_json(runs))
        sys.stderr.write("".join(f"{sentence}\n" for sentence in without_speedup(runs)))
        return text, bool(runs)
    listing = list_rows(runs, mission, "select with --only AXIS=VALUE,…")
    sys.stderr.write("".join(f"left out: {sentence}\n" for sentence in listing.left_out))
    return to_json(listing.rows), bool(listing.rows) and not listing.left_out


def _print_doubtful_cases(results: "Results") -> None:
    """Print which cases' results are in doubt: the exchange formats have no field for it."""
    from trainmark.insight import judged

    found = judged(results).findings
    assert found is not None
    for case in found.doubtful:
        codes = dict.fromkeys(doubt.code for doubt in found.doubts if doubt.case == case)
        sys.stderr.write(f"in doubt: {case}: {', '.join(codes)}\n")


def _relative_path(source: Path, output: Path | None) -> str:
    """Return the relative path from the output's folder to ``source``, as a prefix for links."""
    if output is None:
        return ""
    path = Path(os.path.relpath(source.resolve(), output.resolve().parent)).as_posix()
    return "" if path == "." else f"{path}/"
