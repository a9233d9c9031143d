"""The options of ``trainmark run`` as data: each field of a group is an option of its own on the command line."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

_of_command = partial(typer.Option, rich_help_panel="With -- COMMAND")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options that hold for a suite and for a command."""

    out: Annotated[Path | None, typer.Option(help="The result directory; default: results/<suite>.")] = None
    only: Annotated[
        str | None,
        typer.Option(help="Run only these cases: axis=value|value,axis!=value, or a pattern of case ids."),
    ] = None
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue an interrupted run; finished runs are not repeated.")
    ] = False
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed",
            help="Like --resume, and repeat the runs that failed, timed out or were invalid; their files are kept.",
        ),
    ] = False
    profile: Annotated[
        bool,
        typer.Option(
            "--profile",
            help="After the measured runs, run each case once more under its framework's profiler, and report the "
            "seconds of a step by kind of operation (docs/how-to/profile.md). That run is not measured.",
        ),
    ] = False
    profile_trace: Annotated[
        bool,
        typer.Option("--profile-trace", help="Like --profile, and store the profiler's trace files."),
    ] = False
    hosts: Annotated[
        str | None,
        typer.Option(
            help="The hosts to run on: a hosts file (FILE or FILE:GROUP), slurm (the hosts of the allocation) or mpi "
            "(the hosts in OpenMPI's hostfile); default: this machine only; for srun, or with --nodes, the hosts of "
            "the Slurm allocation.",
        ),
    ] = None
    engine: Annotated[
        str | None,
        typer.Option(help="How to reach the hosts (ssh, slurm or mpi); overrides the hosts file."),
    ] = None
    wait_quiet: Annotated[
        float | None,
        typer.Option(
            help="Before each run, wait until other processes take less than 10 % of the CPUs, for at most MINUTES.",
            metavar="MINUTES",
        ),
    ] = None
    cpus: Annotated[
        str | None,
        typer.Option(help="Run on these CPUs of this machine only, such as 0-3,6.", metavar="LIST"),
    ] = None
    lang: Annotated[str, typer.Option(help="The language of the report: en or zh.")] = "en"
    as_json: Annotated[bool, typer.Option("--json", help="Print results.json instead of the table.")] = False


@dataclass(frozen=True, slots=True)
class CommandOptions:
    """The options of ``trainmark run -- COMMAND…``; None is an option that was not given.

    ``vary`` and ``env`` are ``NAME=v1,v2``: the values of ``{NAME}`` in the command, and of a variable.
    """

    name: Annotated[
        str | None, _of_command(help="The name of the program in results; default: its script's or folder's.")
    ] = None
    vary: Annotated[
        list[str] | None,
        _of_command(help="Values of {NAME} in the command: one case each.", metavar="NAME=V1,V2"),
    ] = None
    env: Annotated[
        list[str] | None,
        _of_command(help="Values of an environment variable: one case each.", metavar="NAME=V1,V2"),
    ] = None
    repeats: Annotated[
        int | None, _of_command(help="The number of runs of each case; default: 3.", min=1)
    ] = None
    until_half_width: Annotated[
        float | None,
        _of_command(
            help="Add runs, 10 at most, until half the interval's width is at most this share of the number, such as "
            "0.01.",
            min=0.0001,
            max=1.0,
        ),
    ] = None
    steps: Annotated[
        int | None, _of_command(help="End each run (SIGINT) once its log shows this many steps.", min=1)
    ] = None
    epochs: Annotated[
        int | None, _of_command(help="End each run once its log shows this many whole epochs.", min=1)
    ] = None
    seconds: Annotated[
        float | None, _of_command(help="End each run (SIGINT) after this many seconds.", min=1)
    ] = None
    timeout: Annotated[
        float | None, _of_command(help="The longest time of one run, in seconds; default: 3600.", min=1)
    ] = None
    format: Annotated[
        str | None,
        _of_command(
            help="The format of the program's log: a name (trainmark parse --list-formats) or a file that describes it "
            "(docs/how-to/describe-a-log.md); default: recognised.",
            metavar="NAME|FILE",
        ),
    ] = None
    unit: Annotated[
        str | None,
        _of_command(help="The unit of the throughput, such as samples/s, if the log does not state it."),
    ] = None
    work_per_step: Annotated[
        str | None,
        _of_command(
            help="The work of one step on all devices, if the log does not state it or its format is guessed: a "
            "number, or an expression with the names of --vary ('{batch} * 512').",
            metavar="N|EXPRESSION",
        ),
    ] = None
    skip: Annotated[int | None, _of_command(help="The number of records to leave out as warm-up.", min=0)] = (
        None
    )
    parameters: Annotated[
        str | None,
        _of_command(
            help="The number of the model's parameters, for the MFU, if the log does not state it.",
            metavar="124M",
        ),
    ] = None
    layers: Annotated[
        int | None,
        _of_command(
            help="The model's layers; with --hidden-size and --sequence-length the MFU counts attention: 12 L H Q T "
            "operations per token (PaLM).",
            min=1,
        ),
    ] = None
    hidden_size: Annotated[
        int | None, _of_command(help="The model's width: heads times head size.", min=1)
    ] = None
    sequence_length: Annotated[
        int | None, _of_command(help="The length of a sequence, in tokens.", min=1)
    ] = None
    precision: Annotated[
        str | None, _of_command(help="The precision, such as amp-bf16, if the log does not state it.")
    ] = None
    devices: Annotated[
        int | None,
        _of_command(help="The number of devices per node, if the command does not show it.", min=1),
    ] = None
    nodes: Annotated[
        int | None,
        _of_command(
            help="The number of nodes, each one of the --hosts; default: all hosts if the command has {node}, {nodes}, "
            "{master}, {hosts} or {world_size}, or is srun; else 1.",
            min=1,
        ),
    ] = None
    require: Annotated[
        list[str] | None,
        _of_command(
            help="Require a minimum of every case: efficiency=0.9 (of linear scaling), 'throughput=9000 samples/s' "
            "or 'per_device=900 samples/s'; exit code 1 unless the runs show it.",
            metavar="NAME=MINIMUM",
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class ComparisonOptions:
    """The options that compare a command with an earlier result, or with another command that takes turns with it."""

    baseline: Annotated[
        Path | None,
        _of_command(
            help="At the end, compare with this earlier result directory, as trainmark compare does; exit code 1 if "
            "slower.",
            metavar="DIR",
        ),
    ] = None
    against: Annotated[
        str | None,
        _of_command(
            help="Compare the command with this one on a noisy machine: both stay loaded and take turns, for a few "
            "seconds each, while the other one is paused.",
            metavar="'COMMAND'",
        ),
    ] = None
    block_seconds: Annotated[
        float | None, _of_command(help="With --against: the length of a block; default: 2.", min=0.1)
    ] = None
    rounds: Annotated[
        int | None,
        _of_command(
            help="With --against: the number of rounds, of four blocks each (A B B A or B A A B); default: 16.",
            min=8,
        ),
    ] = None
    starts: Annotated[
        int | None,
        _of_command(
            help="With --against: how often both programs are started, at least; default: before each round. With "
            "fewer than 8, the verdict is about these processes only.",
            min=1,
        ),
    ] = None
    seed: Annotated[
        int | None, _of_command(help="With --against: the seed of the order; default: 1.", min=0)
    ] = None
