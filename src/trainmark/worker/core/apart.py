"""After the window: what each rank takes by itself, and what the exchange takes by itself.

In a step every rank waits for the slowest in the exchange of the gradients, so that all of them seem to take equally
long. Here each passes its batch forward and backward alone, all at once and with nothing exchanged; then as many bytes
as the gradients have go through an all-reduce, with nothing beside them.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Any, Callable, Dict, List, Optional

from .training import Training

BLOCKS, BLOCK_S, MOST = 3, 0.1, 10
"""The median of so many blocks counts; a block lasts about so many seconds, and is not of more passes than that."""

LONG_STEP_S = 1.0
"""Where a step takes so long, one block of one pass must do."""


def look_apart(training: Training, step_s: float) -> Dict[str, Any]:
    """Return what ``apart`` of the last event says, by rank; empty for a rank on its own. All ranks call it.

    ``step_s`` is the mean time of a step, the same number on all ranks.
    """
    if training.ranks.place.world_size == 1:
        return {}
    times = max(1, min(MOST, int(BLOCK_S / step_s)))
    size = 0

    def pass_alone() -> Optional[Callable[[], None]]:
        call = training.alone()
        if call is not None:
            # The first one may need memory that a step does not, and finds that out before others wait for this rank.
            call()
            training.synchronize()
        return call

    def exchange() -> Optional[Callable[[], None]]:
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
    training: Training, offered: Callable[[], Optional[Callable[[], None]]], times: int, count: int
) -> Optional[List[float]]:
    """Return each rank's seconds for one call of what it is offered; None where a rank has nothing to offer."""
    try:
        call = offered()
    except Exception:
        # Most likely no memory is left for it beside the model's; what is not known costs the run nothing.
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


def _blocks(training: Training, call: Callable[[], None], times: int, count: int) -> List[int]:
    """Return the nanoseconds of blocks of calls."""
    blocks = []
    for _ in range(count):
        started = time.perf_counter_ns()
        for _ in range(times):
            call()
        training.synchronize()
        blocks.append(time.perf_counter_ns() - started)
    return blocks
