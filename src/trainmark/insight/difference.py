"""One difference between the two sides of an explanation, and the basis of its effect."""

from dataclasses import dataclass
from enum import StrEnum

from trainmark.insight.evidence import Match
from trainmark.insight.programs import Change
from trainmark.insight.recipe import Reading
from trainmark.schema.recipe import AxisName


class Basis(StrEnum):
    """The basis of a difference's effect, the strongest first."""

    OWN = "own"
    ISOLATED = "isolated"
    BUNDLED = "bundled"
    PHYSICS = "physics"
    BOUNDED = "bounded"
    REMAINDER = "remainder"
    ELSEWHERE = "elsewhere"
    REASONED = "reasoned"
    UNKNOWN = "unknown"


ACCOUNTING = frozenset({Basis.OWN, Basis.ISOLATED, Basis.BUNDLED, Basis.PHYSICS})
"""The bases that count towards the explained part of the gap, if the effect's size and not only its limit is known."""
RANKED = (
    *(Basis.OWN, Basis.ISOLATED, Basis.BUNDLED, Basis.PHYSICS),
    *(Basis.BOUNDED, Basis.REMAINDER, Basis.ELSEWHERE),
)


class DifferenceOf(StrEnum):
    """The subject of a difference, in the order of lists."""

    RECIPE = "recipe"
    RECORDS = "records"
    PROGRAM = "program"
    MACHINE = "machine"


class OwnCause(StrEnum):
    """A cause in the run's own records, which is not an axis of a recipe."""

    STALL = "stall"
    DATA_WAIT = "data_wait"
    STATISTIC = "statistic"
    CPUS_ALLOWED = "cpus_allowed"
    CPU_SHARED = "cpu_shared"
    CPU_QUOTA = "cpu_quota"
    RANK_WAIT = "rank_wait"
    GPU_IDLE = "gpu_idle"
    GPU_CLOCK = "gpu_clock"


@dataclass(frozen=True, slots=True)
class RecipeDifference:
    """One axis on which the two sides differ, or a cause in the runs' own records (``OwnCause`` as its axis).

    ``low`` and ``high`` bound the factor by which throughput is expected to change if the run took the other side's
    value; ``share`` is the corresponding share of the gap (0.5 is half). They are None if unknown. ``says`` is the
    arithmetic of a physical limit. ``opposite`` is true for an effect against the gap: what makes the run faster is no
    cause of its being slower.
    """

    axis: AxisName
    here: Reading
    there: Reading
    basis: Basis
    low: float | None
    high: float | None
    share: tuple[float, float] | None
    evidence: tuple[Match, ...]
    change: Change
    of: DifferenceOf = DifferenceOf.RECIPE
    says: str | None = None
    opposite: bool = False

    @property
    def is_sized(self) -> bool:
        """True if the effect has a size and counts as a factor; False if at most its limit is known."""
        known = self.low is not None and self.high is not None
        return (
            known and self.basis in ACCOUNTING and (self.low == self.high or 1.0 not in (self.low, self.high))
        )
