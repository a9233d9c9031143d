"""Profiles read for a comparison: the measured step beside the profiled one, and two profiles kind by kind."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from trainmark.schema.profile import CaseProfile, StepProfile, WorkKind
from trainmark.schema.results import CaseResult, pooled

KIND_NAMES = {
    WorkKind.MATMUL: "matrix products",
    WorkKind.CONVOLUTION: "convolutions",
    WorkKind.ATTENTION: "fused attention",
    WorkKind.NORMALISATION: "normalisation",
    WorkKind.ELEMENTWISE: "element-wise",
    WorkKind.REDUCTION: "reductions, pooling, losses",
    WorkKind.COPY: "copies, gathers, fills",
    WorkKind.OPTIMIZER: "optimizer",
    WorkKind.OTHER: "other operations",
    WorkKind.COMMUNICATION: "communication, exposed",
    WorkKind.DATA_WAIT: "data wait",
    WorkKind.IDLE: "host, idle",
}


@dataclass(frozen=True, slots=True)
class ProfiledSide:
    """A profile and the step that it profiles: ``measured_step_s`` is the median of the measured runs' mean steps."""

    case: CaseProfile
    profile: StepProfile
    measured_step_s: float | None


@dataclass(frozen=True, slots=True)
class KindDifference:
    """One kind's seconds in the profiled steps of A and B; ``share`` of the difference of the profiled steps."""

    kind: WorkKind
    here_s: float
    there_s: float
    share: float | None

    @property
    def difference_s(self) -> float:
        """The seconds by which B's step spends more on the kind."""
        return self.there_s - self.here_s


def profiled_side(case: CaseResult) -> ProfiledSide | None:
    """Return the profile of a case with the step of its measured runs; None without a profile."""
    if case.profile is None or case.profile.profile is None:
        return None
    times = [run.measurement.step_times for run in pooled(case.runs) if run.measurement is not None]
    steps = [one.mean for one in times if one is not None]
    return ProfiledSide(case.profile, case.profile.profile, median(steps) if steps else None)


def kind_differences(here: StepProfile, there: StepProfile) -> list[KindDifference]:
    """Return both profiles' seconds by kind, the largest difference first."""
    gap = there.step_s - here.step_s
    found = [
        KindDifference(kind, a, b, (b - a) / gap if gap else None)
        for kind in WorkKind
        if (a := here.kinds.get(kind, 0.0)) + (b := there.kinds.get(kind, 0.0)) > 0
    ]
    return sorted(found, key=lambda one: -abs(one.difference_s))


def step_lines(name: str, side: ProfiledSide) -> Iterator[str]:
    """Yield the profiled step beside the steps without a profiler, in a sentence."""
    plain, measured = side.case.plain_step_s, side.measured_step_s
    parts = [f"{milliseconds(side.profile.step_s)} profiled ({side.profile.steps} steps, rank 0)"]
    if plain is not None:
        slower = side.profile.step_s / plain - 1
        parts.append(f"{milliseconds(plain)} in the same process without the profiler ({slower:+.0%})")
    if measured is not None:
        parts.append(f"{milliseconds(measured)} in the measured runs")
    yield f"{name}: a step of " + ", ".join(parts)


def milliseconds(seconds: float) -> str:
    """Return seconds as milliseconds with their unit."""
    return f"{seconds * 1e3:.4g} ms"
