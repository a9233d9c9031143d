"""What one run gave, and what a case's runs gave together: the documents of measuring."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Self

from pydantic import Field, PositiveFloat, model_validator

from trainmark.schema.frozen import Frozen


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


class Shape(StrEnum):
    """How a series of step times that is not steady goes."""

    SLOW_START = "slow-start"
    """Its first steps are slower than the rest, which is steady: a warm-up that reaches into the window."""
    FAST_START = "fast-start"
    """Its first steps are faster than the rest, which is steady: a queue that empties, clocks that fall."""
    SLOWDOWN = "slowdown"
    """It becomes slower late, and stays so: throttling."""
    SPEEDUP = "speedup"
    """It becomes faster late."""
    BURST = "burst"
    """It leaves its level for a while, and comes back to it."""
    DRIFT = "drift"
    """It becomes slower, or faster, all the time."""
    LEVELS = "levels"
    """It changes between levels."""


class Cause(StrEnum):
    """What the events show beside the steps that are not as the others."""

    COMPILE = "compile"
    """They are the window's first one to three, each as long as several: compilation or autotuning."""
    EPOCH = "epoch"
    """They begin with an epoch."""
    DATA = "data"
    """Most of the time that they took longer was a wait for the loader."""


class CannotSay(StrEnum):
    """Why a window does not show whether it was steady."""

    TOO_FEW_STEPS = "too-few-steps"
    TOO_NOISY = "too-noisy"
    """A change by a fifth over a quarter of the window might have been missed: the steps vary too much."""
    NO_STEP_TIMES = "no-step-times"
    """A log gives running averages, or no times: what a stretch of the run took is not in it."""


class Level(Frozen):
    """A stretch of the window: its first step (from 0), its number of steps, and its mean step time over the
    mean of the stretch that is taken for steady, less 1."""

    first: int
    steps: int
    off: float


class Steadiness(Frozen):
    """The verdict of the warm-up test.

    ``steady`` is null where the window cannot say, for the reason in ``cannot_say``. ``settled_after`` is the
    number of steps of the window before it settled, null where it never did; ``bias`` is the window's mean
    step time over the settled steps' mean, less 1. ``shape``, ``cause`` and ``levels`` say how it was not steady.
    Steps are a foreign log's
    records. ``detectable`` is the power: the smallest change of the step time over a quarter of the window, as a share,
    that would be found in 4 of 5 such windows, or that no stretch shows half of.
    ``correlation`` is that of neighbouring steps.
    """

    steady: bool | None
    settled_after: int | None
    bias: float | None
    shape: Shape | None = None
    cause: Cause | None = None
    levels: tuple[Level, ...] = ()
    cannot_say: CannotSay | None = None
    detectable: float | None = None
    correlation: float | None = None


class Measurement(Frozen):
    """What one run gave.

    ``throughput`` (``unit``) is the work of all ranks over ``window_s``, the time from the barrier at the window's
    start to the slowest rank's end. ``work`` has an amount of each of the task's counters, ``samples`` of what a batch
    counts. Of another program's log the throughput is what the named ``rule`` gives, ``samples`` and ``window_s`` are
    null, and steps are its records.
    ``first_step_s`` holds the compilation.
    ``peak_operations_per_s`` is what all devices were measured to do in a matrix product, ``mfu`` the share of it that
    the run used, by the name of the convention by which its operations are counted: no peak, no share;
    nor where the run did more than that peak, which then is too low.
    ``peak_bytes_per_s`` is what the memory of all devices was measured to read and write, ``roofline`` the least time
    of the step by both peaks, as a share of the time that it took.
    ``steps_skipped`` are those of the whole run that overflowed in FP16 and changed nothing; null where there is no
    scale to try out, or nobody counts them.
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
    peak_operations_per_s: float | None = None
    mfu: Mapping[str, float] = Field(default_factory=dict)
    peak_bytes_per_s: float | None = None
    roofline: float | None = None
    steps_skipped: int | None = None
    steadiness: Steadiness
    suspicions: tuple[Suspicion, ...]


class IntervalMethod(StrEnum):
    """How an interval was computed; ``measure.statistics`` gives the formulas. Some are an older trainmark's."""

    STUDENT_T_LOG = "student-t-log"
    INTERPOLATED = "interpolated-order-statistics"
    MOVER_LOG = "mover-log"
    ORDER_STATISTICS = "order-statistics"
    WELCH_LOG = "welch-log"


class Sampling(StrEnum):
    """How it was decided how many runs there are."""

    FIXED = "fixed"
    """Before the first of them."""
    WAITED = "waited"
    """By looking at the interval after each run, and stopping when it was narrow."""


class Interval(Frozen):
    """A 95 % interval in the unit of what it stands beside, of runs of one campaign on one machine.

    It speaks for that campaign on that machine alone, not for another day or another machine. ``computed_at`` is the
    level at which the formula was used so that the interval holds 95 %: more where it was waited for.
    """

    low: float
    high: float
    method: IntervalMethod
    computed_at: float = 0.95

    @model_validator(mode="after")
    def _is_ordered(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"an interval from {self.low} to {self.high} ends before it begins")
        return self


class NoInterval(StrEnum):
    """Why there is no interval."""

    ONE_RUN = "one-run"
    TWO_RUNS = "two-runs"
    EQUAL_RUNS = "equal-runs"
    """Their spread is below what was written down: it is not known, and it is not zero."""
    RUNS_DISAGREE = "runs-apart"
    """They are fewer than 6 and not of one kind: one is half as fast again as another."""
    SPOILED = "spoiled"
    """Their machine spoiled every one: how much others disturbed them says nothing about the case."""
    STEPS_DIFFER = "steps-differ"
    """Their windows have different numbers of steps: they are not repeats of one measurement."""
    MACHINES_DIFFER = "machines-differ"
    """They were measured on different machines: an interval speaks for one."""


class Estimate(Frozen):
    """The throughput of a case over its runs (unit/s), and how sure it is; ``std`` is the sample's (n-1).

    The interval is the median's. ``no_interval`` says why there is none; null in what an older trainmark wrote.
    """

    n: int
    median: PositiveFloat
    mean: PositiveFloat
    minimum: PositiveFloat
    maximum: PositiveFloat
    std: float | None
    interval: Interval | None
    no_interval: NoInterval | None = None

    @model_validator(mode="after")
    def _is_ordered(self) -> Self:
        if not self.minimum <= self.median <= self.maximum:
            raise ValueError(f"a median of {self.median} is not between {self.minimum} and {self.maximum}")
        return self

    @property
    def half_width(self) -> float | None:
        """Half the interval's width as a fraction of the median."""
        if self.interval is None:
            return None
        return (self.interval.high - self.interval.low) / 2 / self.median


class Ratio(Frozen):
    """A quotient of two cases' medians, with its interval where both sides have one; else why one side has none."""

    value: float
    interval: Interval | None
    no_interval: NoInterval | None = None


class Speedup(Frozen):
    """How much faster than one device, and what share of the ideal that is (``speedup / world_size``)."""

    baseline: str
    speedup: Ratio
    efficiency: Ratio
