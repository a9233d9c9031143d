"""The cause that limits a run, its share, and the checks that it rests on."""

from enum import StrEnum

from trainmark.schema.frozen import Frozen


class Bound(StrEnum):
    """The cause that limits the speed of a run."""

    DATA = "data-wait"
    """The program waits for its data loader."""
    HOST = "host"
    """The CPU: the GPU is idle between kernels, or processors are missing."""
    COMMUNICATION = "communication"
    """Ranks wait for each other, or for the exchange of gradients that no computation hides."""
    POWER = "power-limit"
    """The GPU lowers its clock at its power limit."""
    MEMORY = "memory-bandwidth"
    """The memory of the device."""
    COMPUTE = "compute"
    """The arithmetic units of the device."""
    UNKNOWN = "not-known"
    """The facts of the run do not show it."""

    @property
    def label(self) -> str:
        """The cause in words."""
        return self.value.replace("-", " ")


class BoundCheck(Frozen):
    """One piece of evidence for a cause: ``share`` counts from ``least`` on; null if the run has no such fact.

    ``evidence`` is its name in ``insight/evidence/bounds.yaml``, which has the threshold and its source. ``sentence``
    says what was read, or why nothing was.
    """

    evidence: str
    bound: Bound
    share: float | None
    least: float
    sentence: str


class RunBound(Frozen):
    """The cause that limits one run.

    ``share`` is that of the deciding check (null for ``not-known``), ``sentence`` its evidence. ``checks`` has every
    check that applies to the run, in the order of the table. ``settle`` says what would show more; null if the checks
    that matter found their facts.
    """

    bound: Bound
    share: float | None
    sentence: str
    checks: tuple[BoundCheck, ...] = ()
    settle: str | None = None


class BoundFinding(RunBound):
    """The cause that limits a case: that of most of its runs (``runs`` of ``of``), as in the one of median share."""

    case: str
    runs: int
    of: int
