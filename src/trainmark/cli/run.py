"""``trainmark run``: measure a suite."""

import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer
import typer.core

from trainmark.cli.main import INTERRUPTED
from trainmark.cli.run_options import CommandOptions, ComparisonOptions, RunOptions
from trainmark.cli.typer_commands import WithCommand, with_groups, words_of
from trainmark.errors import InputError, nearest

if TYPE_CHECKING:
    from trainmark.campaign import CampaignEnding
    from trainmark.cli.suite_input import CommandSuite
    from trainmark.report import Language
    from trainmark.schema.results import Results
    from trainmark.schema.suite import Suite

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(cls=WithCommand)
@with_groups
def run(
    context: typer.Context,
    suite: Annotated[
        Path | None,
        typer.Argument(
            help="The suite's YAML file; or a command line, after '--'.",
            metavar="SUITE | -- COMMAND",
            show_default=False,
        ),
    ] = None,
    *,
    options: RunOptions,
    given: CommandOptions,
    comparison: ComparisonOptions,
) -> None:
    """Measure a suite, or any training program by its command line; save everything in the --out directory.

    trainmark run -- torchrun --nproc-per-node 2 train.py --batch-size 32
    runs the command three times, unchanged, in the current folder and environment; reads its log and watches its
    processes.

    Exit code 0: every case has a result; some may be marked as disturbed or not steady. 1: a case has no result (out
    of memory, failed, unsupported, ...), its work is in doubt (not the requested work, or guessed), or the runs do not
    show what is required; the last line names the case. 2: the suite or the directory cannot be used. With --against,
    1: the command is slower.
    """
    from trainmark.cli.suite_input import (
        check_program,
        command_suite,
        count_hosts,
        default_directory,
        hosts_of,
        nodes_of,
        read_suite,
        refuse_command,
    )

    _language(options.lang)
    words = words_of(context)
    if (suite is None) is (words is None):
        raise InputError("give a suite's file, or a command after '--': trainmark run -- python train.py")
    _check_minutes(options.wait_quiet)
    _pin(options.cpus, options.hosts)
    if words is None:
        assert suite is not None
        refuse_command(suite)
        _refuse_options(given, comparison)
        resolved = read_suite(suite)
        directory = options.out or Path("results") / resolved.name
        _measure(options, resolved, directory, ("trainmark", "run", str(suite)))
        return
    if comparison.against is not None:
        from trainmark.cli.paired_run import compare_commands

        raise typer.Exit(compare_commands(words, given, comparison, options))
    of_turns = comparison.block_seconds, comparison.rounds, comparison.starts, comparison.seed
    if any(one is not None for one in of_turns):
        raise InputError("--block-seconds, --rounds, --starts and --seed are for --against")
    options = replace(options, hosts=options.hosts or hosts_of(words, given, os.environ))
    given = replace(given, nodes=nodes_of(words, given, count_hosts(options.hosts, options.engine)))
    found = command_suite(words, given, Path.cwd())
    if options.hosts is None:
        check_program(words, Path.cwd())
    baseline = None if comparison.baseline is None else _baseline(comparison.baseline)
    _measure_command(options, found, options.out or default_directory(found.name), baseline)


def _language(given: str) -> "Language":
    """Return the language of ``--lang``; raise ``InputError`` for an unknown one."""
    from trainmark.report import Language

    if given not in set(Language):
        raise InputError(f"--lang {given}: no report in this language{nearest(given, Language)} (en, zh)")
    return Language(given)


def _refuse_options(given: CommandOptions, comparison: ComparisonOptions) -> None:
    """Raise ``InputError`` for an option of a command in a call with a suite, where it would have no effect."""
    for group in (given, comparison):
        for one in fields(group):
            if getattr(group, one.name) is not None:
                instead = (
                    "compare two results by: trainmark compare A B"
                    if one.name == "baseline"
                    else "a suite has such settings in its file (docs/reference/suites.md)"
                )
                raise InputError(f"--{one.name.replace('_', '-')}: is for a command after '--'; {instead}")


def _baseline(given: Path) -> "tuple[Path, Results]":
    """Return the results of ``--baseline``; raise ``InputError``, before anything runs, if there are none."""
    from trainmark.campaign import results_of

    if not given.is_dir():
        raise InputError(f"--baseline {given}: no such result directory")
    return given, results_of(given)


def _measure_command(
    options: RunOptions,
    found: "CommandSuite",
    directory: Path,
    baseline: "tuple[Path, Results] | None",
) -> None:
    """Write the suite and the card of a command, measure it, and compare it with an earlier result."""
    from trainmark.cli.run_output import compare_baseline, print_command_results
    from trainmark.cli.suite_input import read_suite

    with found.stored(directory) as path:
        results = run_suite(options, read_suite(path), directory, ("trainmark", "run", str(path)))
    holds, ratios = (
        (True, "") if baseline is None else compare_baseline(*baseline, results.results, directory)
    )
    if not options.as_json:
        print_command_results(results.results, directory, found)
        sys.stdout.write(ratios)
    _end(options, results, directory)
    if not holds:
        raise typer.Exit(1)


def _measure(options: RunOptions, resolved: "Suite", directory: Path, command: tuple[str, ...]) -> None:
    """Measure a suite, and print its table."""
    from trainmark.report import render_table

    ending = run_suite(options, resolved, directory, command)
    if not options.as_json:
        sys.stdout.write(render_table(ending.results))
    _end(options, ending, directory)


def _repeating(options: RunOptions, words: tuple[str, ...], directory: Path) -> tuple[str, ...]:
    """Return the command that repeats this call, with its result directory made explicit."""
    values = {
        "--only": options.only,
        "--hosts": options.hosts,
        "--engine": options.engine,
        "--wait-quiet": None if options.wait_quiet is None else f"{options.wait_quiet:g}",
        "--cpus": options.cpus,
    }
    given = (text for flag, value in values.items() if value is not None for text in (flag, value))
    flags = {"--profile": options.profile, "--profile-trace": options.profile_trace}
    return (*words, "--out", str(directory), *given, *(flag for flag, is_given in flags.items() if is_given))


def run_suite(
    options: RunOptions, resolved: "Suite", directory: Path, words: tuple[str, ...]
) -> "CampaignEnding":
    """Run a suite's cases, and return how the campaign ended.

    ``words`` begin the command that repeats the run, which is stored with the results; the options follow them.
    """
    from trainmark.imports import require_for_runs

    require_for_runs()
    from trainmark.campaign import Order, QuietWait, reserve_hosts, run_campaign
    from trainmark.cli.run_output import ProgressPrinter
    from trainmark.cli.suite_input import chosen_hosts
    from trainmark.files import default_home
    from trainmark.schema.suite import ProfileMode
    from trainmark.suite import select

    if options.profile or options.profile_trace:
        mode = ProfileMode.TRACE if options.profile_trace else ProfileMode.REDUCED
        resolved = resolved.model_copy(update={"profile": mode})
    order = Order(
        suite=resolved,
        cases=resolved.cases if options.only is None else select(resolved.cases, options.only),
        out=directory,
        resume=options.resume or options.retry_failed,
        retry_failed=options.retry_failed,
        home=default_home(os.environ),
        command=_repeating(options, words, directory),
        quiet=None if options.wait_quiet is None else QuietWait(options.wait_quiet),
    )
    with (
        ProgressPrinter() as progress,
        signals_interrupt(),
        chosen_hosts(options.hosts, options.engine) as connected,
    ):
        if options.hosts is not None:
            reserve_hosts(connected, resolved.name, progress.readying)
        return run_campaign(replace(order, hosts=connected), progress)


def _end(options: RunOptions, ending: "CampaignEnding", directory: Path) -> None:
    """Write the reports, and exit with the code of the results."""
    from trainmark.campaign import explain_full_disk
    from trainmark.cli.run_output import exit_reason, retry_advice
    from trainmark.report import write_reports
    from trainmark.schema.names import RESULTS

    if options.as_json:
        sys.stdout.write((directory / RESULTS).read_text(encoding="utf-8"))
    sys.stdout.flush()
    with explain_full_disk(directory):
        reports = write_reports(directory, ending.results, _language(options.lang))
    sys.stderr.write("".join(f"report: {path}\n" for path in reports if path.suffix == ".html"))
    if ending.interrupted:
        again = shlex.join(shlex.split(ending.results.command or ""))
        sys.stderr.write(f"interrupted; all finished runs are saved; continue with: {again} --resume\n")
        raise typer.Exit(INTERRUPTED)
    sys.stderr.write(retry_advice(ending.results) + exit_reason(ending.results))
    raise typer.Exit(0 if ending.results.holds else 1)


def _check_minutes(given: float | None) -> None:
    """Raise ``InputError`` if the minutes of ``--wait-quiet`` are negative or not a number."""
    if given is not None and not given >= 0:
        raise InputError(f"--wait-quiet {given:g}: minutes must not be negative")


def _pin(cpus: str | None, hosts: str | None) -> None:
    """Limit this program and its runs to the CPUs of ``--cpus``; raise ``InputError`` if that is impossible."""
    from trainmark.campaign.quiet import pin
    from trainmark.node.machine import parse_cpus

    if cpus is None:
        return
    if hosts is not None:
        raise InputError(
            f"--cpus {cpus}: is for this machine; on other hosts use `taskset` or the job's cpuset"
        )
    try:
        pin(parse_cpus(cpus))
    except (ValueError, OSError) as error:
        raise InputError(f"--cpus {cpus}: {error}") from None


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """Treat SIGTERM and SIGHUP like Ctrl-C: end the current run, keep the finished ones."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    # Signals that are ignored stay ignored: nohup ignores SIGHUP on our behalf.
    wanted = [
        number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN
    ]
    before = {number: signal.signal(number, interrupt) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
