"""The documents of a suite's results: a run, a case over its runs, all of them in ``results.json``, and findings.

The schema's name is ``trainmark.results/1``; docs/reference/file-formats.md has an overview, documents.md there has
every field. A later version only adds fields, or gets another number. Findings are the interpretation of the
results: doubts, limits, ratios and verdicts of equal work, stored with the numbers.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from trainmark.schema.case import MAX_BATCH, Case
from trainmark.schema.certificate import Certificate, Check, failing
from trainmark.schema.energy import EnergyFinding, EnergyUse
from trainmark.schema.frozen import Frozen
from trainmark.schema.manifest import Manifest
from trainmark.schema.measurement import (
    SPOILING,
    About,
    Answer,
    Estimate,
    GateCheck,
    GateName,
    Inspection,
    Interval,
    Measurement,
    Parameters,
    Ratio,
    Speedup,
    Suspicion,
)
from trainmark.schema.outcome import Identity, Outcome
from trainmark.schema.precision import Precision
from trainmark.schema.profile import CaseProfile
from trainmark.schema.ranks import RankComparison, RankTimes
from trainmark.schema.suite import Protocol, Requirement
from trainmark.schema.telemetry import TelemetrySummary

SCHEMA: Literal["trainmark.results/1"] = "trainmark.results/1"


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


class RequirementVerdict(StrEnum):
    """The answer to a requirement of a case."""

    MET = "met"
    """The whole interval is at least the required value, and nothing makes the number doubtful."""
    MISSED = "missed"
    """The whole interval is below the required value."""
    UNDECIDED = "undecided"
    """The runs do not show it: no number, no interval, one on both sides of the required value, or a doubt."""


class RequirementFinding(Frozen):
    """The verdict on one required quantity (``throughput``, ``per_device`` or ``efficiency``) of a case.

    ``value`` and ``interval`` are measured, ``required`` is the least value; ``unit`` is null for an efficiency, which
    is a share of the scale of the case ``against``. ``sentence`` has the numbers and, unless it is met, the reason.
    """

    case: str
    quantity: str
    required: float
    unit: str | None
    value: float | None
    interval: Interval | None
    against: str | None
    verdict: RequirementVerdict
    sentence: str

    @property
    def in_words(self) -> str:
        """The quantity in words."""
        return self.quantity.replace("_", " ")


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
    ``requirements`` has the verdicts on what the suite requires.
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
    requirements: tuple[RequirementFinding, ...] = ()

    @property
    def unmet(self) -> tuple[RequirementFinding, ...]:
        """The requirements that the results do not meet."""
        return tuple(one for one in self.requirements if one.verdict is not RequirementVerdict.MET)

    def ratio(self, kind: RatioKind, case: str) -> RatioFinding | None:
        """Return the ratio of a kind whose numerator is ``case``."""
        return next((found for found in self.ratios if (found.kind, found.case) == (kind, case)), None)

    def bound(self, case: str) -> BoundFinding | None:
        """Return what a case was bound by; None for a case without a number."""
        return next((found for found in self.bounds if found.case == case), None)


class RunResult(Frozen):
    """One run: its outcome and, if that is ``ok``, its measurement.

    ``directory`` is relative to the result directory; ``log`` is the published log's path there, if the
    suite's naming scheme has one. ``commands`` are the commands as text, one per node. ``manifest``
    is a key of the document's ``manifests``. ``suspicions`` has every doubt, including the measurement's.
    ``telemetry`` has one summary per node, in the order of the nodes; in JSON, ``telemetry`` is the first node's
    summary and ``other_nodes`` has the others.
    ``identity`` identifies the program and its inputs; null in files of older versions.
    ``hosts`` are the names of its hosts, one per node; ``ranks`` compares its ranks. Both are empty in files of older
    versions.
    ``gates`` has the answer of every gate that applies; null in files of older versions.
    ``cpu_s_per_sample`` are the processor seconds of its processes per sample, in the window of a run on CPUs.
    ``rank_logs`` compares the ranks of another project's program by what each prints; null if fewer than two do.
    ``bound`` is what a measured run was bound by; null in files of older versions.
    ``energy`` is that of its devices in the window; null where a counter was not read, and in files of older versions.
    ``data_files`` are the digests of its card's data files, ``stand_ins`` the descriptions of its card's stand-ins for
    data, both by path.
    """

    repeat: int
    outcome: Outcome
    reason: str | None
    started_at: datetime | None
    duration_s: float | None
    directory: str
    log: str | None
    commands: tuple[str, ...]
    measurement: Measurement | None
    suspicions: tuple[Suspicion, ...]
    parameters: Parameters
    telemetry: tuple[TelemetrySummary, ...]
    manifest: str | None
    identity: Identity | None = None
    hosts: tuple[str, ...] = ()
    ranks: RankTimes | None = None
    gates: tuple[GateCheck, ...] | None = None
    cpu_s_per_sample: float | None = None
    rank_logs: RankComparison | None = None
    bound: RunBound | None = None
    energy: EnergyUse | None = None
    data_files: Mapping[str, str] = Field(default_factory=dict)
    stand_ins: Mapping[str, str] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _join_nodes(cls, document: Any) -> Any:
        if not isinstance(document, Mapping) or isinstance(document.get("telemetry"), list | tuple):
            return document
        fields = dict(document)
        first, others = fields.pop("telemetry", None), fields.pop("other_nodes", ())
        # What is no list stays as it is, and validation names its place.
        nodes = (*((first,) if first else ()), *others) if isinstance(others, list | tuple) else others
        return fields | {"telemetry": nodes}

    @model_serializer(mode="wrap")
    def _part_nodes(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields = dict(handler(self))
        nodes = fields["telemetry"]
        first = next((node for node in nodes if node["node"] == 0), None)
        return fields | {"telemetry": first, "other_nodes": [node for node in nodes if node is not first]}

    @property
    def spoiled(self) -> bool:
        """True if its machine disturbed it; such a run is not pooled with sound ones."""
        return bool(self.spoiled_by)

    @property
    def spoiled_by(self) -> frozenset[str]:
        """The gates that found that the machine disturbed it."""
        return frozenset(
            doubt.code for doubt in self.suspicions if doubt.about is About.MACHINE and doubt.code in SPOILING
        )

    @property
    def inspection(self) -> Inspection | None:
        """The extent of the checks about its machine; None if no such gate applies, or in an old file."""
        found = [
            check for check in self.gates or () if check.gate in SPOILING and check.answer is not Answer.OFF
        ]
        return Inspection.of(found) if found else None

    @property
    def unchecked(self) -> frozenset[str]:
        """The gates about the machine that could not look; all of them for an old file without a sample."""
        if self.gates is None:
            return frozenset() if any(node.samples for node in self.telemetry) else frozenset(SPOILING)
        return frozenset(
            check.gate for check in self.gates if check.answer is Answer.UNCHECKED and check.gate in SPOILING
        )


def measured_runs(runs: Sequence[RunResult]) -> list[RunResult]:
    """Return the runs that have a measurement."""
    return [run for run in runs if run.measurement is not None]


def sound(runs: Sequence[RunResult]) -> list[RunResult]:
    """Return the measured runs that no machine disturbed; ratios and intervals use these.

    A run at which a gate did not look is not preferred to runs that the same gate found disturbed: it is not sound
    beside them.
    """
    known = measured_runs(runs)
    spoiling = frozenset().union(*(run.spoiled_by for run in known))
    return [run for run in known if not run.spoiled and not run.unchecked & spoiling]


def pooled(runs: Sequence[RunResult]) -> list[RunResult]:
    """Return the runs of a case's estimate: the sound ones, or all measured ones if none is sound."""
    return sound(runs) or measured_runs(runs)


class Trial(Frozen):
    """A short run of a search for the best value of some axes: the values and the outcome.

    ``throughput`` is in ``unit``; both are null unless the outcome is ``ok``. ``spoiled``: its machine disturbed it, so
    another choice may be faster; false in files of older versions.
    """

    axes: Mapping[str, str]
    outcome: Outcome
    reason: str | None
    throughput: float | None
    unit: str | None
    spoiled: bool = False


class EndedBy(StrEnum):
    """The reason why a case gets no further run."""

    FIXED = "fixed"
    """The protocol fixes the number of runs."""
    TARGET = "target"
    """Its interval is as narrow as requested."""
    EQUAL_RUNS = "equal-runs"
    """Its runs gave the same number, so another one would add nothing."""
    MAXIMUM = "maximum"
    """The protocol allows no more runs."""
    TIME = "time"
    """The protocol allows no more time."""
    BUDGET = "budget"
    """The suite's time budget is used up."""
    OUTCOME = "outcome"
    """Another run would have the same outcome."""


class Expected(Frozen):
    """The expected result of a number of runs.

    ``half_width`` is half the interval's width as a share of the median, null without an interval; ``seconds`` is the
    time that the runs would take."""

    runs: int
    half_width: float | None
    seconds: float | None


class Repeats(Frozen):
    """The number of a case's runs, the reason for it, and the expected gain of more runs or of another protocol.

    ``runs`` is the number of runs that count, ``spoiled`` that of runs disturbed by their machine; all took ``spent_s``
    seconds. ``target`` is the requested half width, ``half_width`` the actual one. ``to_target`` is the expected number
    of runs that meets the target, ``twice`` the expected result of twice the present runs; both are null if the spread
    is unknown. ``dlperf`` is the expected result of the same time under the protocol ``dlperf``: as many of its 5 runs
    as fit into it. ``ended_by`` is null while more runs are to come.
    """

    ended_by: EndedBy | None
    runs: int
    spoiled: int
    spent_s: float
    target: float | None
    half_width: float | None
    to_target: Expected | None = None
    twice: Expected | None = None
    dlperf: Expected | None = None


StoredManifest = Annotated[Manifest | Mapping[str, Any], Field(union_mode="left_to_right")]
"""A manifest, or the raw mapping of one that this version cannot read."""


class CaseResult(Frozen):
    """One case over its runs; ``outcome`` is ``ok`` if at least one run is, and ``estimate`` is over those.

    ``suspicions`` are about the runs as a whole; those of one run are stored with it. If a machine disturbed every run,
    the estimate has no interval, and there is no speedup.

    ``trials`` are the short runs for the axes that the case leaves open; its runs use the values of the fastest.
    ``repeats`` explains the number of runs; null in files of older versions.
    ``profile`` is its profiled run, which is none of ``runs``; null without one.
    ``compiled_ahead_s`` are the seconds that the compiler took where the program was compiled before the runs, beside
    others; null if it was not, or was in the compiler's cache.
    """

    id: str
    case: Case
    outcome: Outcome
    reason: str | None
    estimate: Estimate | None
    speedup: Speedup | None
    runs: tuple[RunResult, ...]
    trials: tuple[Trial, ...] = ()
    suspicions: tuple[Suspicion, ...] = ()
    repeats: Repeats | None = None
    profile: CaseProfile | None = None
    compiled_ahead_s: float | None = None

    @property
    def settled(self) -> Case:
        """The case with the best values on the axes that it leaves open."""
        best = fastest(self.trials)
        return self.case if best is None else self.case.varied(**best.axes)

    @property
    def largest_batch(self) -> int | None:
        """The batch per device that was found for ``max``, if a run reports it."""
        if self.case.batch_per_device != MAX_BATCH:
            return None
        found = (run.parameters.batch_per_device for run in self.runs if run.measurement)
        return next(filter(None, found), None)

    @property
    def unit(self) -> str | None:
        """The unit of the throughput, such as ``samples/s``."""
        return next((run.measurement.unit for run in self.runs if run.measurement), None)


def fastest(trials: Sequence[Trial]) -> Trial | None:
    """Return the trial with the highest throughput, the first of equal ones; None if no trial has a throughput."""
    measured = [trial for trial in trials if trial.throughput is not None]
    return max(measured, key=lambda trial: trial.throughput or 0.0, default=None)


class Results(Frozen):
    """A suite's results, with an entry for each of its cases. ``complete`` is false while more runs are to come.

    ``certificates`` show which frameworks did equal work, one per model, device and optimizer; empty for a single
    framework. ``findings`` is the interpretation of the results; null in files of older versions.
    ``gates_off`` are the gates that the suite turned off. ``command`` is the last command that added runs; null if
    unknown. ``baseline`` is the suite's choice of the cases with which a report compares the others; null without one.
    ``require`` are the least values that the suite requires; empty in files of older versions.
    """

    schema_name: Literal["trainmark.results/1"] = SCHEMA
    trainmark_version: str
    generated_at: datetime
    suite: str
    description: str
    protocol: Protocol
    command: str | None
    complete: bool
    cases: tuple[CaseResult, ...]
    manifests: Mapping[str, StoredManifest]
    certificates: tuple[Certificate, ...] = ()
    findings: Findings | None = None
    gates_off: tuple[GateName, ...] = ()
    baseline: str | None = None
    require: tuple[Requirement, ...] = ()

    @property
    def measured(self) -> tuple[datetime, datetime]:
        """The start times of the first and the last run; the document's own time, twice, if no run has a start time."""
        began = [run.started_at for case in self.cases for run in case.runs if run.started_at]
        return (min(began), max(began)) if began else (self.generated_at, self.generated_at)

    @property
    def holds(self) -> bool:
        """True if all runs are ``ok`` and did the requested, equal work, and what the suite requires is met.

        A case that the suite's time budget leaves out does not count.
        """
        runs = [run for case in self.cases for run in case.runs if run.outcome is not Outcome.SKIPPED]
        doubts = [doubt for run in runs for doubt in run.suspicions]
        fine = all(run.outcome is Outcome.OK for run in runs)
        return (
            bool(runs)
            and fine
            and not (self.certificates and failing(self.certificates))
            and not any(doubt.about is About.WORK for doubt in doubts)
            and not (self.findings is not None and self.findings.unmet)
        )
