"""The measurement of one run, its doubts, the gates that check it, what it reports of itself; estimates over runs.

A gate is a check of a result, which a suite can turn off. The parameters that a run reports are typed for the names of
the built-in workers; other names stay as they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Self

from pydantic import (
    Field,
    PositiveFloat,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationError,
    model_serializer,
    model_validator,
)

from trainmark.schema.frozen import Frozen, Share


class GateName(StrEnum):
    """A gate; its value is the code of the doubt that it raises."""

    GPU_THROTTLED = "gpu-throttled"
    CLOCK_DROPPED = "clock-dropped"
    GPU_SHARED = "gpu-shared"
    CPU_SHARED = "cpu-shared"
    RANKS_DISAGREE = "ranks-disagree"
    RANKS_UNEVEN = "ranks-uneven"
    LOSS_NOT_FINITE = "loss-not-finite"
    BATCH_DIFFERS = "batch-per-device-differs"
    TWO_LEVELS = "two-levels"
    DRIFT_OVER_RUNS = "drift-over-runs"


SPOILING = frozenset(
    {GateName.GPU_THROTTLED, GateName.CLOCK_DROPPED, GateName.GPU_SHARED, GateName.CPU_SHARED}
)
"""Doubts about a machine for which a run is repeated and excluded from its case's estimate."""

UNINSPECTED = "not-looked"
"""The code of a doubt about a run at whose machine a gate could not look."""


class Answer(StrEnum):
    """The answer of a gate about one run."""

    DOUBT = "doubt"
    """It found something."""
    CLEAN = "clean"
    """It looked and found nothing."""
    UNCHECKED = "not-looked"
    """It could not look, so nothing is known."""
    OFF = "off"
    """The suite turned it off."""


class GateCheck(Frozen):
    """A gate's answer about one run.

    ``samples`` and ``seconds`` are what it looked at: samples of the machine, or steps, over that time; null if it does
    not count any. ``reason`` says why it did not look.
    """

    gate: GateName
    answer: Answer
    samples: int | None = None
    seconds: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Inspection:
    """The least ``samples`` over the least ``seconds`` that the gates about a run's machine looked at.

    ``unchecked`` are those that could not look.
    """

    samples: int | None
    seconds: float | None
    unchecked: tuple[GateCheck, ...]

    @classmethod
    def of(cls, checks: Sequence[GateCheck]) -> "Inspection":
        """Return how much these gates looked at."""
        counts = [check.samples for check in checks if check.samples is not None]
        times = [check.seconds for check in checks if check.seconds is not None]
        return cls(
            samples=min(counts, default=None),
            seconds=min(times, default=None),
            unchecked=tuple(check for check in checks if check.answer is Answer.UNCHECKED),
        )

    @property
    def is_whole(self) -> bool:
        """True if every gate looked."""
        return not self.unchecked


class About(StrEnum):
    """The subject of a doubt: the work, the machine, or the measured window."""

    WORK = "work"
    MACHINE = "machine"
    WINDOW = "window"


class Suspicion(Frozen):
    """A reason to doubt a result, which is reported nevertheless: a code for programs, a sentence for people.

    If a gate raised it, ``value`` is the observed value and ``bound`` the gate's threshold.
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
    """The shape of a series of step times that is not steady."""

    SLOW_START = "slow-start"
    """Its first steps are slower than the rest, which is steady: the warm-up extends into the window."""
    FAST_START = "fast-start"
    """Its first steps are faster than the rest, which is steady: a queue runs empty, clocks drop."""
    SLOWDOWN = "slowdown"
    """It becomes slower late, and stays so: throttling."""
    SPEEDUP = "speedup"
    """It becomes faster late."""
    BURST = "burst"
    """It leaves its level for a while, and comes back to it."""
    DRIFT = "drift"
    """It becomes slower, or faster, throughout the window."""
    LEVELS = "levels"
    """It changes between levels."""


class Cause(StrEnum):
    """The likely cause of an unsteady series, from the run's events."""

    COMPILE = "compile"
    """Its first one to three steps take several times as long as the others: compilation or autotuning."""
    EPOCH = "epoch"
    """The unsteady steps are at the start of an epoch."""
    DATA = "data"
    """Most of the extra time was spent waiting for the loader."""


class CannotSay(StrEnum):
    """The reason why the steadiness of a window is unknown."""

    TOO_FEW_STEPS = "too-few-steps"
    TOO_NOISY = "too-noisy"
    """A change by a fifth over a quarter of the window might have been missed: the steps vary too much."""
    NO_STEP_TIMES = "no-step-times"
    """The log has running averages or no times, so the time of a part of the run is unknown."""


class Level(Frozen):
    """A stretch of the window: first step (from 0), number of steps, and relative deviation of its mean step time.

    ``off`` is the stretch's mean step time divided by that of the steady stretch, minus 1."""

    first: int
    steps: int
    off: float


class Steadiness(Frozen):
    """The verdict of the warm-up test.

    ``steady`` is null if the window does not show it, for the reason in ``cannot_say``. ``settled_after`` is the number
    of steps of the window before it settled, null if it never did; ``bias`` is the window's mean step time divided by
    the settled steps' mean, minus 1. ``shape``, ``cause`` and ``levels`` describe an unsteady window. For another
    program's log, steps are its records.

    ``detectable`` is the power: the smallest relative change of the step time over a quarter of the window that would
    be found in 4 of 5 such windows, or so large that no stretch shows half of it.
    ``correlation`` is the correlation of neighbouring steps.
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


class ModelFlops(Frozen):
    """The MFU of another program's language model: six operations for each parameter and token, and attention's.

    ``convention`` is ``6N``, or ``6N+12LHQT`` if layers, width (heads times their size) and sequence are known: full
    attention, as PaLM's appendix B counts it. ``mfu_causal`` counts half of the attention, as causal kernels compute
    it. ``parameters_by``, ``shape_by`` and ``peak_by`` name the sources: the log, the command or the user, and a data
    sheet. Fields of the shape are null in files of older versions.
    """

    parameters: int
    parameters_by: str
    operations_per_token: float
    convention: str = "6N"
    layers: int | None = None
    hidden_size: int | None = None
    sequence_length: int | None = None
    shape_by: str | None = None
    peak_operations_per_s: float
    peak_by: str
    mfu: float
    mfu_causal: float | None = None


class Measurement(Frozen):
    """The measurement of one run.

    ``throughput`` (``unit``) is the work of all ranks divided by ``window_s``, the time from the barrier at the
    window's start to the slowest rank's end. ``work`` has the amount of each of the task's counters, ``samples``
    the number of samples as a batch counts them. For another program's log, the named ``rule`` gives the
    throughput, ``samples`` is null, steps are its records, and ``window_s`` is the time from the arrival of the
    last record that is left out to that of the last one used (null if unknown); it began at ``window_at`` (Unix
    time). ``first_step_s`` includes the compilation. ``peak_operations_per_s`` is the measured rate of a matrix
    product on all devices, ``mfu`` the share of it that the run used, by the convention that counts its operations.
    The share is missing if the peak is unknown, or if the run exceeded the peak, which is then too low.
    ``peak_bytes_per_s`` is the measured memory bandwidth of all devices, ``roofline`` the shortest possible step
    time by both peaks, as a share of the actual step time. ``steps_skipped`` is the number of steps of the whole
    run that overflowed in FP16 and left the weights unchanged; null without dynamic loss scaling, or if they are
    not counted. ``work_not_checked`` names the checks of a built-in worker's work that had nothing to look at; null
    in files of older versions. ``data_wait`` is the share of the window in which rank 0 waited for its loader.
    ``peak_memory_bytes`` has one value per rank. ``witnessed`` are the facts that another program's log states
    itself: its format, model, precision, devices and batch. ``printed_throughput`` is the number by the times that such
    a log prints, if ``throughput`` is by the arrival of its lines because these times leave out a part of the window.
    ``paused_s`` are the seconds of the window that it leaves out, since they are pauses between the steps.
    """

    unit: str
    rule: str
    throughput: float
    printed_throughput: float | None = None
    paused_s: float | None = None
    samples: int | None
    work: Mapping[str, int] = Field(default_factory=dict)
    window_s: PositiveFloat | None
    window_at: float | None = None
    measured_steps: int
    warmup_steps: int
    first_step_s: float | None
    compile_s: float | None
    step_times: StepTimes | None
    data_wait: Share | None
    peak_memory_bytes: tuple[int, ...]
    final_loss: float | None
    peak_operations_per_s: float | None = None
    mfu: Mapping[str, float] = Field(default_factory=dict)
    peak_bytes_per_s: float | None = None
    roofline: float | None = None
    steps_skipped: int | None = None
    work_not_checked: tuple[str, ...] | None = None
    witnessed: Mapping[str, str] = Field(default_factory=dict)
    model_flops: ModelFlops | None = None
    steadiness: Steadiness
    suspicions: tuple[Suspicion, ...]

    @property
    def window(self) -> tuple[float, float] | None:
        """From when to when the window of another program's run reached, in Unix time; None if that is not known."""
        if self.window_at is None or self.window_s is None:
            return None
        return self.window_at, self.window_at + self.window_s


class IntervalMethod(StrEnum):
    """The method of an interval; ``measure.statistics`` has the formulas. Some are only in older files."""

    STUDENT_T_LOG = "student-t-log"
    INTERPOLATED = "interpolated-order-statistics"
    MOVER_LOG = "mover-log"
    ORDER_STATISTICS = "order-statistics"
    WELCH_LOG = "welch-log"


class Sampling(StrEnum):
    """The rule that decided the number of runs."""

    FIXED = "fixed"
    """It was fixed before the first run."""
    WAITED = "waited"
    """Runs were added until the interval was narrow enough."""


class Interval(Frozen):
    """A 95 % interval, in the unit of its estimate, for runs of one campaign on one machine.

    It does not apply to another day or another machine. ``computed_at`` is the nominal level of the formula. It is
    above 95 % if runs were added until the interval was narrow, so that the coverage is 95 %.
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
    """The reason for a missing interval."""

    ONE_RUN = "one-run"
    TWO_RUNS = "two-runs"
    EQUAL_RUNS = "equal-runs"
    """Their spread is below the printed precision: unknown, but not zero."""
    RUNS_DISAGREE = "runs-apart"
    """They are fewer than 6 and one is at least 1.5 times as fast as another."""
    SPOILED = "spoiled"
    """The machine disturbed every run, so their spread says nothing about the case."""
    STEPS_DIFFER = "steps-differ"
    """Their windows have different numbers of steps: they are not repeats of one measurement."""
    MACHINES_DIFFER = "machines-differ"
    """They were measured on different machines: an interval covers only one."""

    @property
    def in_words(self) -> str:
        """The end of a sentence about a case or a side without an interval."""
        return _WITHOUT_INTERVAL[self]


_WITHOUT_INTERVAL = {
    NoInterval.ONE_RUN: "has only one run, but an interval needs 3 (`repeats`)",
    NoInterval.TWO_RUNS: "has two runs, but an interval needs 3 (`repeats`)",
    NoInterval.EQUAL_RUNS: "has runs with exactly equal numbers, so their variation is unknown",
    NoInterval.RUNS_DISAGREE: (
        "has runs whose rates differ by more than a factor of 1.5, but an interval needs 6 (`repeats`)"
    ),
    NoInterval.SPOILED: "has only runs that were disturbed by their machine",
    NoInterval.STEPS_DIFFER: "has runs with different numbers of steps",
    NoInterval.MACHINES_DIFFER: "has runs on different machines",
}


class Estimate(Frozen):
    """The throughput of a case over its runs (unit/s), and its uncertainty; ``std`` is the sample's (n-1).

    The interval is the median's. ``no_interval`` is the reason for a missing one; null in files of older versions.
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
    """A quotient of two cases' medians, with its interval if both sides have one, else the reason."""

    value: float
    interval: Interval | None
    no_interval: NoInterval | None = None


class Speedup(Frozen):
    """The speedup over one device, and the efficiency: its share of the ideal (``speedup / world_size``)."""

    baseline: str
    speedup: Ratio
    efficiency: Ratio


class Parameters(Frozen):
    """The PARAMETER event of a run; fields that it does not contain are null.

    ``free`` has the other names: those of a task, a framework or another program, and a known name with a value of
    another type. In JSON they are next to the other fields.
    """

    framework: str | None = None
    framework_version: str | None = None
    task: str | None = None
    model: str | None = None
    precision: str | None = None
    compiler: str | None = None
    device: str | None = None
    device_name: str | None = None
    data: str | None = None
    loader: str | None = None
    loader_workers: int | None = None
    batch_per_device: int | None = None
    world_size: int | None = None
    global_batch: int | None = None
    steps: int | None = None
    warmup_steps: int | None = None
    seed: int | None = None
    memory_limit_bytes: int | None = None
    unit: str | None = None
    work: Mapping[str, int] | None = None
    optimizer: Mapping[str, Any] | None = None
    actual: Mapping[str, Any] | None = None
    free: Mapping[str, Any] = Field(default_factory=dict)

    @classmethod
    def of(cls, reported: Mapping[str, Any]) -> Self:
        """Return the parameters of a run's PARAMETER event."""
        return cls.model_validate(reported)

    @property
    def from_compile_cache(self) -> bool:
        """True if the run took compiled programs from a cache."""
        return bool((self.actual or {}).get("compile_cache_hits"))

    def reported(self) -> dict[str, Any]:
        """Return everything that the run reported, unchanged."""
        known = {
            name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set
        }
        return {**{name: value for name, value in known.items() if name != "free"}, **self.free}

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, reported: Any) -> Any:
        if not isinstance(reported, Mapping):
            return reported
        known = {
            name: value for name, value in reported.items() if name != "free" and _fits(cls, name, value)
        }
        return known | {"free": {name: value for name, value in reported.items() if name not in known}}

    @model_serializer(mode="wrap")
    def _flat(self, _handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return self.reported()


def _fits(model: type[Parameters], name: str, value: Any) -> bool:
    if name not in model.model_fields:
        return False
    try:
        _adapter(model, name).validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


@cache
def _adapter(model: type[Parameters], name: str) -> TypeAdapter[Any]:
    known: Any = model.model_fields[name].annotation
    return TypeAdapter(known)
