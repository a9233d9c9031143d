"""``trainmark report``: a finished run as Markdown, HTML, CSV or JSON."""

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from trainmark.report import Language
    from trainmark.store import Results

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


class Format(StrEnum):
    """What a report can be turned into."""

    MD = "md"
    HTML = "html"
    JSON = "json"
    CSV = "csv"
    PADDLE_JSON = "paddle-json"
    DLPERF_JSON = "dlperf-json"


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
        Format | None,
        typer.Option("--to", help="Print in this format; without it, rewrite DIR's report files."),
    ] = None,
    lang: Annotated[Lang, typer.Option("--lang", help="The language of Markdown and HTML.")] = Lang.EN,
    output: Annotated[
        Path | None, typer.Option("--output", help="Write to this file instead of printing.")
    ] = None,
    campaign: Annotated[
        str | None,
        typer.Option(
            "--campaign", help="Of a database with several campaigns: the suite's name or the directory."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --to json.")] = False,
) -> None:
    """Write a run's results as a report: what was run on what, tables, speedups, charts, outcomes, environment."""
    from trainmark.campaign import stored_results
    from trainmark.errors import InputError
    from trainmark.files import write_atomically
    from trainmark.report import Language, write_reports
    from trainmark.store import write_results

    if as_json and to not in (None, Format.JSON):
        raise InputError(f"--json and --to {to} contradict each other; give one of them")
    wanted = Format.JSON if as_json else to
    if wanted is None and output is not None:
        raise InputError("--output needs --to: which format shall the file have?")
    language = Language(lang)
    if Path(source).is_dir():
        folder = Path(source)
        results = _results(folder)
    else:
        results, folder = stored_results(source, campaign)
        if wanted is None:
            raise InputError(
                "a database's reports go nowhere by themselves: say --to, and --output for a file"
            )
    try:
        if wanted is None:
            write_results(folder / "results.json", results)
            for path in write_reports(folder, results, language):
                sys.stderr.write(f"wrote {path}\n")
            return
        text = _render(results, folder, wanted, language, output)
        if output is None:
            sys.stdout.write(text)
        else:
            write_atomically(output, text)
    except OSError as error:
        raise InputError(f"{error.filename or source}: cannot be written: {error.strerror}") from None


def _results(source: Path) -> "Results":
    """Return a directory's results: read from its runs, or from ``results.json`` where that is all there is.

    A trainmark that was killed leaves runs and no ``results.json``.
    """
    from trainmark.campaign import collect_results
    from trainmark.errors import InputError
    from trainmark.execution import SUITE, ResultDirectory, read_suite
    from trainmark.store import read_results

    document = source / "results.json"
    if not ((source / SUITE).is_file() and (source / "runs").is_dir()):
        return read_results(document)
    try:
        command = read_results(document).command
    except InputError:
        command = f"trainmark run {source / SUITE} --out {source}"
    return collect_results(read_suite(source), ResultDirectory(source), command)


def _render(
    results: "Results", source: Path, wanted: Format, language: "Language", output: Path | None
) -> str:
    from trainmark.report import render_csv, render_html, render_markdown, write_plots

    match wanted:
        case Format.JSON:
            return results.model_dump_json(indent=1) + "\n"
        case Format.CSV:
            return render_csv(results)
        case Format.HTML:
            return render_html(results, source, language, _way(source, output))
        case Format.MD:
            if output is None:
                return render_markdown(results, source, language)
            plots = f"{output.stem}-plots"
            write_plots(output.parent / plots, results, source, language)
            return render_markdown(results, source, language, _way(source, output), plots)
        case Format.PADDLE_JSON | Format.DLPERF_JSON:
            return _exchanged(results, wanted)


def _exchanged(results: "Results", wanted: Format) -> str:
    from trainmark.files import to_json
    from trainmark.report.exchange import dlperf_json, mission_for, paddle_row, rows_from_results

    rows = rows_from_results(results)
    if wanted is Format.DLPERF_JSON:
        return to_json(dlperf_json(rows))
    return to_json([paddle_row(row, mission_for(row.model)) for row in rows])


def _way(source: Path, output: Path | None) -> str:
    """Return the path that leads from the output's folder to ``source``, as links need it."""
    if output is None:
        return ""
    way = Path(os.path.relpath(source.resolve(), output.resolve().parent)).as_posix()
    return "" if way == "." else f"{way}/"
