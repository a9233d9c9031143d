"""``trainmark run --against COMMAND -- COMMAND``: two programs in turn for blocks of seconds, on a noisy machine."""

import json
import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainmark.cli.run_options import CommandOptions, ComparisonOptions, RunOptions
from trainmark.cli.suite_input import command_suite, default_directory
from trainmark.errors import InputError, TrainmarkError
from trainmark.execution import require_empty
from trainmark.files import to_json, write_atomically
from trainmark.schema.names import BLOCKS, COMMAND_CARD, STEPS_UNIT

if TYPE_CHECKING:
    from trainmark.campaign.alternating import AlternationResult, SideProgram
    from trainmark.measure.paired_blocks import Side

SCHEMA = "trainmark.blocks/1"

_BLOCK_S, _ROUNDS, _SEED = 2.0, 16, 1
_NOT_FOR_PAIRS = ("vary", "env", "repeats", "until_half_width", "steps", "seconds", "nodes", "devices")
_OF_CALL = ("only", "resume", "retry_failed", "hosts", "engine", "wait_quiet")


def compare_commands(
    words: Sequence[str], given: CommandOptions, comparison: ComparisonOptions, options: RunOptions
) -> int:
    """Run two commands in turn, print the ratio of their rates, and return 1 if the first is slower, 130 after Ctrl-C.

    Raises ``InputError`` for options that do not apply and for a machine on which blocks do not measure truly.
    """
    from trainmark.campaign.alternating import LIMIT_S, WARMUP_RECORDS, Alternation, alternate
    from trainmark.cli.main import INTERRUPTED
    from trainmark.measure.paired_blocks import Side

    _refuse_options(given, options)
    _refuse_gpus()
    other = _split(comparison.against or "")
    rounds = comparison.rounds or _ROUNDS
    how = Alternation(
        rounds=rounds,
        block_s=comparison.block_seconds or _BLOCK_S,
        seed=_SEED if comparison.seed is None else comparison.seed,
        warmup_records=WARMUP_RECORDS if given.skip is None else given.skip,
        limit_s=given.timeout or LIMIT_S,
        starts=comparison.starts or rounds,
    )
    commands = {Side.A: tuple(words), Side.B: other}
    directory = options.out or default_directory(f"{command_suite(words, given, Path.cwd()).name}-against")
    require_empty(directory)
    programs = {side: _program(side, command, given, directory) for side, command in commands.items()}
    try:
        found = alternate(programs, how, _say)
    except KeyboardInterrupt:
        _say(f"interrupted: no verdict; {directory} has the logs so far; to try again, give another --out")
        return INTERRUPTED
    document = _document(found, commands, how.seed, how.block_s)
    write_atomically(directory / BLOCKS, to_json(document))
    if options.as_json:
        sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=1) + "\n")
    else:
        sys.stdout.write("\n".join(_lines(found, commands, directory)) + "\n")
    return 1 if found.ratio.change == "slower" else 0


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _split(against: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(against))
    except ValueError as error:
        raise InputError(f"--against {against}: {error}") from None
    if not words:
        raise InputError("--against: no command")
    return words


def _refuse_options(given: CommandOptions, options: RunOptions) -> None:
    refused = [name for name in _NOT_FOR_PAIRS if getattr(given, name)]
    refused += [name for name in _OF_CALL if getattr(options, name)]
    if refused:
        option = "--" + refused[0].replace("_", "-")
        reason = ": it compares two programs on this machine only" if refused[0] in ("hosts", "nodes") else ""
        raise InputError(f"{option} cannot be combined with --against{reason}")


def _refuse_gpus() -> None:
    from trainmark.node import LocalHost

    if LocalHost().machine().gpus:
        raise InputError(
            "--against is for programs on CPUs: work queued on a GPU continues while its process is paused, and "
            "the method has not been validated there; hide the GPUs (CUDA_VISIBLE_DEVICES=) for a program "
            "on the CPU, or use `trainmark run` for each and `trainmark compare`"
        )


def _program(side: "Side", words: tuple[str, ...], given: CommandOptions, directory: Path) -> "SideProgram":
    """Write the card of a command into its own folder, and return the program."""
    from trainmark.campaign.alternating import SideProgram
    from trainmark.workload import read_card

    folder = directory / side.value
    command_suite(words, replace(given, skip=None), Path.cwd()).write(folder)
    card = read_card(folder / COMMAND_CARD).card
    if card.result is not None:
        raise TrainmarkError(f"{side.upper()}: a result file does not show when steps ended")
    return SideProgram(words, card, folder, Path.cwd())


def _document(
    found: "AlternationResult", commands: "dict[Side, tuple[str, ...]]", seed: int, block_s: float
) -> dict[str, Any]:
    ratio = found.ratio
    return {
        "schema": SCHEMA,
        "commands": {side.value: shlex.join(words) for side, words in commands.items()},
        "cpus": sorted(os.sched_getaffinity(0)),
        "seed": seed,
        "block_s": block_s,
        "unit": found.unit,
        "work_per_step": {side.value: work for side, work in found.work_per_step.items()},
        "rates": {side.value: found.rate(side) for side in commands},
        "ratio": ratio.value,
        "interval": [ratio.low, ratio.high],
        "level": ratio.level,
        "rounds": len(found.ratios),
        "starts": found.starts,
        "interval_over": "starts" if found.is_over_starts else "rounds",
        "change": ratio.change,
        "unadjusted": {
            "ratio": found.unadjusted.value,
            "interval": [found.unadjusted.low, found.unadjusted.high],
            "change": found.unadjusted.change,
        },
        "disturbance": asdict(found.disturbance) if found.disturbance else None,
        "disturbance_slopes": asdict(found.slopes),
        "ratios": found.ratios,
        "blocks": [
            {
                "side": block.side.value,
                "start": block.start_s,
                "end": block.end_s,
                "started": block.started,
                "rate": rate,
                "disturbance": asdict(block.disturbance) if block.disturbance else None,
            }
            for block, rate in zip(found.blocks, found.rates, strict=True)
        ],
    }


def _lines(found: "AlternationResult", commands: "dict[Side, tuple[str, ...]]", directory: Path) -> list[str]:
    from trainmark.printable import counted, printable_line, significant

    ratio = found.ratio
    verdict = (
        "is indistinguishable from" if ratio.change == "indistinguishable" else f"is {ratio.change} than"
    )
    lines = [
        f"{side.upper()}  {significant(found.rate(side), 4)} {found.unit}  {printable_line(shlex.join(words))}"
        for side, words in commands.items()
    ]
    if found.unit != STEPS_UNIT and len(set(found.work_per_step.values())) > 1:
        work = " and ".join(f"{side.upper()} {work:,}" for side, work in found.work_per_step.items())
        lines.append(f"The work of a step differs ({found.unit.removesuffix('/s')}): {work}")
    starts = f"{counted(found.starts, 'start')} of both programs"
    rounds = f"{len(found.ratios)} rounds of four blocks"
    over = f"{starts}, {rounds}" if found.is_over_starts else rounds
    lines.append(
        f"A/B = {ratio.value:.4f}, {ratio.level:.0%} interval [{ratio.low:.4f}, {ratio.high:.4f}] over {over}: "
        f"A {verdict} B"
    )
    if not found.is_over_starts:
        lines.append(
            f"The verdict is about {starts} only: two processes of one program may differ by more, by their memory "
            "addresses or hash seeds (--starts 8)."
        )
    if found.slopes and found.disturbance is not None:
        plain = found.unadjusted
        lines.append(
            f"Other processes used {found.disturbance.others:.0%} of the CPUs and kept the programs waiting for "
            f"{found.disturbance.waited:.1%} of the time; the rates are compared at equal disturbance (unadjusted: "
            f"{plain.value:.4f} [{plain.low:.4f}, {plain.high:.4f}])."
        )
    if found.unit == STEPS_UNIT:
        lines.append(
            "The logs do not state the same unit of work: a step of A counts as much as a step of B. If a step of one "
            "trains more samples than a step of the other, the verdict is about steps only."
        )
    lines.append(f"stored in {directory}: {BLOCKS}, and the logs of each in a/ and b/")
    return lines
