"""Formulas over rates in one or a few passes and constant memory, because a log may have ten million records."""

import math
from collections.abc import Callable, Iterator
from itertools import islice
from math import fsum

import numpy as np

from trainmark.logs.columns import Floats

Blocks = Callable[[], Iterator[Floats]]
"""A function that returns the same blocks of values at each call."""

_RADIX_BITS = 16


def count(blocks: Blocks) -> int:
    """Return the number of finite values."""
    return sum(int(np.count_nonzero(np.isfinite(block))) for block in blocks())


def mean(blocks: Blocks) -> float:
    """Return the arithmetic mean of the finite values; NaN if there are none."""
    size = count(blocks)
    return fsum(float(np.nansum(block)) for block in blocks()) / size if size else math.nan


def harmonic_mean(blocks: Blocks, weights: Blocks) -> float:
    """Return sum(w) / sum(w / r): with w samples and r samples per second, all samples over all time.

    The result is NaN if no record has both.
    """
    samples, seconds = [], []
    for rates, weight in _pairs(blocks(), weights()):
        good = np.isfinite(rates) & np.isfinite(weight)
        samples.append(float(weight[good].sum()))
        seconds.append(float((weight[good] / rates[good]).sum()))
    total = fsum(seconds)
    return fsum(samples) / total if total > 0 else math.nan


def order_statistic(blocks: Blocks, k: int) -> float:
    """Return the ``k``-th smallest (from 0) of the positive values; exact, in four passes and constant memory.

    The bits of positive doubles sort like the numbers: each pass counts one digit of 16 bits. A single block is sorted.
    """
    first = list(islice(blocks(), 2))
    if len(first) == 1:
        return float(np.sort(first[0][np.isfinite(first[0])])[k])
    prefix = 0
    for shift in range(64 - _RADIX_BITS, -1, -_RADIX_BITS):
        counts = np.zeros(1 << _RADIX_BITS, dtype=np.int64)
        for block in blocks():
            bits = block[np.isfinite(block)].view(np.uint64)
            bits = (
                bits[(bits >> np.uint64(shift + _RADIX_BITS)) == prefix] if shift < 64 - _RADIX_BITS else bits
            )
            digits = ((bits >> np.uint64(shift)) & np.uint64((1 << _RADIX_BITS) - 1)).astype(np.int64)
            counts += np.bincount(digits, minlength=1 << _RADIX_BITS)
        below = np.cumsum(counts)
        digit = int(np.searchsorted(below, k, side="right"))
        k -= int(below[digit - 1]) if digit else 0
        prefix = (prefix << _RADIX_BITS) | digit
    return float(np.array([prefix], dtype=np.uint64).view(np.float64)[0])


def median(blocks: Blocks) -> float:
    """Return the median; NaN if there are no values."""
    size = count(blocks)
    if not size:
        return math.nan
    middle = order_statistic(blocks, size // 2)
    return middle if size % 2 else (order_statistic(blocks, size // 2 - 1) + middle) / 2


def trimmed_mean(blocks: Blocks, drop: int) -> float:
    """Return the mean without the ``drop`` smallest and the ``drop`` largest values."""
    size = count(blocks)
    remaining = size - 2 * drop
    low, high = order_statistic(blocks, drop), order_statistic(blocks, size - drop - 1)
    if low == high:
        return low
    sums, between, up_to_low = [], 0, 0
    for block in blocks():
        good = block[np.isfinite(block)]
        middle = good[(good > low) & (good < high)]
        sums.append(float(middle.sum()))
        between += len(middle)
        up_to_low += int(np.count_nonzero(good <= low))
    # Only some of the values equal to an edge are dropped; the others count.
    lows = up_to_low - drop
    return (fsum(sums) + lows * low + (remaining - between - lows) * high) / remaining


def _pairs(left: Iterator[Floats], right: Iterator[Floats]) -> Iterator[tuple[Floats, Floats]]:
    """Yield blocks of two equally long columns cut at the same places."""
    b = np.empty(0)
    for block in left:
        a = block
        while len(a):
            if not len(b):
                b = next(right)
            size = min(len(a), len(b))
            yield a[:size], b[:size]
            a, b = a[size:], b[size:]
