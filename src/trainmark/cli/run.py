"""``trainmark run``: measure a suite."""

import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from trainmark.cli.main import INTERRUPTED
from trainmark.errors import InputError, nearest

if TYPE_CHECKING:
    from trainmark.campaign import CampaignEnding
    from trainmark.cli.suite_input import CommandSuite
    from trainmark.report import Language
    from trainmark.schema.results import Results
    from trainmark.schema.suite import Suite

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

_WORDS = "trainmark.command"
"""The key in the context's ``meta`` of the words after ``--``."""
_UsageError: Any = typer.BadParameter.__base__


class WithCommand(typer.core.TyperCommand):
    """A command that keeps everything after ``--`` as it is."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words before ``--``, and store those after it."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_WORDS], args = tuple(args[at + 1 :]), args[:at]
            return super().parse_args(ctx, args)
        try:
            return super().parse_args(ctx, args)
        except _UsageError as error:
            if "unexpected extra argument" in error.message:
                from trainmark.cli.suite_input import BEFORE_A_COMMAND

                error.message += f"; {BEFORE_A_COMMAND}"
            raise


def words_of(context: Any) -> tuple[str, ...] | None:
    """Return the words after ``--``; None without ``--``."""
    words: tuple[str, ...] | None = context.meta.get(_WORDS)
    return words


def _of_command(flag: str, text: str, **more: Any) -> Any:
    return typer.Option(flag, help=text, rich_help_panel="With -- COMMAND", **more)


@app.command(cls=WithCommand)
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
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed",
            help="Like --resume, and repeat the runs that failed, timed out or were invalid; their files are kept.",
        ),
    ] = False,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile",
            help="After the measured runs, run each case once more under its framework's profiler, and report the "
            "seconds of a step by kind of operation (docs/how-to/profile.md). That run is not measured.",
        ),
    ] = False,
    profile_trace: Annotated[
        bool,
        typer.Option("--profile-trace", help="Like --profile, and store the profiler's trace files."),
    ] = False,
    hosts: Annotated[
        str | None,
        typer.Option(
            "--hosts",
            help="The hosts to run on: a hosts file (FILE or FILE:GROUP), slurm (the hosts of the allocation) or mpi "
            "(the hosts in OpenMPI's hostfile); default: this machine only; for srun, or with --nodes, the hosts of "
            "the Slurm allocation.",
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine", help="How to reach the hosts (ssh, slurm or mpi); overrides the hosts file."
        ),
    ] = None,
    wait_quiet: Annotated[
        float | None,
        typer.Option(
            "--wait-quiet",
            help="Before each run, wait until other processes take less than 10 % of the CPUs, for at most MINUTES.",
            metavar="MINUTES",
        ),
    ] = None,
    cpus: Annotated[
        str | None,
        typer.Option("--cpus", help="Run on these CPUs of this machine only, such as 0-3,6.", metavar="LIST"),
    ] = None,
    lang: Annotated[str, typer.Option("--lang", help="The language of the report: en or zh.")] = "en",
    as_json: Annotated[bool, typer.Option("--json", help="Print results.json instead of the table.")] = False,
    name: Annotated[
        str | None,
        _of_command("--name", "The name of the program in results; default: its script's or folder's."),
    ] = None,
    vary: Annotated[
        list[str] | None,
        _of_command("--vary", "Values of {NAME} in the command: one case each.", metavar="NAME=V1,V2"),
    ] = None,
    env: Annotated[
        list[str] | None,
        _of_command("--env", "Values of an environment variable: one case each.", metavar="NAME=V1,V2"),
    ] = None,
    repeats: Annotated[
        int | None, _of_command("--repeats", "The number of runs of each case; default: 3.", min=1)
    ] = None,
    until_half_width: Annotated[
        float | None,
        _of_command(
            "--until-half-width",
            "Add runs, 10 at most, until half the interval's width is at most this share of the number, such as 0.01.",
            min=0.0001,
            max=1.0,
        ),
    ] = None,
    steps: Annotated[
        int | None, _of_command("--steps", "End each run (SIGINT) once its log shows this many steps.", min=1)
    ] = None,
    epochs: Annotated[
        int | None, _of_command("--epochs", "End each run once its log shows this many whole epochs.", min=1)
    ] = None,
    seconds: Annotated[
        float | None, _of_command("--seconds", "End each run (SIGINT) after this many seconds.", min=1)
    ] = None,
    timeout: Annotated[
        float | None,
        _of_command("--timeout", "The longest time of one run, in seconds; default: 3600.", min=1),
    ] = None,
    log_format: Annotated[
        str | None,
        _of_command(
            "--format",
            "The format of the program's log: a name (trainmark parse --list-formats) or a file that describes it "
            "(docs/how-to/describe-a-log.md); default: recognised.",
            metavar="NAME|FILE",
        ),
    ] = None,
    unit: Annotated[
        str | None,
        _of_command("--unit", "The unit of the throughput, such as samples/s, if the log does not state it."),
    ] = None,
    work_per_step: Annotated[
        str | None,
        _of_command(
            "--work-per-step",
            "The work of one step on all devices, if the log does not state it or its format is guessed: a number, "
            "or an expression with the names of --vary ('{batch} * 512').",
            metavar="N|EXPRESSION",
        ),
    ] = None,
    skip: Annotated[
        int | None, _of_command("--skip", "The number of records to leave out as warm-up.", min=0)
    ] = None,
    parameters: Annotated[
        str | None,
        _of_command(
            "--parameters",
            "The number of the model's parameters, for the MFU, if the log does not state it.",
            metavar="124M",
        ),
    ] = None,
    layers: Annotated[
        int | None,
        _of_command(
            "--layers",
            "The model's layers; with --hidden-size and --sequence-length the MFU counts attention: 12 L H Q T "
            "operations per token (PaLM).",
            min=1,
        ),
    ] = None,
    hidden_size: Annotated[
        int | None, _of_command("--hidden-size", "The model's width: heads times head size.", min=1)
    ] = None,
    sequence_length: Annotated[
        int | None, _of_command("--sequence-length", "The length of a sequence, in tokens.", min=1)
    ] = None,
    precision: Annotated[
        str | None,
        _of_command("--precision", "The precision, such as amp-bf16, if the log does not state it."),
    ] = None,
    baseline: Annotated[
        Path | None,
        _of_command(
            "--baseline",
            "At the end, compare with this earlier result directory, as trainmark compare does; exit code 1 if slower.",
            metavar="DIR",
        ),
    ] = None,
    devices: Annotated[
        int | None,
        _of_command("--devices", "The number of devices per node, if the command does not show it.", min=1),
    ] = None,
    nodes: Annotated[
        int | None,
        _of_command(
            "--nodes",
            "The number of nodes, each one of the --hosts; default: all hosts if the command has {node}, {nodes}, "
            "{master}, {hosts} or {world_size}, or is srun; else 1.",
            min=1,
        ),
    ] = None,
    against: Annotated[
        str | None,
        _of_command(
            "--against",
            "Compare the command with this one on a noisy machine: both stay loaded and take turns, for a few seconds "
            "each, while the other one is paused.",
            metavar="'COMMAND'",
        ),
    ] = None,
    block_seconds: Annotated[
        float | None,
        _of_command("--block-seconds", "With --against: the length of a block; default: 2.", min=0.1),
    ] = None,
    rounds: Annotated[
        int | None,
        _of_command(
            "--rounds",
            "With --against: the number of rounds, of four blocks each (A B B A or B A A B); default: 16.",
            min=8,
        ),
    ] = None,
    seed: Annotated[
        int | None, _of_command("--seed", "With --against: the seed of the order; default: 1.", min=0)
    ] = None,
) -> None:
    """Measure a suite, or any training program by its command line; save everything in the --out directory.

    trainmark run -- torchrun --nproc-per-node 2 train.py --batch-size 32
    runs the command three times, unchanged, in the current folder and environment; reads its log and watches its
    processes.

    Exit code 0: every case has a result; some may be marked as disturbed or not steady. 1: a case has no result (out
    of memory, failed, unsupported, ...), or its work is in doubt (not the requested work, or guessed); the last line
    names the case. 2: the suite or the directory cannot be used. With --against, 1: the command is slower.
    """
    from trainmark.cli.suite_input import (
        CommandOptions,
        check_program,
        command_suite,
        count_hosts,
        default_directory,
        hosts_of,
        nodes_of,
        read_suite,
        refuse_command,
    )
    from trainmark.report import Language

    if lang not in set(Language):
        raise InputError(f"--lang {lang}: no report in this language{nearest(lang, Language)} (en, zh)")
    words = words_of(context)
    if (suite is None) is (words is None):
        raise InputError("give a suite's file, or a command after '--': trainmark run -- python train.py")
    _check_minutes(wait_quiet)
    _pin(cpus, hosts)
    profiles = (profile, profile_trace)
    call = Call(
        out, only, resume, retry_failed, hosts, engine, wait_quiet, cpus, Language(lang), as_json, *profiles
    )
    if words is None:
        assert suite is not None
        refuse_command(suite)
        resolved = read_suite(suite)
        call.measure(resolved, out or Path("results") / resolved.name, ("trainmark", "run", str(suite)))
        return
    given = CommandOptions(
        name=name,
        vary=vary or (),
        env=env or (),
        repeats=repeats,
        until_half_width=until_half_width,
        steps=steps,
        epochs=epochs,
        seconds=seconds,
        timeout=timeout,
        format=log_format,
        unit=unit,
        work_per_step=work_per_step,
        skip=skip,
        devices=devices,
        parameters=parameters,
        layers=layers,
        hidden_size=hidden_size,
        sequence_length=sequence_length,
        precision=precision,
        nodes=nodes,
    )
    pair = (block_seconds, rounds, seed)
    if against is not None:
        from trainmark.cli.paired_run import PairOptions, compare_commands

        raise typer.Exit(compare_commands(words, against, given, PairOptions(*pair), call, as_json=as_json))
    if any(option is not None for option in pair):
        raise InputError("--block-seconds, --rounds and --seed are for --against")
    call = replace(call, hosts=hosts or hosts_of(words, given, os.environ))
    given = replace(given, nodes=nodes_of(words, given, count_hosts(call.hosts, engine)))
    found = command_suite(words, given, Path.cwd())
    if call.hosts is None:
        check_program(words, Path.cwd())
    directory = out or default_directory(found.name)
    call.measure_command(found, directory, None if baseline is None else _baseline(baseline))


def _baseline(given: Path) -> "tuple[Path, Results]":
    """Return the results of ``--baseline``; raise ``InputError``, before anything runs, if there are none."""
    from trainmark.campaign import results_of

    if not given.is_dir():
        raise InputError(f"--baseline {given}: no such result directory")
    return given, results_of(given)


@dataclass(frozen=True, slots=True)
class Call:
    """The options of a call that hold for a suite and for a command."""

    out: Path | None
    only: str | None
    resume: bool
    retry_failed: bool
    hosts: str | None
    engine: str | None
    wait_quiet: float | None
    cpus: str | None
    language: "Language"
    as_json: bool
    profile: bool = False
    profile_trace: bool = False

    def measure_command(
        self, found: "CommandSuite", directory: Path, baseline: "tuple[Path, Results] | None" = None
    ) -> None:
        """Write the suite and the card of a command, measure it, and compare it with an earlier result."""
        from trainmark.cli.run_output import print_baseline, print_command_results
        from trainmark.cli.suite_input import read_suite

        with found.stored(directory) as path:
            results = self.run(read_suite(path), directory, ("trainmark", "run", str(path)))
        if not self.as_json:
            print_command_results(results.results, directory, found)
        holds = baseline is None or print_baseline(*baseline, results.results, directory, quiet=self.as_json)
        self.end(results, directory)
        if not holds:
            raise typer.Exit(1)

    def measure(self, resolved: "Suite", directory: Path, command: tuple[str, ...]) -> None:
        """Measure a suite, and print its table."""
        from trainmark.report import render_table

        ending = self.run(resolved, directory, command)
        if not self.as_json:
            sys.stdout.write(render_table(ending.results))
        self.end(ending, directory)

    def command(self, words: tuple[str, ...], directory: Path) -> tuple[str, ...]:
        """Return the command that repeats this call, with its result directory made explicit."""
        options = {
            "--only": self.only,
            "--hosts": self.hosts,
            "--engine": self.engine,
            "--wait-quiet": None if self.wait_quiet is None else f"{self.wait_quiet:g}",
            "--cpus": self.cpus,
        }
        given = (text for option, value in options.items() if value is not None for text in (option, value))
        flags = {"--profile": self.profile, "--profile-trace": self.profile_trace}
        return (
            *words,
            "--out",
            str(directory),
            *given,
            *(flag for flag, is_given in flags.items() if is_given),
        )

    def run(self, resolved: "Suite", directory: Path, words: tuple[str, ...]) -> "CampaignEnding":
        """Run a suite's cases, and return how the campaign ended."""
        from trainmark.imports import require_for_runs

        require_for_runs()
        from trainmark.campaign import Order, QuietWait, reserve_hosts, run_campaign
        from trainmark.cli.run_output import ProgressPrinter
        from trainmark.cli.suite_input import chosen_hosts
        from trainmark.files import default_home
        from trainmark.schema.suite import ProfileMode
        from trainmark.suite import select

        if self.profile or self.profile_trace:
            mode = ProfileMode.TRACE if self.profile_trace else ProfileMode.REDUCED
            resolved = resolved.model_copy(update={"profile": mode})
        order = Order(
            suite=resolved,
            cases=resolved.cases if self.only is None else select(resolved.cases, self.only),
            out=directory,
            resume=self.resume or self.retry_failed,
            retry_failed=self.retry_failed,
            home=default_home(os.environ),
            command=self.command(words, directory),
            quiet=None if self.wait_quiet is None else QuietWait(self.wait_quiet),
        )
        with (
            ProgressPrinter() as progress,
            signals_interrupt(),
            chosen_hosts(self.hosts, self.engine) as connected,
        ):
            if self.hosts is not None:
                reserve_hosts(connected, resolved.name, progress.readying)
            return run_campaign(replace(order, hosts=connected), progress)

    def end(self, ending: "CampaignEnding", directory: Path) -> None:
        """Write the reports, and exit with the code of the results."""
        from trainmark.campaign import explain_full_disk
        from trainmark.cli.run_output import exit_reason, retry_advice
        from trainmark.report import write_reports
        from trainmark.schema.names import RESULTS

        if self.as_json:
            sys.stdout.write((directory / RESULTS).read_text(encoding="utf-8"))
        sys.stdout.flush()
        with explain_full_disk(directory):
            reports = write_reports(directory, ending.results, self.language)
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


def run_all(
    suite: "Suite", directory: Path, command: tuple[str, ...], *, resume: bool = False
) -> "CampaignEnding":
    """Run every case of a suite on this machine, and return how the campaign ended."""
    from trainmark.campaign import Order, run_campaign
    from trainmark.cli.run_output import ProgressPrinter
    from trainmark.files import default_home

    home = default_home(os.environ)
    order = Order(suite, cases=suite.cases, out=directory, resume=resume, home=home, command=command)
    with ProgressPrinter() as progress, signals_interrupt():
        return run_campaign(order, progress)


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
