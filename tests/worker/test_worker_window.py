"""The timing protocol, driven with a clock that only moves when a step says so."""

import gc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmark.worker.core.queues import Loading
from trainmark.worker.core.window import DeviceTimers, HostTimers, measure


class Clock:
    """Nanoseconds that pass when somebody says so."""

    def __init__(self) -> None:
        self.ns = 0

    def __call__(self) -> int:
        return self.ns


class Recorded:
    """Steps that take the times given, on a device that computes while the host waits, and a list of calls."""

    def __init__(self, step_ns: list[int], clock: Clock) -> None:
        self.step_ns = step_ns
        self.clock = clock
        self.calls: list[str] = []
        self.gc_was_on: list[bool] = []
        self.marks: DeviceTimers = HostTimers(len(step_ns), clock)
        self.compiled = 0
        self.compiles_at: set[int] = set()
        self.counts = True

    def step(self, index: int) -> None:
        self.calls.append(f"step {index}")
        self.gc_was_on.append(gc.isenabled())
        self.compiled += index in self.compiles_at
        self.clock.ns += self.step_ns[index]

    def synchronize(self) -> None:
        self.calls.append("synchronize")

    def barrier(self) -> None:
        self.calls.append("barrier")
        self.clock.ns += 5_000_000_000

    def compile_s(self) -> float | None:
        return None

    def compilations(self) -> int | None:
        return self.compiled if self.counts else None

    def loading(self) -> Loading | None:
        return None


def run(step_ns: list[int], warmup: int) -> Recorded:
    clock = Clock()
    steps = Recorded(step_ns, clock)
    measure(steps, len(step_ns), warmup, lambda: None, None, clock)
    return steps


def test_the_device_is_synchronised_at_the_ends_of_the_window_and_in_no_step_of_it() -> None:
    steps = run([10, 20, 30, 40, 50], warmup=3)

    at_first_step = ["synchronize", "step 0", "synchronize"]
    to_the_window = ["step 1", "step 2", "synchronize", "barrier", "synchronize"]
    assert steps.calls == [*at_first_step, *to_the_window, "step 3", "step 4", "synchronize"]


# Each example collects the garbage of this whole process.
@settings(max_examples=20)
@given(st.lists(st.integers(1, 10**10), min_size=2, max_size=30), st.data())
def test_the_window_is_the_sum_of_its_steps_and_the_barrier_is_outside(
    step_ns: list[int], data: st.DataObject
) -> None:
    warmup = data.draw(st.integers(1, len(step_ns) - 1))

    clock = Clock()
    timeline = measure(
        Recorded(step_ns, clock), len(step_ns), warmup, lambda: None, None, clock, lambda: clock.ns / 1e9
    )

    assert timeline.window_ns == sum(step_ns[warmup:])
    assert timeline.step_s == [ns / 1e9 for ns in step_ns]
    assert timeline.first_step_s == timeline.step_s[0]


def test_the_collector_is_off_in_warm_up_and_window_and_on_again_after_it() -> None:
    steps = run([1, 1, 1, 1], warmup=2)

    assert steps.gc_was_on == [True, False, False, False]
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_the_collector_is_on_again_when_a_step_fails() -> None:
    clock = Clock()
    steps = Recorded([1], clock)

    with pytest.raises(IndexError):
        measure(steps, 3, 1, lambda: None, None, clock)

    assert gc.isenabled()


@pytest.mark.parametrize(("compiled_at", "in_window"), [(0, 0), (1, 0), (3, 1)])
def test_compiling_in_the_window_is_counted(compiled_at: int, in_window: int) -> None:
    clock = Clock()
    steps = Recorded([1, 1, 1, 1], clock)
    steps.compiles_at = {compiled_at}

    timeline = measure(steps, 4, 2, lambda: None, None, clock)

    assert timeline.compiled_in_window == in_window


def test_a_framework_that_shows_no_compilation_is_not_said_to_have_made_none() -> None:
    clock = Clock()
    steps = Recorded([1, 1, 1, 1], clock)
    steps.counts = False

    timeline = measure(steps, 4, 2, lambda: None, None, clock)

    assert timeline.compiled_in_window is None


def test_a_heartbeat_comes_at_most_once_a_second() -> None:
    clock = Clock()
    beats: list[int] = []

    measure(Recorded([400_000_000] * 11, clock), 11, 10, lambda: None, beats.append, clock)

    # Steps 1 to 9 are the warm-up, step 10 the window, which beats at once.
    assert beats == [2, 5, 8, 11]
