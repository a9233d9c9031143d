"""What the results mean: doubts, ratios and verdicts of equal work, judged once and kept beside the numbers."""

from enum import StrEnum

from trainmark.schema.certificate import Check
from trainmark.schema.frozen import Frozen
from trainmark.schema.measurement import Ratio, Suspicion


class Doubt(Suspicion):
    """One thing that speaks against the number of a run, which is kept all the same.

    ``repeat`` is 0 where it speaks against the case's runs together.
    """

    case: str
    repeat: int


class RatioKind(StrEnum):
    """What a ratio of two cases says."""

    SPEEDUP = "speedup"
    """The throughput over that of the same case on one device."""
    EFFICIENCY = "efficiency"
    """The speedup over the number of devices."""
    REAL_TO_SYNTHETIC = "real-to-synthetic"
    """The throughput with real samples over that of the same case with synthetic ones."""


class ChoiceDifference(Frozen):
    """An axis that was settled by short runs, ``max`` or ``best``, at one value for a case and at another beside it."""

    axis: str
    value: str
    against: str


class RatioFinding(Frozen):
    """One case's throughput over another's. ``doubtful`` are those of the two whose number is in doubt.

    A doubt of either side is a doubt of the ratio. ``settled_apart``: what else differs between the two, because short
    runs settled it for each by itself; empty in what an older trainmark wrote.
    """

    kind: RatioKind
    case: str
    against: str
    ratio: Ratio
    doubtful: tuple[str, ...]
    settled_apart: tuple[ChoiceDifference, ...] = ()


class Verdict(StrEnum):
    """What a certificate says of one work. ``different`` and ``unseen`` speak against it.

    ``different``: a check does not hold. ``unseen``: it was to be looked at, and could not be. The rest was never
    to be looked at: ``program`` is another program than the built-in worker, ``framework`` one that no certificate
    for its model and device has, ``variant`` a way to train that was not compared with the observed step,
    another precision or optimizer among them.
    """

    EQUAL = "equal"
    DIFFERENT = "different"
    UNSEEN = "unseen"
    PROGRAM = "program"
    FRAMEWORK = "framework"
    VARIANT = "variant"

    @property
    def speaks_against(self) -> bool:
        """Whether a table marks the framework."""
        return self in (Verdict.DIFFERENT, Verdict.UNSEEN)


class Work(Frozen):
    """What some cases did: a program's training step, in one of its ways, and the verdict on it.

    ``name`` is the framework, or of another program its name and the framework. ``way`` is how it trains: the values
    of the axes in which frameworks differ by nature, and the compiler; then another optimizer than the usual one, and
    another precision than certificates are made with. ``device`` is the one that the runs say they computed on.
    """

    name: str
    framework: str
    way: tuple[str, ...]
    device: str | None
    cases: tuple[str, ...]
    verdict: Verdict


class Difference(Frozen):
    """A check that does not hold: between two frameworks, or of one against the description.

    With a ``way``: of a framework's other way to train against its observed step. ``rules`` are the values, such as
    another optimizer's name, by which the certificate looked at another step than the usual one.
    """

    frameworks: tuple[str, ...]
    way: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    check: Check


class EqualityFinding(Frozen):
    """Works of one model on one device by the same ``rules``, and what the best certificate of these says of each.

    ``rules`` are named, such as ``lamb``, where they are not the usual ones or others stand beside them.
    ``observed`` are the frameworks whose eager steps were compared with each other and are equal; ``by_variant``
    says whether a work is shown because it does the same steps as its framework's eager one in another way.
    """

    model: str
    rules: tuple[str, ...] = ()
    works: tuple[Work, ...]
    differences: tuple[Difference, ...]
    observed: tuple[str, ...]
    by_variant: bool

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that the works computed on."""
        return tuple(sorted({work.device for work in self.works if work.device}))

    @property
    def holds(self) -> bool:
        """Whether all works were shown to be equal."""
        frameworks = {work.framework for work in self.works}
        shown = all(work.verdict is Verdict.EQUAL for work in self.works)
        return shown and len(frameworks) > 1 and frameworks.issubset(self.observed)

    def with_verdict(self, verdict: Verdict) -> tuple[Work, ...]:
        """Return the works with this verdict."""
        return tuple(work for work in self.works if work.verdict is verdict)


class RanksFinding(Frozen):
    """What the ranks of a case did beside each other: medians over its measured ``runs``, one of which has the number.

    ``slowest`` is the rank (on ``host``) that was the slowest in most runs, ``times`` in how many of the ``told`` ones
    that say so, ``slower_by`` how much longer its own pass took than the others' (a share), ``waits`` what the others
    wait for it, and ``all_reduce_share`` what an all-reduce of ``all_reduce_bytes`` would take in ``all_reduce_s``
    seconds, both as shares of a step; ``all_reduce_bus_bytes_per_s`` is its bus bandwidth, as nccl-tests counts it:
    2 (n - 1) / n of the bytes over the seconds. The windows of all ranks began within ``began_within_s`` seconds, give
    or take ``clock_error_s``. What nobody showed is null.
    """

    case: str
    runs: int
    told: int = 0
    slowest: int | None = None
    host: str | None = None
    times: int = 0
    slower_by: float | None = None
    waits: float | None = None
    all_reduce_bytes: int | None = None
    all_reduce_s: float | None = None
    all_reduce_share: float | None = None
    all_reduce_bus_bytes_per_s: float | None = None
    began_within_s: float
    clock_error_s: float | None


class FittingFinding(Frozen):
    """The largest batch per device that ended ok, of cases that differ from ``case``, which was ``oom``, in it alone.

    ``by`` is the case that trained with it, on like hardware.
    """

    case: str
    batch: int
    by: str


class PowerFinding(Frozen):
    """A case with a GPU that its power limit held in half of the samples of the window, or more.

    Medians over the ``runs`` that were sampled, of each run's GPU that was held the most: ``share`` of the samples,
    ``sm_clock_mhz`` and ``power_w`` (means over the window; null where nobody tells).
    """

    case: str
    runs: int
    share: float
    sm_clock_mhz: float | None
    power_w: float | None


class Findings(Frozen):
    """All that was judged of a suite's results; cases go by their ids.

    ``doubtful`` are the cases whose number is in doubt: a run that it is made of is. ``ranks`` are there for cases of
    several ranks, ``fitting`` for those that had no memory and of which a smaller batch is known to fit, ``power`` for
    those whose GPUs are held by their power limit.
    """

    doubts: tuple[Doubt, ...]
    doubtful: tuple[str, ...]
    ratios: tuple[RatioFinding, ...]
    equality: tuple[EqualityFinding, ...]
    ranks: tuple[RanksFinding, ...] = ()
    fitting: tuple[FittingFinding, ...] = ()
    power: tuple[PowerFinding, ...] = ()

    def ratio(self, kind: RatioKind, case: str) -> RatioFinding | None:
        """Return the ratio of a kind whose upper side is ``case``."""
        return next((found for found in self.ratios if (found.kind, found.case) == (kind, case)), None)
