"""The ratio of two programs that run in turn in blocks of seconds, with an interval from pairs of blocks.

Noise of a machine that changes within seconds hits neighbouring blocks alike, so each round of four blocks in the order
A B B A, or B A A B, gives one ratio, from which a drift that is linear over the round cancels. The ratio of a
comparison is the Hodges-Lehmann estimate of the rounds' ratios (the median of all means of two), and its interval is
the exact one of Wilcoxon's signed-rank test: no distribution is assumed but that a round's error is as often up as
down, which the random order gives. (Hollander, Wolfe, Chicken, "Nonparametric Statistical Methods", 3rd edition,
section 3.3.)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

import numpy as np

from trainmark.logs.columns import Floats

LEVEL = 0.99
"""The level of the interval: two equal programs are called different in at most one of a hundred comparisons."""

DROPPED_RECORDS = 2
"""The first records of a block that are left out: the step of the first one began before the pause."""

LEAST_RECORDS = 4
"""The records that a block needs after those that are left out."""

LEAST_ROUNDS = 8
"""The rounds from which Wilcoxon's test has an interval at ``LEVEL``."""

BLOCKS_OF_ROUND = 4


class Side(StrEnum):
    """One of the two programs: ``a`` is the one to judge, ``b`` the one that it is compared with."""

    A = "a"
    B = "b"


@dataclass(frozen=True, slots=True)
class Block:
    """The seconds of one program between its continuation and its pause, in Unix time."""

    side: Side
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class PairedRatio:
    """A's rate over B's: the estimate, its interval at ``level`` and the number of rounds."""

    value: float
    low: float
    high: float
    rounds: int
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


def ratios_of_rounds(blocks: Sequence[Block], rates: Sequence[float | None]) -> list[float]:
    """Return A's rate over B's of each whole round whose four blocks have a rate."""
    found = []
    for at in range(0, len(blocks) - BLOCKS_OF_ROUND + 1, BLOCKS_OF_ROUND):
        total = 0.0
        for block, rate in zip(
            blocks[at : at + BLOCKS_OF_ROUND], rates[at : at + BLOCKS_OF_ROUND], strict=True
        ):
            if rate is None:
                break
            total += math.log(rate) * (1 if block.side is Side.A else -1)
        else:
            found.append(math.exp(total / 2))
    return found


def paired_ratio(ratios: Sequence[float], level: float = LEVEL) -> PairedRatio | None:
    """Return the ratio over all rounds; None for fewer rounds than ``level`` needs."""
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
        rounds=count,
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
