"""A comparison of two results: cases that became faster or slower, and other differences between the two sides."""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from trainmark.schema.frozen import Frozen
from trainmark.schema.measurement import Estimate, Ratio
from trainmark.schema.outcome import Outcome

SCHEMA: Literal["trainmark.comparison/1"] = "trainmark.comparison/1"


class Change(StrEnum):
    """The change of the candidate's throughput from the baseline's."""

    FASTER = "faster"
    SLOWER = "slower"
    NOT_DISTINGUISHABLE = "not-distinguishable"
    """The ratio's interval contains 1, or comes closer to it than the smallest change that counts."""
    CANNOT_SAY = "cannot-say"
    """There is no ratio, or it has no interval."""


class Side(StrEnum):
    """One of the two results."""

    BASELINE = "baseline"
    CANDIDATE = "candidate"


class Origin(Frozen):
    """The source of one side's results; ``measured`` has the start times of the first and last run."""

    path: str
    suite: str
    generated_at: datetime
    measured: tuple[datetime, datetime]
    trainmark: str
    complete: bool


class ComparedCase(Frozen):
    """A case of both sides: ``case`` in the baseline, ``against`` in the candidate.

    ``ratio`` is the candidate's median over the baseline's. ``outcomes`` and ``estimates`` are the baseline's and the
    candidate's. ``reason`` explains why no change can be determined; ``doubtful`` are the sides whose number is in
    doubt.
    """

    case: str
    against: str
    unit: str | None
    outcomes: tuple[Outcome, Outcome]
    estimates: tuple[Estimate | None, Estimate | None]
    ratio: Ratio | None
    change: Change
    reason: str | None
    doubtful: tuple[Side, ...]

    @property
    def lost(self) -> bool:
        """True if the baseline has a throughput and the candidate was run without one."""
        before, now = self.estimates
        return before is not None and now is None and self.outcomes[1] is not Outcome.SKIPPED


class Difference(Frozen):
    """A difference between the sides other than their numbers; None if a side lacks or does not report the fact.

    ``cases`` are the affected cases; empty if the difference concerns the results as a whole.
    """

    what: str
    baseline: str | None
    candidate: str | None
    cases: tuple[str, ...] = ()


class Comparison(Frozen):
    """The baseline and the candidate, case by case.

    A case is faster or slower if its whole interval differs from 1 by more than the share ``within``.
    ``only`` has the cases that exist on one side only.
    """

    schema_name: Literal["trainmark.comparison/1"] = SCHEMA
    baseline: Origin
    candidate: Origin
    within: float
    cases: tuple[ComparedCase, ...]
    differences: tuple[Difference, ...]
    only: dict[Side, tuple[str, ...]]

    @property
    def holds(self) -> bool:
        """True if no case is slower and none has lost its throughput."""
        return not any(case.change is Change.SLOWER or case.lost for case in self.cases)
