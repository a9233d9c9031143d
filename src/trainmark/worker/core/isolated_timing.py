"""Separate timing of each rank's pass and of the gradient exchange, after the window.

In a step every rank waits for the slowest one in the exchange of the gradients, so that all seem equally slow. Here all
ranks pass their batches forward and backward at the same time, without an exchange; then an all-reduce of the
gradients' size runs alone.
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from .training import Training

BLOCKS, BLOCK_S, MOST = 3, 0.1, 10
"""The number of blocks, whose median counts, the approximate seconds of a block, and its largest number of passes."""

LONG_STEP_S = 1.0
"""The step time from which one block of one pass must be enough, in seconds."""


def time_in_isolation(training: Training, step_s: float) -> dict[str, Any]:
    """Return ``apart`` of the last event, by rank; empty for a single rank. All ranks must call it.

    ``step_s`` is the mean time of a step, the same number on all ranks.
    """
    if training.ranks.place.world_size == 1:
        return {}
    times = max(1, min(MOST, int(BLOCK_S / step_s)))
    size = 0

    def pass_alone() -> Callable[[], None] | None:
        call = training.alone()
        if call is not None:
            # The first one may need more memory than a step, and must fail before others wait for this rank.
            call()
            training.synchronize()
        return call

    def exchange() -> Callable[[], None] | None:
        nonlocal size
        found = training.all_reduce()
        if found is None:
            return None
        size = found[0]
        return found[1]

    blocks = BLOCKS if step_s < LONG_STEP_S else 1
    passes = _on_all(training, pass_alone, times, blocks)
    seconds = _on_all(training, exchange, times, blocks)
    return {"apart": {"pass_s": passes, "all_reduce_s": seconds, "all_reduce_bytes": size or None}}


def _on_all(
    training: Training, offered: Callable[[], Callable[[], None] | None], times: int, count: int
) -> list[float] | None:
    """Return each rank's seconds for one call of its function; None if a rank has no function."""
    try:
        call = offered()
    except Exception:
        # Most likely the model leaves too little memory for it. An unknown value does not affect the run.
        call = None
    if not all(values[0] for values in training.gather([int(call is not None)])):
        return None
    assert call is not None
    training.barrier()
    try:
        own = max(1, round(median(_blocks(training, call, times, count)) / times))
    except Exception:
        own = 0
    found = [values[0] / 1e9 for values in training.gather([own])]
    return found if all(found) else None


def _blocks(training: Training, call: Callable[[], None], times: int, count: int) -> list[int]:
    """Return the nanoseconds of blocks of calls."""
    blocks = []
    for _ in range(count):
        started = time.perf_counter_ns()
        for _ in range(times):
            call()
        training.synchronize()
        blocks.append(time.perf_counter_ns() - started)
    return blocks
