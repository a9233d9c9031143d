"""Two programs at once, in turn for blocks of seconds: one is paused while the other runs; their rates are compared.

Both programs are resident and warm, so a block begins where the last one of its program ended. After some rounds both
are ended and started again: what differs between two processes of one program is then in the interval. The records of
a log count by their arrival; the time that a program prints itself may contain a pause.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from time import monotonic, sleep, time

import numpy as np

from trainmark.campaign.log_measurement import RunLog, last_line_of, read_run_log
from trainmark.errors import TrainmarkError
from trainmark.logs import Meaning, ParsedLog, Scope
from trainmark.logs.model import Floats
from trainmark.logs.records import are_buffered
from trainmark.measure.paired_blocks import (
    DROPPED_RECORDS,
    LEAST_RECORDS,
    LEAST_ROUNDS,
    Block,
    Disturbance,
    DisturbanceSlopes,
    PairedRatio,
    Side,
    block_rate,
    disturbance_slopes,
    paired_ratio,
    ratios_of_rounds,
    ratios_of_starts,
    round_orders,
)
from trainmark.node.pausing import LOOK_S, PausableProgram
from trainmark.schema.names import LOG
from trainmark.workload import Card

STEPS = "steps/s"
WARMUP_RECORDS = 10
LIMIT_S = 3600.0

_AGREEMENT, _MOST = 0.02, 0.9
"""Lines state the work of a step if, for most of them, rate times time differs by less than this share."""

_LOOK_S = 0.5
"""Seconds between two looks at the log of a program that warms up."""


_SHORT_SHARE = 0.004
"""The share of a block that two looks at a log may be apart: a busy machine looks seldom, which cancels in a ratio."""

_WORD_EVERY_S = 15.0
"""Seconds between two lines of progress while a program warms up."""


@dataclass(frozen=True, slots=True)
class SideProgram:
    """One of the two programs: its words, its card, the folder of its files, and the folder in which it starts."""

    words: tuple[str, ...]
    card: Card
    folder: Path
    work_dir: Path

    def of_start(self, number: int) -> "SideProgram":
        """Return the program with the folder of this start, from 1."""
        return replace(self, folder=self.folder / str(number))


@dataclass(frozen=True, slots=True)
class Alternation:
    """The turns of two programs.

    ``rounds`` have four blocks of ``block_s`` seconds, in an order drawn by ``seed``. Both programs are started at
    least ``starts`` times. Each then runs alone until its log has ``warmup_records``, at most ``limit_s`` seconds.
    """

    rounds: int
    block_s: float
    seed: int
    warmup_records: int = WARMUP_RECORDS
    limit_s: float = LIMIT_S
    starts: int = LEAST_ROUNDS

    @property
    def rounds_of_start(self) -> int:
        """The rounds between two starts."""
        return max(1, self.rounds // self.starts)


@dataclass(frozen=True, slots=True)
class AlternationResult:
    """The ratio of the two rates, A over B, with the rate of each block (None: too few records) and their unit.

    ``ratio`` compares the rates at equal disturbance where ``slopes`` are not 0, ``unadjusted`` as they are. Their
    interval is over the starts of the programs if ``is_over_starts``, else over the rounds: ``ratios`` has theirs.
    """

    ratio: PairedRatio
    unadjusted: PairedRatio
    is_over_starts: bool
    slopes: DisturbanceSlopes
    unit: str
    blocks: tuple[Block, ...]
    rates: tuple[float | None, ...]
    ratios: tuple[float, ...]
    work_per_step: Mapping[Side, int | None]

    @property
    def starts(self) -> int:
        """The number of times that both programs were started."""
        return max(block.started for block in self.blocks)

    @property
    def disturbance(self) -> Disturbance | None:
        """The mean disturbance of the blocks; None if not known."""
        found = [block.disturbance for block in self.blocks if block.disturbance is not None]
        if not found:
            return None
        return Disturbance(fmean(one.waited for one in found), fmean(one.others for one in found))

    def rate(self, side: Side) -> float:
        """Return the median of a program's rates over its blocks."""
        pairs = zip(self.blocks, self.rates, strict=True)
        return float(np.median([rate for block, rate in pairs if block.side is side and rate is not None]))


def alternate(
    programs: Mapping[Side, SideProgram], how: Alternation, say: Callable[[str], None]
) -> AlternationResult:
    """Run two programs in turn, and return the ratio of their rates; ``say`` receives the progress.

    Raises ``TrainmarkError`` if a program ends early, or if its log does not show when its steps ended.
    """
    blocks: list[Block] = []
    ended: dict[Side, int | None] = {}
    orders = round_orders(how.rounds, np.random.default_rng(how.seed))
    for number, first in enumerate(range(0, how.rounds, how.rounds_of_start), start=1):
        with ExitStack() as stack:
            started: dict[Side, PausableProgram] = {}
            for side, program in ((side, program.of_start(number)) for side, program in programs.items()):
                say(f"{side.upper()} starts and warms up")
                program.folder.mkdir(parents=True, exist_ok=True)
                started[side] = stack.enter_context(
                    PausableProgram(program.words, program.folder, program.work_dir)
                )
                _warm_up(side, program, started[side], how, say)
                started[side].find_processes()
                started[side].pause()
            for at, order in enumerate(orders[first : first + how.rounds_of_start], start=first + 1):
                say(f"round {at} of {how.rounds}: {' '.join(order).upper()}")
                blocks += (_run_block(side, started[side], how.block_s, number) for side in order)
                if any(program.code is not None for program in started.values()):
                    break
            ended |= {side: program.code for side, program in started.items() if program.code is not None}
    return _result(programs, blocks, how, ended)


def _run_block(side: Side, program: PausableProgram, block_s: float, started: int) -> Block:
    before = program.contention()
    start_s, deadline = time(), monotonic() + block_s
    program.resume()
    sleep(max(0.0, deadline - monotonic()))
    end_s = time()
    program.pause()
    shares = before.shares_until(program.contention(), end_s - start_s)
    return Block(side, start_s, end_s, Disturbance(*shares) if shares else None, started)


def _warm_up(
    side: Side,
    program: SideProgram,
    started: PausableProgram,
    how: Alternation,
    say: Callable[[str], None],
) -> None:
    """Return once the program's log has enough records; ``say`` how many it has if that takes long."""
    deadline, next_word = monotonic() + how.limit_s, monotonic() + _WORD_EVERY_S
    while True:
        sleep(_LOOK_S)
        # The program may print its last records and end between the two.
        code = started.code
        found = read_run_log(program.card, program.folder).parsed.records.count
        if found > how.warmup_records:
            return
        if code is not None:
            raise TrainmarkError(
                f"{side.upper()} ended with code {code} after {found} records, before its warm-up of "
                f"{how.warmup_records} was over (--skip N sets it){last_line_of(program.folder / LOG)}"
            )
        if monotonic() > next_word:
            next_word += _WORD_EVERY_S
            say(f"{side.upper()} has {found} of the {how.warmup_records + 1} records that it warms up for")
        if monotonic() > deadline:
            raise TrainmarkError(
                f"{side.upper()} printed {found} records in {how.limit_s:g} s; its warm-up needs {how.warmup_records} "
                f"(--skip N sets it, --timeout the seconds; --format FILE describes its lines)"
                f"{last_line_of(program.folder / LOG)}"
            )


def _result(
    programs: Mapping[Side, SideProgram],
    blocks: Sequence[Block],
    how: Alternation,
    ended: Mapping[Side, int | None],
) -> AlternationResult:
    parts = dict.fromkeys((block.started, block.side) for block in blocks)
    logs = {
        (number, side): read_run_log(programs[side].card, programs[side].of_start(number).folder)
        for number, side in parts
    }
    times = {part: _times(part[1], log, how.block_s) for part, log in logs.items()}
    works = {side: _work_of_step(logs[1, side].parsed) for side in programs}
    units = {log.parsed.unit for log in logs.values()}
    known = len(units) == 1 and None not in units and None not in works.values()
    done = {part: _steps(log) * ((works[part[1]] if known else None) or 1) for part, log in logs.items()}
    rates = [
        block_rate(times[block.started, block.side], done[block.started, block.side], block)
        for block in blocks
    ]
    slopes = disturbance_slopes(blocks, rates)
    ratios = ratios_of_rounds(blocks, rates, slopes)
    is_over_starts = how.starts >= LEAST_ROUNDS
    units_of = ratios_of_starts if is_over_starts else ratios_of_rounds
    usable = units_of(blocks, rates, slopes)
    ratio, unadjusted = paired_ratio(usable), paired_ratio(units_of(blocks, rates))
    if ratio is None or unadjusted is None:
        raise TrainmarkError(_why_no_ratio(len(usable), len(blocks), rates, how, ended))
    (unit,) = units if known else {STEPS}
    return AlternationResult(
        ratio,
        unadjusted,
        is_over_starts,
        slopes,
        unit or STEPS,
        tuple(blocks),
        tuple(rates),
        tuple(ratios),
        works,
    )


def _work_of_step(log: ParsedLog) -> int | None:
    """Return the units of work of one step of all devices; None if neither the log's facts nor its lines show it.

    Of a line with a rate of all devices and the time of a step, it is their product, if the lines agree. A log that
    counts samples has one for each of its steps.
    """
    batch = log.facts.global_batch
    if batch is not None:
        return 1 if log.counts_samples else batch
    rate, time_s = log.records.rate, log.records.step_time_s
    if log.scope is not Scope.GLOBAL or log.meaning is not Meaning.INTERVAL or rate is None or time_s is None:
        return None
    products = rate.array() * time_s.array()
    work = round(float(np.median(products)))
    agree = np.abs(products - work) <= _AGREEMENT * work
    return work if work > 0 and float(np.mean(agree)) >= _MOST else None


def _why_no_ratio(
    usable: int,
    blocks: int,
    rates: Sequence[float | None],
    how: Alternation,
    ended: Mapping[Side, int | None],
) -> str:
    empty = sum(rate is None for rate in rates)
    units = "starts" if how.starts >= LEAST_ROUNDS else "rounds"
    left = f"{usable} of the {LEAST_ROUNDS} {units} that a verdict needs"
    if ended:
        side, code = next(iter(ended.items()))
        return (
            f"{side.upper()} ended with code {code} before its rounds were over, so only {left} are left: give it "
            "more steps"
        )
    if empty:
        return (
            f"{empty} of {blocks} blocks have fewer than {DROPPED_RECORDS + LEAST_RECORDS} records, so only {left} are "
            f"left: raise --block-seconds ({how.block_s:g}), or let the programs print more often"
        )
    return f"there are only {left}"


def _times(side: Side, log: RunLog, block_s: float) -> Floats:
    """Return the arrival of each record; raise ``TrainmarkError`` if it does not show when a step ended."""
    times = log.times()
    if times is None:
        raise TrainmarkError(
            f"{side.upper()}: its log does not show when its steps ended (format: {log.parsed.format or 'unknown'}): "
            "the arrival of each record must be known; --format FILE describes its lines"
        )
    if are_buffered(times, max(LOOK_S, block_s * _SHORT_SHARE)):
        raise TrainmarkError(
            f"{side.upper()}: its records arrived in bursts, so its output is buffered and the blocks of its steps "
            "are unknown (PYTHONUNBUFFERED=1 is set; other programs need their own way, such as stdbuf -oL); if it "
            f"prints each line at once, this machine is too busy for blocks of {block_s:g} s: raise --block-seconds"
        )
    return times


def _steps(log: RunLog) -> Floats:
    """Return the number of steps that were done at each record."""
    records = log.parsed.records
    counted = np.arange(records.count, dtype=np.float64) * max(1, log.parsed.step_interval)
    if records.step is None:
        return counted
    steps = records.step.array()
    return steps if bool(np.all(np.diff(steps) > 0)) else counted
