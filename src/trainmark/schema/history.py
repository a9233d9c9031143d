"""A history: results of one case over time, its changes with their causes, and its noise."""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from trainmark.schema.frozen import Frozen

SCHEMA: Literal["trainmark.history/1"] = "trainmark.history/1"


class ChangeCause(StrEnum):
    """The cause of a change of level, by what else changed in the results at the same time."""

    REGRESSION = "regression"
    """Slower, and neither the method nor the hardware changed: the program or its software did."""
    IMPROVEMENT = "improvement"
    """Faster, and neither the method nor the hardware changed."""
    METHOD = "change-of-method"
    """What or how was measured changed: the rule, the unit, the protocol, the command, the data, trainmark."""
    HARDWARE = "change-of-hardware"
    """The machine changed: processor, memory, GPU, host."""


class FactChange(Frozen):
    """A fact of the environment that differs across a change; None if a side does not report it."""

    cause: ChangeCause | None
    fact: str
    before: str | None
    after: str | None


class HistoryPoint(Frozen):
    """One result: ``value`` is the median of its ``runs``. ``spike`` is one that stands alone and is left out.

    ``level`` is the level that the history has there, on the point's machine.
    """

    source: str
    at: datetime
    machine: str
    value: float
    runs: int
    spike: bool
    level: float


class LevelChange(Frozen):
    """A change of level before the point number ``index``; ``earliest`` and ``latest`` limit that number.

    ``ratio`` is the level after over that before. ``score`` is the t-value that the noise allows for; ``confirmed``
    is false if fewer than ``needed`` results follow, so that there is no alarm yet.
    """

    index: int
    earliest: int
    latest: int
    ratio: float
    score: float
    confirmed: bool
    needed: int
    cause: ChangeCause
    differences: tuple[FactChange, ...]

    @property
    def alarm(self) -> bool:
        """True for a confirmed regression."""
        return self.confirmed and self.cause is ChangeCause.REGRESSION


class Noise(Frozen):
    """The variation that is no change of level.

    ``spread`` is the standard deviation of the logarithms without spikes and changes, ``correlation`` that of
    neighbours, ``drift`` the change over the whole history that a straight line explains (null if there is none),
    ``levels`` the ratio of two levels between which the results jump (null if there are none).
    """

    spread: float
    spikes: int
    correlation: float
    drift: float | None
    levels: float | None


class CaseHistory(Frozen):
    """The history of one case; ``changes`` in the order of time. ``reason`` says why it was not analysed, if so."""

    case: str
    unit: str
    points: tuple[HistoryPoint, ...]
    machines: tuple[str, ...]
    changes: tuple[LevelChange, ...]
    noise: Noise | None
    reason: str | None = None


class HistoryReport(Frozen):
    """The histories of all cases of a source; ``least`` is the smallest change that counts."""

    schema_name: Literal["trainmark.history/1"] = SCHEMA
    sources: tuple[str, ...]
    least: float
    since: datetime | None
    cases: tuple[CaseHistory, ...]

    @property
    def alarms(self) -> tuple[tuple[CaseHistory, LevelChange], ...]:
        """The confirmed regressions, of those since the given time."""
        return tuple(
            (case, change)
            for case in self.cases
            for change in case.changes
            if change.alarm and (self.since is None or case.points[change.index].at >= self.since)
        )
