"""A comparison of a candidate with its baselines: cases that became faster or slower, and other differences."""

from datetime import datetime
from enum import StrEnum
from typing import Literal

from trainmark.schema.energy import EnergyRatio
from trainmark.schema.frozen import Frozen
from trainmark.schema.measurement import Estimate, Ratio
from trainmark.schema.outcome import Outcome

SCHEMA: Literal["trainmark.comparison/1"] = "trainmark.comparison/1"


class Change(StrEnum):
    """The change of the candidate's throughput from the baseline's."""

    FASTER = "faster"
    SLOWER = "slower"
    NOT_DISTINGUISHABLE = "not-distinguishable"
    """The difference may be chance at the level of the table, or is smaller than the smallest change that counts."""
    CANNOT_SAY = "cannot-say"
    """There is no ratio, or it has no interval."""


CHANGES = {
    Change.FASTER: "faster",
    Change.SLOWER: "slower",
    Change.NOT_DISTINGUISHABLE: "not distinguishable",
    Change.CANNOT_SAY: "cannot say",
}
"""The changes in words."""


class Side(StrEnum):
    """One of the two results."""

    BASELINE = "baseline"
    CANDIDATE = "candidate"


class Scope(StrEnum):
    """The variation that the verdicts account for."""

    ONE_CAMPAIGN = "one-campaign"
    """That of the runs within two campaigns: another campaign of the baseline may differ by more."""
    CAMPAIGNS = "campaigns"
    """Also that between campaigns, estimated from several baselines."""


class CampaignVariation(Frozen):
    """The variation between campaigns of one baseline, as standard deviations of logarithms (0.01: about 1 %).

    It is estimated from ``cases`` cases that all ``campaigns`` campaigns have. ``common`` is the effect of a campaign
    on all its cases at once, ``specific`` a case's own effect in a campaign, beyond the variation of its runs.
    """

    campaigns: int
    cases: int
    common: float
    specific: float


class History(Frozen):
    """The earlier campaigns that set ``within``: the same cases and program on the same machine, from a database.

    Of two campaigns without a change, at most 5 in 100 have a case that differs by more than ``within``.
    """

    store: str
    variation: CampaignVariation
    within: float


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

    ``ratio`` is the candidate's median over the baseline's, with the interval of this case alone. ``outcomes`` and
    ``estimates`` are the baseline's and the candidate's. ``baselines`` has the estimate of each baseline; if several
    have a number, the baseline's estimate is over all their runs, and its ``median`` is the geometric mean of their
    medians. ``significance`` is the p-value in the whole table: the case changed if it is at most the table's level.
    ``reason`` explains why no change can be determined or a baseline is left out; ``doubtful`` are the sides whose
    number is in doubt. ``energy`` is the ratio of the joules of one unit of work, null without counters on both sides.
    """

    case: str
    against: str
    unit: str | None
    outcomes: tuple[Outcome, Outcome]
    estimates: tuple[Estimate | None, Estimate | None]
    ratio: Ratio | None
    change: Change
    significance: float | None = None
    baselines: tuple[Estimate | None, ...] = ()
    reason: str | None
    doubtful: tuple[Side, ...]
    energy: EnergyRatio | None = None

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
    """The baselines and the candidate, case by case.

    ``baseline`` is the first of ``baselines``. A case is faster or slower at the ``level`` of the whole table: by the
    ``method`` of Holm, at most that share of tables without a change has such a case. ``judged`` is the number of cases
    with an interval. ``variation`` is that between the baselines, which the intervals include; null for one baseline.
    ``run_correlation`` is that of a run with the case's run before it, by which intervals of one baseline are wider.
    ``within`` is the share up to which a difference is no change; ``history`` is given if it comes from earlier
    campaigns. ``only`` has the cases that exist on one side only. With ``axis``, both sides are cases of one result
    that differ in this axis or option only.
    """

    schema_name: Literal["trainmark.comparison/1"] = SCHEMA
    baseline: Origin
    baselines: tuple[Origin, ...] = ()
    candidate: Origin
    method: Literal["holm"] = "holm"
    level: float = 0.05
    judged: int = 0
    scope: Scope = Scope.ONE_CAMPAIGN
    variation: CampaignVariation | None = None
    run_correlation: float = 0.0
    within: float
    history: History | None = None
    cases: tuple[ComparedCase, ...]
    differences: tuple[Difference, ...]
    only: dict[Side, tuple[str, ...]]
    axis: str | None = None

    @property
    def holds(self) -> bool:
        """True if the table shows no slower case and no case has lost its throughput."""
        return not any(case.change is Change.SLOWER or case.lost for case in self.cases)
