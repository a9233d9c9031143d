"""Two results side by side: which cases became faster or slower, and in what the two sides differ."""

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
    """The ratio's interval holds 1, or comes nearer to it than what is to count as a change."""
    CANNOT_SAY = "cannot-say"
    """There is no ratio, or no interval of it."""


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
    """A case that both sides have; ``against`` is the baseline's ``case`` as the candidate has it.

    ``ratio`` is the candidate's median over the baseline's. ``outcomes`` and ``estimates`` are the baseline's and the
    candidate's. ``reason`` is there where nothing can be said; ``doubtful`` are the sides whose number is in doubt.
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
    """One thing in which the sides differ but for their numbers; None is what a side does not have or say.

    ``cases`` are those of which it is known; none where it is said of the results as wholes.
    """

    what: str
    baseline: str | None
    candidate: str | None
    cases: tuple[str, ...] = ()


class Comparison(Frozen):
    """The baseline and the candidate, case by case.

    ``within`` is the share by which the whole interval must be off 1 before a case is called faster or slower.
    ``only`` are the cases that one side alone has.
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
