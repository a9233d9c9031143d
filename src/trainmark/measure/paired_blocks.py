"""The ratio of two programs that run in turn in blocks of seconds, with an interval from pairs of blocks.

Noise of a machine that changes within seconds hits neighbouring blocks alike, so each round of four blocks in the order
A B B A, or B A A B, gives one ratio, from which a drift that is linear over the round cancels. The ratio of a
comparison is the Hodges-Lehmann estimate of the rounds' ratios (the median of all means of two), and its interval is
the exact one of Wilcoxon's signed-rank test: no distribution is assumed but that a round's error is as often up as
down, which the random order gives. (Hollander, Wolfe, Chicken, "Nonparametric Statistical Methods", 3rd edition,
section 3.3.)

Two processes of one program differ too, by their memory addresses or hash seeds. Both programs are therefore started
several times, and the units of the test are then the starts, each with the mean of its rounds (in logarithms).

Where it is known how much other processes disturbed each block, the rates are compared at equal disturbance: an
analysis of covariance with two slopes (the time for which the program waited for a CPU, and the share of the CPUs that
others took, which costs clock, caches and the other half of a core), fitted over the blocks of each program by least
squares with slopes that can only slow a program. The order is random and the load is not the programs', so that the
estimate stays true and only its noise shrinks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import groupby
from statistics import geometric_mean

import numpy as np

from trainmark.logs.model import Floats

LEVEL = 0.99
"""The level of the interval: two equal programs are called different in at most one of a hundred comparisons."""

DROPPED_RECORDS = 2
"""The first records of a block that are left out: the step of the first one began before the pause."""

LEAST_RECORDS = 4
"""The records that a block needs after those that are left out."""

LEAST_ROUNDS = 8
"""The rounds, or starts, from which Wilcoxon's test has an interval at ``LEVEL``."""

BLOCKS_OF_ROUND = 4

_LEAST_SPREAD = 0.01
"""The spread of waiting, in logarithms, below which nothing is adjusted: clocks see no less."""

_MOST_WAITING = 0.9
"""The share of waiting above which a block counts as one with this share."""


class Side(StrEnum):
    """One of the two programs: ``a`` is the one to judge, ``b`` the one that it is compared with."""

    A = "a"
    B = "b"


@dataclass(frozen=True, slots=True)
class Disturbance:
    """The CPU time that other processes took from a program during a block.

    ``waited`` is the share of the block for which they kept it waiting for a CPU, ``others`` the share of the CPUs'
    time that they used.
    """

    waited: float
    others: float


@dataclass(frozen=True, slots=True)
class DisturbanceSlopes:
    """The losses of the logarithm of a rate for each ``-log(1 - waited)`` and ``others``; 0 adjusts nothing."""

    waited: float = 0.0
    others: float = 0.0

    def __bool__(self) -> bool:
        """True if one of them adjusts anything."""
        return bool(self.waited or self.others)

    def adjusted_log(self, rate: float, block: "Block") -> float:
        """Return the logarithm of a block's rate without what its disturbance cost."""
        if block.disturbance is None:
            return math.log(rate)
        waited, others = _regressors(block.disturbance)
        return math.log(rate) + self.waited * waited + self.others * others


@dataclass(frozen=True, slots=True)
class Block:
    """The seconds of one program between its continuation and its pause, in Unix time.

    ``started`` is how often both programs had been started until then. ``disturbance`` is what other processes took
    from it; None if not known.
    """

    side: Side
    start_s: float
    end_s: float
    disturbance: Disturbance | None = None
    started: int = 1


@dataclass(frozen=True, slots=True)
class PairedRatio:
    """The rate of A over that of B: the estimate, its interval at ``level``, the number of rounds or starts."""

    value: float
    low: float
    high: float
    units: int
    level: float = LEVEL

    @property
    def change(self) -> str:
        """The verdict on A: ``faster``, ``slower`` or ``indistinguishable``."""
        if self.low > 1:
            return "faster"
        return "slower" if self.high < 1 else "indistinguishable"


def round_orders(rounds: int, random: np.random.Generator) -> list[tuple[Side, ...]]:
    """Return the order of the blocks of each round: A B B A or B A A B, by chance."""
    orders = (Side.A, Side.B, Side.B, Side.A), (Side.B, Side.A, Side.A, Side.B)
    return [orders[int(draw)] for draw in random.integers(0, 2, rounds)]


def block_rate(times: Floats, done: Floats, block: Block) -> float | None:
    """Return the work per second in a block; None if fewer than ``LEAST_RECORDS`` of its records count.

    ``times`` are the arrivals of a program's records in Unix time, and ``done`` the work that was done at each.
    """
    first, end = np.searchsorted(times, [block.start_s, block.end_s])
    first += DROPPED_RECORDS
    if end - first < LEAST_RECORDS:
        return None
    seconds, work = times[end - 1] - times[first], done[end - 1] - done[first]
    return float(work / seconds) if seconds > 0 and work > 0 else None


def ratios_of_rounds(
    blocks: Sequence[Block], rates: Sequence[float | None], slopes: DisturbanceSlopes | None = None
) -> list[float]:
    """Return A's rate over B's of each whole round whose four blocks have a rate, at equal disturbance with slopes."""
    slopes = slopes or DisturbanceSlopes()
    found = []
    pairs = list(zip(blocks, rates, strict=True))
    for at in range(0, len(pairs) - BLOCKS_OF_ROUND + 1, BLOCKS_OF_ROUND):
        total = 0.0
        for block, rate in pairs[at : at + BLOCKS_OF_ROUND]:
            if rate is None:
                break
            total += slopes.adjusted_log(rate, block) * (1 if block.side is Side.A else -1)
        else:
            found.append(math.exp(total / 2))
    return found


def ratios_of_starts(
    blocks: Sequence[Block], rates: Sequence[float | None], slopes: DisturbanceSlopes | None = None
) -> list[float]:
    """Return the geometric mean of the rounds' ratios of each start that has one (see ``ratios_of_rounds``)."""
    found = []
    for _, group in groupby(zip(blocks, rates, strict=True), key=lambda pair: pair[0].started):
        of_start, its_rates = zip(*group, strict=True)
        if ratios := ratios_of_rounds(of_start, its_rates, slopes):
            found.append(geometric_mean(ratios))
    return found


def disturbance_slopes(blocks: Sequence[Block], rates: Sequence[float | None]) -> DisturbanceSlopes:
    """Return the slopes over the blocks of each program; 0 where the blocks hardly differ or where it is not known."""
    from scipy.optimize import nnls

    causes, effects = [], []
    for side in Side:
        pairs = [
            (_regressors(block.disturbance), -math.log(rate))
            for block, rate in zip(blocks, rates, strict=True)
            if block.side is side and rate is not None and block.disturbance is not None
        ]
        if len(pairs) < LEAST_ROUNDS:
            return DisturbanceSlopes()
        cause, effect = np.array([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
        causes.append(cause - cause.mean(axis=0))
        effects.append(effect - effect.mean())
    cause = np.concatenate(causes)
    # A column without spread has nothing to say; its slope is then 0.
    cause[:, cause.std(axis=0) < _LEAST_SPREAD] = 0.0
    waited, others = nnls(cause, np.concatenate(effects))[0]
    return DisturbanceSlopes(float(waited), float(others))


def _regressors(disturbance: Disturbance) -> tuple[float, float]:
    return -math.log1p(-min(disturbance.waited, _MOST_WAITING)), disturbance.others


def paired_ratio(ratios: Sequence[float], level: float = LEVEL) -> PairedRatio | None:
    """Return the ratio over all rounds, or starts; None for fewer than ``level`` needs."""
    count = len(ratios)
    rank = _rank_of_end(count, level)
    if rank is None:
        return None
    logs = np.log(np.asarray(ratios, dtype=np.float64))
    first, second = np.triu_indices(count)
    means = np.sort((logs[first] + logs[second]) / 2)
    return PairedRatio(
        value=float(np.exp(np.median(means))),
        low=float(np.exp(means[rank])),
        high=float(np.exp(means[means.size - 1 - rank])),
        units=count,
        level=level,
    )


@cache
def _rank_of_end(count: int, level: float) -> int | None:
    """Return which of the sorted means of two is the interval's low end; None if no interval has the level.

    The number of positive means has the distribution of Wilcoxon's statistic: of the sum of those ranks 1 to ``count``
    whose sign is positive, each with probability one half.
    """
    counts = np.zeros(count * (count + 1) // 2 + 1)
    counts[0] = 1
    for rank in range(1, count + 1):
        counts[rank:] = counts[rank:] + counts[: counts.size - rank]
    below = np.cumsum(counts) / 2.0**count
    return (
        int(np.searchsorted(below, (1 - level) / 2, side="right")) - 1
        if below[0] <= (1 - level) / 2
        else None
    )
