"""Measurements after the window: a profile, the device's peaks, each rank's own pass, and the exchange of gradients.

Peaks are the rates of the framework's own product and sum, on the run's device and on all ranks at once, and are not
taken from a data sheet. ``docs/reference/worker.md`` describes the shares of them, and the floor of a step by the
roofline model (Williams, Waterman and Patterson, https://doi.org/10.1145/1498765.1498785): caches retain nothing
between layers, so a program that keeps a layer's output in one could be faster.

In a step every rank waits for the slowest one in the exchange of the gradients, so that all seem equally slow. Here all
ranks pass their batches forward and backward at the same time, without an exchange; then an all-reduce of the
gradients' size runs alone.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shutil import rmtree
from statistics import median
from tempfile import mkdtemp
from typing import Any, NamedTuple

from .backend import repeated
from .outcomes import UNSUPPORTED, RunError
from .settings import Settings
from .task import Piece
from .training import Training

# Rows and columns, tried in order; large enough to measure the device and not the launch of its work.
SIZES: Mapping[str, tuple[int, ...]] = {"cuda": (8192,), "cpu": (768, 2048, 4096)}
VALUES = {"cuda": 2**28, "cpu": 2**25}  # of four bytes, in each array that is added: too many for a cache
AT_ONCE = {"cuda": 10, "cpu": 1}  # the most products or sums launched before waiting for the device
AT_ONCE_NS = 40_000_000  # of long ones so many that they last about this long
LONGEST_S = 0.1  # a larger product is tried only if it takes at most this long at the rate so far
ROUNDS = 5  # of which the fastest counts
VALUE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}  # by the type of a run's computation
# The spans in a trace: around all profiled steps, the device idle at both ends, and around each fetch of a batch.
PROFILED_STEPS, PROFILED_FETCH = "trainmark.steps", "trainmark.data"
BLOCKS, BLOCK_S, MOST = 3, 0.1, 10  # blocks, whose median counts, their approximate length, their most passes
LONG_STEP_S = 1.0  # from such a step on, one block of one pass must be enough


def profile_steps(training: Training, settings: Settings) -> dict[str, Any]:
    """Train ``settings.profile`` steps under the framework's profiler, and return their number and their mean seconds.

    All ranks call it, because a profiler slows a step; the trace is that of rank 0. Raises ``RunError`` (unsupported)
    for a framework without a profiler.
    """
    assert settings.events is not None
    rank = training.ranks.place.rank
    # Other ranks' traces are not read.
    folder = Path(mkdtemp(prefix="trainmark-trace-")) if rank else Path(settings.events).parent / "trace"
    folder.mkdir(exist_ok=True)
    profiler = training.profiling(folder)
    if profiler is None:
        others = "those of PyTorch, JAX and TensorFlow have one"
        raise RunError(UNSUPPORTED, f"the {settings.framework} worker has no profiler; {others}")
    fetch = training.feed.next
    with profiler as span:

        def fetch_in_span() -> Any:
            with span(PROFILED_FETCH):
                return fetch()

        vars(training.feed)["next"] = fetch_in_span
        training.barrier()
        training.synchronize()
        with span(PROFILED_STEPS):
            started = time.perf_counter()
            for index in range(settings.steps, settings.steps + settings.profile):
                training.step(index)
            training.synchronize()
            seconds = time.perf_counter() - started
    if rank:
        rmtree(folder, ignore_errors=True)
    return {"steps": settings.profile, "clock_step_s": seconds / settings.profile}


def find_peak(training: Training, device: str) -> tuple[float, int] | None:
    """Return this rank's most operations per second, and the size of the matrices; None if no product can be made."""
    best: tuple[float, int] | None = None
    for size in SIZES.get(device, SIZES["cpu"]):
        operations = 2.0 * size**3
        if best is not None and operations / best[0] > LONGEST_S:
            break
        per_s = _most_per_s(training.products, size, device)
        if per_s is None:
            break
        best = max(best or (0.0, 0), (operations * per_s, size))
    return best


def _most_per_s(probe: Callable[[int], Callable[[int], None] | None], size: int, device: str) -> float | None:
    """Return the calls per second of the probe's work in the fastest of some rounds; None if it fails."""
    try:
        times = probe(size)
        if times is None:
            return None
        times(1)
        count = max(1, min(AT_ONCE.get(device, 1), AT_ONCE_NS // _blocks(times, 1, 1)[0]))
        return count * 1e9 / min(_blocks(times, count, ROUNDS))
    except Exception:
        # Most likely the model leaves too little memory. An unknown peak does not affect the run.
        return None


def _blocks(times: Callable[[int], None], count: int, blocks: int) -> list[int]:
    """Return the nanoseconds of each of some blocks of ``count`` calls; ``times`` makes them, and waits for the end."""
    found = []
    for _ in range(blocks):
        started = time.perf_counter_ns()
        times(count)
        found.append(time.perf_counter_ns() - started)
    return found


def share_of_peak(training: Training, settings: Settings, samples_per_s: float) -> dict[str, Any]:
    """Return the peaks and the used shares for the last event. All ranks must call it.

    ``mfu`` is the operations' share of the matrix product's rate, by convention; ``roofline`` is the shortest possible
    time of the step divided by its actual time, on the slowest rank's device.
    """
    operations = training.task.operations(settings)
    if not operations:
        return {}
    computed, device = training.expected().compute, training.facts().device
    pieces = training.task.pieces(settings, VALUE_BYTES.get(computed, 4))
    training.barrier()
    peak, size = find_peak(training, device) or (0.0, 0)
    training.barrier()
    values = VALUES.get(device, VALUES["cpu"])
    sums_per_s = _most_per_s(training.sums, values, device) if peak and pieces else None
    # Each value is read from both arrays, and written to one.
    found = training.gather([round(peak), size, round(3 * 4 * values * (sums_per_s or 0.0))])
    peaks, sizes, rates = map(list, zip(*found))
    known = {"operations_per_sample": operations}
    if not all(peaks):
        return {"peak_operations_per_s": None, "peak_of": None, "peak_type": None, **known, "mfu": {}}
    matrices = " and ".join(f"{size} x {size}" for size in sorted({*sizes}))
    data = {
        "peak_operations_per_s": peaks,
        "peak_of": f"product of {matrices} matrices, {computed}",
        "peak_type": computed,
        **known,
        **shares_of(operations, samples_per_s, sum(peaks)),
    }
    if not pieces:
        return data
    if not all(rates):
        return {**data, "peak_bytes_per_s": None, "floor": None, "roofline": None}
    floor = max(floor_of(pieces, ops, rate) for ops, rate in zip(peaks, rates))
    return {
        **data,
        "peak_bytes_per_s": rates,
        "peak_bytes_of": f"sum of two rows of {values} values, float32",
        "peak_bytes_type": "float32",
        **share_of_floor(floor, settings.batch_per_device * len(found) / samples_per_s),
    }


class Floor(NamedTuple):
    """The times of a step in seconds: the floor, and the times of all operations and of all bytes alone."""

    step_s: float
    operations_s: float
    bytes_s: float


def floor_of(pieces: Sequence[Piece], operations_per_s: float, bytes_per_s: float) -> Floor:
    """Return the floor of a step made of these pieces, one after the other."""
    seconds = [(piece.operations / operations_per_s, piece.moved_bytes / bytes_per_s) for piece in pieces]
    return Floor(sum(map(max, seconds)), sum(ops for ops, _ in seconds), sum(moved for _, moved in seconds))


def share_of_floor(floor: Floor, step_s: float) -> dict[str, object]:
    """Return the last event's ``floor``, and its share of the step (``roofline``)."""
    share = floor.step_s / step_s
    # A share above 1 is possible only with a cache or a measured rate that is too low.
    return {"floor": floor._asdict(), "roofline": share if share <= 1 else None}


def shares_of(operations: Mapping[str, float], samples_per_s: float, peak: float) -> dict[str, Any]:
    """Return the share of the ``peak`` by each convention; no shares but a reason if one exceeds the peak."""
    shares = {name: count * samples_per_s / peak for name, count in operations.items()}
    worst = max(shares.values(), default=0.0)
    if worst <= 1:
        return {"mfu": shares}
    return {"mfu": {}, "mfu_unknown": f"the measured peak is too low: the run did {worst:.3g} times as much"}


def time_in_isolation(training: Training, step_s: float) -> dict[str, Any]:
    """Return ``apart`` of the last event, by rank; empty for a single rank. All ranks call it, with one ``step_s``."""
    if training.ranks.place.world_size == 1:
        return {}
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
        size, reduce = training.all_reduce() or (0, None)
        return reduce

    passes = _on_all(training, pass_alone, step_s)
    seconds = _on_all(training, exchange, step_s)
    return {"apart": {"pass_s": passes, "all_reduce_s": seconds, "all_reduce_bytes": size or None}}


def _on_all(
    training: Training, offered: Callable[[], Callable[[], None] | None], step_s: float
) -> list[float] | None:
    """Return each rank's seconds for one call of its function; None if a rank has no function."""
    times, blocks = max(1, min(MOST, int(BLOCK_S / step_s))), BLOCKS if step_s < LONG_STEP_S else 1
    try:
        call = offered()
    except Exception:
        # Most likely the model leaves too little memory for it. An unknown value does not affect the run.
        call = None
    if not all(training.gather_one(call is not None)):
        return None
    assert call is not None
    training.barrier()
    try:
        own = max(1, round(median(_blocks(repeated(call, training.synchronize), times, blocks)) / times))
    except Exception:
        own = 0
    found = training.gather_one(own)
    return [nanoseconds / 1e9 for nanoseconds in found] if all(found) else None
