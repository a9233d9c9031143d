"""The timing protocol: the only place that defines the timed work, the clock, and what must not happen meanwhile.

    step 0                 timed separately, the device synchronised before and after it: ``first_step_s``; it includes
                           compilation, algorithm search and lazy start-up
    (check)                the observations of the first step are verified and written
    steps 1 … W-1          warm-up: the same loop as the window
    synchronise, barrier   the device is idle and all ranks have arrived
    t0
    steps W … N-1          the measured window: the device is never synchronised, nothing is written, no value is
                           read back; the end of each step is *marked* (a device event, or the host's clock where
                           the host computes)
    synchronise
    t1                     this rank's window is t1 - t0; the slowest rank's counts

The garbage collector is run, its survivors are frozen and it is switched off before the warm-up, not at the window's
start: a pause between the two would let the loader's queues fill up and make the window look faster than the
loader is. It is switched on again after the window.

Apart from the training step itself, the loop does per step: one mark, one reading of the host's clock, one
comparison; at most once a second rank 0 prints a short line. ``benchmarks/overhead.py`` measures what that costs.
"""

import gc
import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from .queues import Loading

BEAT_NS, NEVER = 1_000_000_000, 1 << 63  # the shortest time between two heartbeats; one that no clock reaches


class DeviceTimers:
    """The moments at which steps were done: numbered slots, so that noting one allocates nothing.

    A run has one for the end of each step, and one for the window's start.
    """

    def mark(self, slot: int) -> None:
        """Note, without waiting, the moment at which all work handed over so far is done."""
        raise NotImplementedError

    def seconds_between(self, earlier: int, later: int) -> float:
        """Return the seconds between two marks. Called when the device has done everything."""
        raise NotImplementedError


class HostTimers(DeviceTimers):
    """DeviceTimers by the host's clock, for devices that compute while the host waits."""

    def __init__(self, steps: int, clock_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self._ns, self._clock_ns = [0] * (steps + 1), clock_ns

    def mark(self, slot: int) -> None:
        self._ns[slot] = self._clock_ns()

    def seconds_between(self, earlier: int, later: int) -> float:
        return (self._ns[later] - self._ns[earlier]) / 1e9


class EventTimers(DeviceTimers):
    """DeviceTimers by events on the stream that trains; recording one costs the host a few microseconds.

    ``make_event`` returns one with ``record()`` and ``elapsed_time(later)`` in milliseconds, like torch's events.
    """

    def __init__(self, steps: int, make_event: Callable[[], Any]) -> None:
        """Create the events in advance, because creating one costs more than recording it."""
        self._events: list[Any] = [make_event() for _ in range(steps + 1)]

    def mark(self, slot: int) -> None:
        self._events[slot].record()

    def seconds_between(self, earlier: int, later: int) -> float:
        return float(self._events[earlier].elapsed_time(self._events[later])) / 1e3


class Steps(Protocol):
    """The part of a training that the timing protocol calls."""

    marks: DeviceTimers

    @abstractmethod
    def step(self, index: int) -> None:
        """Run training step ``index``, or launch all of it on the device, without waiting for it."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until the device has done everything that it was given."""

    @abstractmethod
    def barrier(self) -> None:
        """Wait until every rank is here."""

    def compile_s(self) -> float | None:
        """Return the seconds spent compiling so far, or None without a compiler or a count."""
        return None

    def compilations(self) -> int | None:
        """Return the number of programs compiled so far, or None if unknown."""
        return None

    @abstractmethod
    def loading(self) -> Loading | None:
        """Return the loader's counts of made and taken samples, or None without a loader."""


class Timeline(NamedTuple):
    """The times of one rank."""

    first_step_s: float
    step_s: list[float]  # of every step, the first one too
    window_ns: int
    first_step_at: float
    window_at: float
    compile_s: float | None
    compiled_in_window: int | None  # programs; None if unknown
    loading: list[Loading] | None = None  # after the first step, at the window's ends; None without a loader


def measure(
    training: Steps,
    steps: int,
    warmup_steps: int,
    after_first_step: Callable[[], None],
    beat: Callable[[int], None] | None = None,
    clock_ns: Callable[[], int] = time.perf_counter_ns,
    wall_clock: Callable[[], float] = time.time,
) -> Timeline:
    """Run ``steps`` training steps by the protocol above and return this rank's times.

    ``after_first_step`` may raise to end the run. ``beat`` gets the number of steps launched so far, at most once per
    second. Slot i of the marks is the end of step i; slot ``steps`` is the start of the window.
    """
    assert 1 <= warmup_steps < steps
    window_start, marks, seconds_between = steps, training.marks, training.marks.seconds_between

    training.synchronize()
    first_step_at, started_ns = wall_clock(), clock_ns()
    training.step(0)
    training.synchronize()
    first_step_s = (clock_ns() - started_ns) / 1e9
    after_first_step()
    loading = [training.loading()]

    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        marks.mark(0)
        run_steps(training, 1, warmup_steps, beat, clock_ns)
        training.synchronize()
        compile_s, before = training.compile_s(), training.compilations()
        training.barrier()
        training.synchronize()
        loading.append(training.loading())
        marks.mark(window_start)
        window_at, t0 = wall_clock(), clock_ns()
        run_steps(training, warmup_steps, steps, beat, clock_ns)
        training.synchronize()
        t1 = clock_ns()
        loading.append(training.loading())
        after = training.compilations()
    finally:
        gc.enable()
        gc.unfreeze()

    # The first measured step begins with the window, any other with the end of the step before.
    begins = [window_start if index == warmup_steps else index - 1 for index in range(steps)]
    step_s = [first_step_s, *(seconds_between(begins[index], index) for index in range(1, steps))]
    compiled = None if before is None or after is None else after - before
    states = [state for state in loading if state is not None] or None
    return Timeline(first_step_s, step_s, t1 - t0, first_step_at, window_at, compile_s, compiled, states)


def run_steps(
    training: Steps, first: int, end: int, beat: Callable[[int], None] | None, clock_ns: Callable[[], int]
) -> None:
    """Run steps ``first`` to ``end - 1``; the same code for warm-up and window."""
    step, mark = training.step, training.marks.mark
    beat_at = 0 if beat is not None else NEVER
    for index in range(first, end):
        step(index)
        mark(index)
        now = clock_ns()
        if now >= beat_at:
            assert beat is not None
            beat(index + 1)
            beat_at = now + BEAT_NS
