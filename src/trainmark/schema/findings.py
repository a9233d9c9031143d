"""The interpretation of results: doubts, limits, ratios and verdicts of equal work, stored with the numbers."""

from enum import StrEnum

from trainmark.schema.certificate import Check
from trainmark.schema.energy import EnergyFinding
from trainmark.schema.frozen import Frozen
from trainmark.schema.measurement import Ratio, Suspicion
from trainmark.schema.precision import Precision


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


class Doubt(Suspicion):
    """A reason to doubt the throughput of a run, which is reported nevertheless.

    ``repeat`` is 0 for a doubt about all runs of the case. ``caused_by`` has the codes of other doubts about the same
    run or case that may explain it; empty in files of older versions. Causes come before their symptoms.
    """

    case: str
    repeat: int
    caused_by: tuple[str, ...] = ()


class RatioKind(StrEnum):
    """The meaning of a ratio of two cases."""

    SPEEDUP = "speedup"
    """The throughput divided by that of the same case on one device."""
    EFFICIENCY = "efficiency"
    """The speedup divided by the number of devices."""
    REAL_TO_SYNTHETIC = "real-to-synthetic"
    """The throughput with real samples divided by that of the same case with synthetic samples."""


class ChoiceDifference(Frozen):
    """An axis (``max`` or ``best``) for which short runs chose different values in two compared cases."""

    axis: str
    value: str
    against: str


class RatioFinding(Frozen):
    """One case's throughput divided by another's. ``doubtful`` has those of the two cases whose number is in doubt.

    A doubt of either side is a doubt of the ratio. ``settled_apart`` has the axes on which the two also differ because
    short runs chose a value for each separately; empty in files of older versions.
    """

    kind: RatioKind
    case: str
    against: str
    ratio: Ratio
    doubtful: tuple[str, ...]
    settled_apart: tuple[ChoiceDifference, ...] = ()


class Verdict(StrEnum):
    """The verdict of a certificate on one work; ``different`` and ``unseen`` are warnings.

    ``different``: a check fails. ``unseen``: the check was planned but impossible. The others are never checked:
    ``program`` is not the built-in worker, ``framework`` is in no certificate for its model and device, ``variant``
    was not compared with the observed step (another precision or optimizer, for example).
    """

    EQUAL = "equal"
    DIFFERENT = "different"
    UNSEEN = "unseen"
    PROGRAM = "program"
    FRAMEWORK = "framework"
    VARIANT = "variant"

    @property
    def speaks_against(self) -> bool:
        """True if tables mark the framework."""
        return self in (Verdict.DIFFERENT, Verdict.UNSEEN)


class Work(Frozen):
    """The training step of some cases: a program, its variant, and the verdict on it.

    ``name`` is the framework; for other programs, the program's name and the framework. ``way`` is the variant: the
    values of the task's variant axes and the compiler, then the optimizer and the precision if they are not those of
    certificates. ``device`` is the device that the runs report.
    """

    name: str
    framework: str
    way: tuple[str, ...]
    device: str | None
    cases: tuple[str, ...]
    verdict: Verdict


class Difference(Frozen):
    """A failed check: between two frameworks, or of one against the golden observation or the description.

    With a ``way``: of another variant of a framework against its observed step. ``rules`` are the values, such as the
    name of an optimizer, on which the certificate's step differs from the default one.
    """

    frameworks: tuple[str, ...]
    way: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    check: Check


class UncheckedSize(Frozen):
    """A size of the cases that the compared steps do not have: its ``axis``, their value, and those of the cases."""

    axis: str
    checked: int
    of_cases: tuple[int, ...]


class EqualityFinding(Frozen):
    """The works of one model on one device with the same ``rules``, and the best certificate's verdict on each.

    ``rules`` (such as ``lamb``) are given if they are not the defaults or if the results have several.
    ``golden`` are the frameworks whose eager steps equal the golden observation; empty in files of older versions.
    ``observed`` are the frameworks whose eager steps were compared with each other and are equal; ``by_variant``
    is true if a work is included because its steps equal those of its framework's eager variant. In another
    ``precision`` than FP32 the steps are equal to the golden observation within the rounding of that precision.
    ``unchecked_sizes`` are those at which equal works ran and nothing was compared; empty in files of older versions.
    """

    model: str
    precision: Precision = Precision.FP32
    rules: tuple[str, ...] = ()
    works: tuple[Work, ...]
    differences: tuple[Difference, ...]
    observed: tuple[str, ...]
    by_variant: bool
    golden: tuple[str, ...] = ()
    unchecked_sizes: tuple[UncheckedSize, ...] = ()

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that the works computed on."""
        return tuple(sorted({work.device for work in self.works if work.device}))

    @property
    def holds(self) -> bool:
        """True if all works were shown to be equal: to each other, or one framework's to the golden observation."""
        frameworks = {work.framework for work in self.works}
        shown = all(work.verdict is Verdict.EQUAL for work in self.works)
        return shown and frameworks.issubset(self.observed if len(frameworks) > 1 else self.golden)

    def with_verdict(self, verdict: Verdict) -> tuple[Work, ...]:
        """Return the works with this verdict."""
        return tuple(work for work in self.works if work.verdict is verdict)


class RanksFinding(Frozen):
    """The balance of a case's ranks: medians over its measured ``runs``.

    ``slowest`` is the rank (on ``host``) that was the slowest in most runs: in ``times`` of the ``told`` runs that
    report it. Its own pass took longer than the others' by ``slower_by`` (a share). Shares of a step: ``waits`` is the
    time that the others wait for it, ``all_reduce_share`` that of an all-reduce of ``all_reduce_bytes``, which takes
    ``all_reduce_s`` seconds. ``all_reduce_bus_bytes_per_s`` is its bus bandwidth as nccl-tests counts it:
    2 (n - 1) / n of the bytes over the seconds. The windows of all ranks began within ``began_within_s`` seconds, give
    or take ``clock_error_s``. Unknown values are null.
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
    """The largest batch per device that fits, for a case that was ``oom``; only the batch differs.

    ``by`` is the case that trained with it on similar hardware.
    """

    case: str
    batch: int
    by: str


class PowerFinding(Frozen):
    """A case with a GPU that was at its power limit in at least half of the window's samples.

    Medians over the sampled ``runs``, for the GPU of each run that was limited most: the ``share`` of samples,
    ``sm_clock_mhz`` and ``power_w`` (means over the window; null if unknown).
    """

    case: str
    runs: int
    share: float
    sm_clock_mhz: float | None
    power_w: float | None


class PerDeviceFinding(Frozen):
    """The rate of one device of a case on several: the rate of all, and its interval, divided by ``devices``."""

    case: str
    devices: int
    value: float
    low: float | None
    high: float | None


class Advice(Frozen):
    """A way to a better number for a case: ``reason`` is what is wrong with its number, ``steps`` are what to do."""

    case: str
    reason: str
    steps: tuple[str, ...]


class Findings(Frozen):
    """All findings about a suite's results; cases are given by their ids.

    ``doubtful`` are the cases with a doubt about one of the runs that their number is computed from. ``ranks`` has
    cases of several ranks, ``fitting`` those that ran out of memory while a smaller batch fits, ``power`` those whose
    GPUs were at their power limit. ``bounds`` says what each measured case was bound by,
    ``per_device`` has the rate of one device of cases on several, ``energy`` the joules of a unit of work.
    """

    doubts: tuple[Doubt, ...]
    doubtful: tuple[str, ...]
    ratios: tuple[RatioFinding, ...]
    equality: tuple[EqualityFinding, ...]
    ranks: tuple[RanksFinding, ...] = ()
    fitting: tuple[FittingFinding, ...] = ()
    power: tuple[PowerFinding, ...] = ()
    advice: tuple[Advice, ...] = ()
    bounds: tuple[BoundFinding, ...] = ()
    per_device: tuple[PerDeviceFinding, ...] = ()
    energy: tuple[EnergyFinding, ...] = ()

    def ratio(self, kind: RatioKind, case: str) -> RatioFinding | None:
        """Return the ratio of a kind whose numerator is ``case``."""
        return next((found for found in self.ratios if (found.kind, found.case) == (kind, case)), None)

    def bound(self, case: str) -> BoundFinding | None:
        """Return what a case was bound by; None for a case without a number."""
        return next((found for found in self.bounds if found.case == case), None)
