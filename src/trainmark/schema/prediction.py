"""A prediction: the throughput at more devices than were measured, with its interval, or the reason for none."""

from enum import StrEnum
from typing import Literal

from trainmark.schema.frozen import Frozen

SCHEMA: Literal["trainmark.prediction/1"] = "trainmark.prediction/1"


class ScalingModel(StrEnum):
    """The model that a prediction comes from."""

    WITHIN_HOST = "within-host"
    """Weak scaling on one host: the time of a sample grows by the logarithm of the devices."""
    FIRST_HOSTS = "first-hosts"
    """Weak scaling from one host and a second scale of several: the second doubling costs less than the first."""
    MANY_HOSTS = "many-hosts"
    """Weak scaling from two scales of several hosts: the time of a sample grows by the logarithm of the devices."""
    STRONG = "strong"
    """Strong scaling: the batch of a device falls, so that the cost of a step is shared by fewer samples."""
    MEASURED = "measured"
    """The scale was measured."""


class Limit(StrEnum):
    """A part of the time of a step at a predicted scale."""

    COMPUTE = "compute"
    """The time that the smallest measured scale needs as well."""
    WITHIN_HOST = "communication-within-host"
    """The exchange within a host that no computation hides."""
    BETWEEN_HOSTS = "communication-between-hosts"
    """The exchange between hosts that no computation hides."""
    INPUT = "input"
    """The wait for data."""
    STRAGGLERS = "stragglers"
    """The wait for the slowest rank."""


class RefusalCode(StrEnum):
    """The kind of reason why there is no prediction."""

    ONE_HOST = "one-host"
    """No scale on more than one host was measured."""
    TOO_FEW = "too-few"
    """Too few scales or batches were measured, or too near each other."""
    BATCH_NOT_MEASURED = "batch-not-measured"
    """No scale of the batch was measured."""
    BATCH_OUT_OF_RANGE = "batch-out-of-range"
    """The batch is larger than the measured ones, or much smaller."""
    RISING = "rising"
    """A device is faster on more devices."""
    INEFFICIENT = "inefficient"
    """A device of the largest scale reaches too little of its rate alone: no exchange explains that."""
    TOO_FAR = "too-far"
    """The scale is farther from the measured ones than predictions were checked."""
    TOO_SLOW = "too-slow"
    """A sample would take longer, against the measured ones, than predictions were checked."""


class Term(Frozen):
    """A part of the time of a step: its share, and its evidence in a sentence."""

    limit: Limit
    share: float
    sentence: str


class MeasuredScale(Frozen):
    """A measured scale: ``throughput`` of all devices; ``spread`` is the standard deviation of the runs' logarithms."""

    devices: int
    nodes: int
    batch_per_device: float | None
    throughput: float
    spread: float | None


class PredictedScale(Frozen):
    """The prediction for one number of devices, or ``refused``: the reason why there is none, with its code.

    ``low`` and ``high`` are the ends of the interval. ``efficiency`` is the throughput of a device relative to that of
    the smallest measured scale (``efficiency_of`` devices), with its ends. ``terms`` are the parts of a step's time,
    largest first; ``limit`` is the largest part besides computing, or ``compute`` if that is more than 90 %.
    """

    devices: int
    nodes: int
    batch_per_device: float | None
    model: ScalingModel | None = None
    throughput: float | None = None
    low: float | None = None
    high: float | None = None
    efficiency: float | None = None
    efficiency_low: float | None = None
    efficiency_high: float | None = None
    efficiency_of: int | None = None
    limit: Limit | None = None
    terms: tuple[Term, ...] = ()
    refused: str | None = None
    refusal: RefusalCode | None = None


class Knee(Frozen):
    """The scale from which twice the devices give less than ``gain`` times the throughput.

    ``devices`` is null if there is none up to ``searched_to`` devices, the most that the measurements allow.
    """

    batch_per_device: float | None
    devices: int | None
    searched_to: int
    gain: float


class SeriesPrediction(Frozen):
    """One configuration at several scales: its measurements and predictions; ``assumptions`` are sentences."""

    series: str
    unit: str
    devices_per_node: int
    measured: tuple[MeasuredScale, ...]
    assumptions: tuple[str, ...]
    predicted: tuple[PredictedScale, ...]
    knees: tuple[Knee, ...]


class PredictionReport(Frozen):
    """The predictions for all configurations of a source; ``level`` is that of the intervals."""

    schema_name: Literal["trainmark.prediction/1"] = SCHEMA
    source: str
    level: float
    series: tuple[SeriesPrediction, ...]

    @property
    def complete(self) -> bool:
        """True if nothing was refused."""
        return all(one.refused is None for series in self.series for one in series.predicted)
