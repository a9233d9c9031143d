"""``trainmark report``: a finished run as Markdown, HTML, CSV or JSON, or as rows for databases."""

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
    """What a report can be turned into."""

    MD = "md"
    HTML = "html"
    JSON = "json"
    CSV = "csv"
    PADDLE_JSON = "paddle-json"
    DLPERF_JSON = "dlperf-json"


_EXCHANGED = (ReportFormat.PADDLE_JSON, ReportFormat.DLPERF_JSON)


class Lang(StrEnum):
    """The languages of a report, said here so that ``--help`` need not load the report."""

    EN = "en"
    ZH = "zh"


@app.command()
def report(
    source: Annotated[
        str,
        typer.Argument(
            metavar="DIR|STORE",
            help="The --out directory of a trainmark run, or a database of runs (file or URL).",
        ),
    ],
    to: Annotated[
        ReportFormat | None,
        typer.Option("--to", help="Print in this format; without it, rewrite DIR's report files."),
    ] = None,
    lang: Annotated[Lang, typer.Option("--lang", help="The language of Markdown and HTML.")] = Lang.EN,
    output: Annotated[
        Path | None, typer.Option("--output", help="Write to this file instead of printing.")
    ] = None,
    campaign: Annotated[
        str | None,
        typer.Option(
            "--campaign",
            help="Of a database with several campaigns: the number, the suite's name or the directory.",
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            "--only", help="For rows: these cases only, as in run (axis=value|value, or a pattern)."
        ),
    ] = None,
    model: Annotated[str | None, typer.Option(help="For rows: the model's name in them.")] = None,
    mission: Annotated[
        str | None,
        typer.Option(help="For paddle-json: the mission, where the model's name does not tell it."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --to json.")] = False,
) -> None:
    """Write a run's results as a report: what was run on what, tables, speedups, charts, outcomes, environment.

    With --to paddle-json or dlperf-json: rows for the databases of others (docs/exchange.md).
    Exit code 1: some run has no place in them, or there is none.
    """
    from trainmark.errors import InputError
    from trainmark.report import Language

    if as_json and to not in (None, ReportFormat.JSON):
        raise InputError(f"--json and --to {to} contradict each other; give one of them")
    wanted = ReportFormat.JSON if as_json else to
    _refuse_unheeded(wanted, output, only, model, mission)
    language = Language(lang)
    results, folder = _results(source, campaign, wanted)
    try:
        if wanted is None:
            _write_all(results, folder, language)
            return
        whole = True
        if wanted in _EXCHANGED:
            text, whole = _exchanged(results, wanted, only, model, mission)
        else:
            text = _render(results, folder, wanted, language, output)
        _write(text, output)
    except OSError as error:
        raise InputError(f"{error.filename or source}: cannot be written: {error.strerror}") from None
    if not whole:
        raise typer.Exit(1)


def _results(source: str, campaign: str | None, wanted: ReportFormat | None) -> "tuple[Results, Path]":
    """Return the results of a directory or a database, and the directory that they are of."""
    from trainmark.cli.results import results_from
    from trainmark.errors import InputError

    found = results_from(source, campaign)
    if wanted is None and not Path(source).is_dir():
        raise InputError("a database's reports go nowhere by themselves: say --to, and --output for a file")
    return found


def _write_all(results: "Results", folder: Path, language: "Language") -> None:
    from trainmark.report import write_reports
    from trainmark.schema.names import RESULTS
    from trainmark.store import write_results

    _say_lost(folder / RESULTS, results)
    write_results(folder / RESULTS, results)
    for path in write_reports(folder, results, language):
        sys.stderr.write(f"wrote {path}\n")


def _say_lost(kept: Path, results: "Results") -> None:
    """Say which measured runs a results.json has that is to be replaced, and the directory has no more.

    Those that are there and give no number any more are told with the reason. Raises ``InputError`` where it has none
    of them: the document is all that is left, also one that cannot be read.
    """
    from trainmark.errors import InputError, counted
    from trainmark.store import read_results

    there = {(case.id, run.repeat): run for case in results.cases for run in case.runs}
    measured = any(run.measurement for run in there.values())
    try:
        before = read_results(kept)
    except InputError:
        if measured or not kept.is_file():
            return
        raise
    had = {
        (case.id, run.repeat): run.directory for case in before.cases for run in case.runs if run.measurement
    }
    lost = [folder for known, folder in had.items() if known not in there]
    silent = [
        f"{run.directory} ({run.reason or run.outcome.value})"
        for known in had
        if (run := there.get(known)) is not None and run.measurement is None
    ]
    if had and not measured:
        has, way = "has none of them", "put them back"
        if silent:
            has, way = f"has no number of any: {silent[0]}", "restore what they wrote"
        raise InputError(
            f"{kept}: has {counted(len(had), 'run')}, and runs/ {has}; it stays as it is: {way}, or take it away"
        )
    for folders, one, more in (
        (lost, "is gone from runs/", "are gone from runs/"),
        (silent, "has no number any more", "have no number any more"),
    ):
        if folders:
            now = one if len(folders) == 1 else more
            sys.stderr.write(f"{counted(len(folders), 'run')} that {kept} had {now}: {', '.join(folders)}\n")


def _write(text: str, output: Path | None) -> None:
    from trainmark.files import write_atomically

    if output is None:
        sys.stdout.write(text)
    else:
        write_atomically(output, text)


def _refuse_unheeded(
    wanted: ReportFormat | None, output: Path | None, only: str | None, model: str | None, mission: str | None
) -> None:
    from trainmark.errors import InputError

    if wanted is None and output is not None:
        raise InputError("--output needs --to: which format shall the file have?")
    if output is not None and not output.parent.is_dir():
        raise InputError(f"--output {output}: the folder {output.parent} does not exist")
    if wanted not in _EXCHANGED and (only is not None or model is not None):
        raise InputError("--only and --model are for --to paddle-json and dlperf-json")
    if wanted is not ReportFormat.PADDLE_JSON and mission is not None:
        raise InputError("--mission is for --to paddle-json")


def _render(
    results: "Results", source: Path, wanted: ReportFormat, language: "Language", output: Path | None
) -> str:
    from trainmark.report import render_csv, render_html, render_markdown, write_plots

    match wanted:
        case ReportFormat.JSON:
            return results.model_dump_json(indent=1) + "\n"
        case ReportFormat.CSV:
            return render_csv(results)
        case ReportFormat.HTML:
            return render_html(results, source, language, _way(source, output))
        case ReportFormat.MD:
            if output is None:
                return render_markdown(results, source, language)
            plots = f"{output.stem}-plots"
            write_plots(output.parent / plots, results, source, language)
            return render_markdown(results, source, language, _way(source, output), plots)
        case _:
            raise AssertionError(wanted)


def _exchanged(
    results: "Results", wanted: ReportFormat, only: str | None, model: str | None, mission: str | None
) -> tuple[str, bool]:
    """Return the rows as JSON, and whether there are any and all runs are among them; say which are not."""
    from dataclasses import replace

    from trainmark.cli.results import selected
    from trainmark.errors import InputError
    from trainmark.files import to_json
    from trainmark.report.exchange import dlperf_json, list_rows, rows_from_results, without_speedup

    results = selected(results, only)
    _say_doubts(results)
    runs = rows_from_results(results)
    if model is not None:
        names = sorted({run.model for run in runs})
        if len(names) > 1:
            raise InputError(
                f"--model {model}: the results are of {', '.join(names)}; choose one with --only"
            )
        runs = tuple(replace(run, model=model) for run in runs)
    if not runs:
        sys.stderr.write("no run of these cases was started: there is no row\n")
    if wanted is ReportFormat.DLPERF_JSON:
        text = to_json(dlperf_json(runs))
        sys.stderr.write("".join(f"{sentence}\n" for sentence in without_speedup(runs)))
        return text, bool(runs)
    listing = list_rows(runs, mission, "choose with --only AXIS=VALUE,…")
    sys.stderr.write("".join(f"left out: {sentence}\n" for sentence in listing.left_out))
    return to_json(listing.rows), bool(listing.rows) and not listing.left_out


def _say_doubts(results: "Results") -> None:
    """Say which cases' numbers are in doubt: the rows of others have no place for it."""
    from trainmark.insight import judged

    found = judged(results).findings
    assert found is not None
    for case in found.doubtful:
        codes = dict.fromkeys(doubt.code for doubt in found.doubts if doubt.case == case)
        sys.stderr.write(f"in doubt: {case}: {', '.join(codes)}\n")


def _way(source: Path, output: Path | None) -> str:
    """Return the path that leads from the output's folder to ``source``, as links need it."""
    if output is None:
        return ""
    way = Path(os.path.relpath(source.resolve(), output.resolve().parent)).as_posix()
    return "" if way == "." else f"{way}/"
