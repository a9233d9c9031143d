"""What one run gave, and what a case's runs gave together: the documents of measuring."""

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field

from trainmark.words.frozen import Frozen


class About(StrEnum):
    """What a doubt is about: the work that was done, the machine that did it, or when the measuring began."""

    WORK = "work"
    MACHINE = "machine"
    WINDOW = "window"


class Suspicion(Frozen):
    """A reason to doubt a result that is kept all the same: a code for programs, a sentence for people.

    Where a gate raised it, ``value`` is what it saw and ``bound`` from where on it doubts.
    """

    code: str
    sentence: str
    about: About
    value: float | None = None
    bound: float | None = None


class StepTimes(Frozen):
    """The distribution of the measured steps' times, in seconds."""

    mean: float
    minimum: float
    p50: float
    p90: float
    p99: float
    maximum: float


class Steadiness(Frozen):
    """The verdict of the warm-up test.

    ``steady`` is null for a window of fewer than 20 steps, which says too little. ``settled_after`` is the
    number of steps of the window before it settled, null where it never did; ``bias`` is the window's mean
    step time over the settled steps' mean, less 1.
    """

    steady: bool | None
    settled_after: int | None
    bias: float | None


class Measurement(Frozen):
    """What one run gave.

    ``throughput`` (``unit``) is the work of all ranks over ``window_s``, the time from the barrier at the window's
    start to the slowest rank's end. ``work`` has an amount of each of the task's counters, ``samples`` of what a batch
    counts. Of another program's log the throughput is what the named ``rule`` gives, ``samples`` and ``window_s`` are
    null, and steps are its records.
    ``first_step_s`` holds the compilation.
    ``data_wait`` is the share of the window that rank 0 waited for its loader. ``peak_memory_bytes`` has
    one value a rank.
    """

    unit: str
    rule: str
    throughput: float
    samples: int | None
    work: Mapping[str, int] = Field(default_factory=dict)
    window_s: float | None
    measured_steps: int
    warmup_steps: int
    first_step_s: float | None
    compile_s: float | None
    step_times: StepTimes | None
    data_wait: float | None
    peak_memory_bytes: tuple[int, ...]
    final_loss: float | None
    steadiness: Steadiness
    suspicions: tuple[Suspicion, ...]


class IntervalMethod(StrEnum):
    """How an interval was computed; ``measure.statistics`` gives the formulas."""

    STUDENT_T_LOG = "student-t-log"
    ORDER_STATISTICS = "order-statistics"
    WELCH_LOG = "welch-log"


class Interval(Frozen):
    """A 95 % interval in the unit of what it stands beside."""

    low: float
    high: float
    method: IntervalMethod


class Estimate(Frozen):
    """The throughput of a case over its runs (unit/s), and how sure it is; ``std`` is the sample's (n-1)."""

    n: int
    median: float
    mean: float
    minimum: float
    maximum: float
    std: float | None
    interval: Interval | None

    @property
    def half_width(self) -> float | None:
        """Half the interval's width as a fraction of the median."""
        if self.interval is None:
            return None
        return (self.interval.high - self.interval.low) / 2 / self.median


class Ratio(Frozen):
    """A quotient of two cases' medians, with its interval where both sides have at least 3 runs."""

    value: float
    interval: Interval | None


class Speedup(Frozen):
    """How much faster than one device, and what share of the ideal that is (``speedup / world_size``)."""

    baseline: str
    speedup: Ratio
    efficiency: Ratio
