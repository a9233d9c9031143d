"""The names of the gates that check a result, and a gate's answer; a suite can turn each of them off."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from trainmark.schema.frozen import Frozen


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
