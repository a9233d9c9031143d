"""``trainmark run``: measure a suite."""

import os
import shlex
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from trainmark.cli.main import INTERRUPTED
from trainmark.errors import InputError, nearest

if TYPE_CHECKING:
    from trainmark.report import Language
    from trainmark.schema.results import Results

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def run(
    suite: Annotated[Path, typer.Argument(help="The suite's YAML file.", metavar="SUITE")],
    out: Annotated[
        Path | None, typer.Option("--out", help="The result directory; default: results/<suite>.")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            "--only", help="Run only these cases: axis=value|value,axis!=value, or a pattern of case ids."
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted run; finished runs are not repeated.")
    ] = False,
    hosts: Annotated[
        str | None,
        typer.Option(
            "--hosts",
            help="The hosts to run on: a hosts file (FILE or FILE:GROUP), slurm (the hosts of the allocation) or mpi "
            "(the hosts in OpenMPI's hostfile); default: this machine only.",
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine", help="How to reach the hosts (ssh, slurm or mpi); overrides the hosts file."
        ),
    ] = None,
    lang: Annotated[str, typer.Option("--lang", help="The language of the report: en or zh.")] = "en",
    as_json: Annotated[bool, typer.Option("--json", help="Print results.json instead of the table.")] = False,
) -> None:
    """Run a suite, print a table of the results, and save everything in the --out directory.

    Exit code 0: every case has a result; some may be marked as disturbed or not steady. 1: a case has no result (out
    of memory, failed, unsupported, ...), or did not do the requested work. 2: the suite or the directory cannot be
    used.
    """
    from trainmark.campaign import Order, reserve_hosts, run_campaign
    from trainmark.cli.hosts import chosen_hosts
    from trainmark.cli.progress import ProgressPrinter
    from trainmark.cli.suites import read_suite
    from trainmark.home import default_home
    from trainmark.report import Language
    from trainmark.suite import select

    if lang not in set(Language):
        raise InputError(f"--lang {lang}: no report in this language{nearest(lang, Language)} (en, zh)")
    resolved = read_suite(suite)
    directory = out or Path("results") / resolved.name
    order = Order(
        suite=resolved,
        cases=resolved.cases if only is None else select(resolved.cases, only),
        out=directory,
        resume=resume,
        home=default_home(os.environ),
        command=_command(suite, directory, {"--only": only, "--hosts": hosts, "--engine": engine}),
    )
    with (
        ProgressPrinter() as progress,
        interrupted_by(signal.SIGTERM, signal.SIGHUP),
        chosen_hosts(hosts, engine) as connected,
    ):
        if hosts is not None:
            reserve_hosts(connected, resolved.name, progress.readying)
        ending = run_campaign(replace(order, hosts=connected), progress)
    _show(ending.results, directory, Language(lang), as_json)
    if ending.interrupted:
        sys.stderr.write(
            f"interrupted; all finished runs are saved; continue with: {shlex.join(order.command)} --resume\n"
        )
        raise typer.Exit(INTERRUPTED)
    raise typer.Exit(0 if ending.results.holds else 1)


def _command(suite: Path, out: Path, options: Mapping[str, str | None]) -> tuple[str, ...]:
    """Return the command that repeats this call, with its result directory made explicit."""
    given = (text for option, value in options.items() if value is not None for text in (option, value))
    return ("trainmark", "run", str(suite), "--out", str(out), *given)


def _show(results: "Results", out: Path, language: "Language", as_json: bool) -> None:
    """Print the results, write the reports, and print the path of the HTML report."""
    from trainmark.campaign import explain_full_disk
    from trainmark.report import render_table, write_reports
    from trainmark.schema.names import RESULTS

    sys.stdout.write((out / RESULTS).read_text(encoding="utf-8") if as_json else render_table(results))
    sys.stdout.flush()
    with explain_full_disk(out):
        reports = write_reports(out, results, language)
    sys.stderr.write("".join(f"report: {path}\n" for path in reports if path.suffix == ".html"))


@contextmanager
def interrupted_by(*signals: signal.Signals) -> Iterator[None]:
    """Treat these signals like Ctrl-C: end the current run, keep the finished ones."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    # Signals that are ignored stay ignored: nohup ignores SIGHUP on our behalf.
    wanted = [number for number in signals if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
