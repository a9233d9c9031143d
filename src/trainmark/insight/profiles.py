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


DISTANT_STEP = 0.25
DISTANT = "the profiled step is far from the others, so its shares may not apply to them"


@dataclass(frozen=True, slots=True)
class ProfiledSide:
    """A profile and the step that it profiles.

    ``measured_step_s`` is the median of the measured runs' mean steps, ``samples`` the samples of one step of all
    ranks; None if they are unknown.
    """

    case: CaseProfile
    profile: StepProfile
    measured_step_s: float | None
    samples: float | None = None


@dataclass(frozen=True, slots=True)
class KindDifference:
    """One kind's seconds in the profiled steps of A and B.

    ``share`` is that of the difference between the profiled steps; None if they are equal or have different work.
    """

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
    measured = [run.measurement for run in pooled(case.runs) if run.measurement is not None]
    steps = [one.step_times.mean for one in measured if one.step_times is not None]
    samples = next((one.samples / one.measured_steps for one in measured if one.samples), None)
    return ProfiledSide(case.profile, case.profile.profile, median(steps) if steps else None, samples)


def is_distant(side: ProfiledSide) -> bool:
    """Return whether the profiled step differs by more than a quarter from the step without a profiler."""
    others = [one for one in (side.case.plain_step_s, side.measured_step_s) if one is not None]
    return any(abs(side.profile.step_s / other - 1) > DISTANT_STEP for other in others)


def same_work(here: ProfiledSide, there: ProfiledSide) -> bool:
    """Return whether the steps of both sides have the same number of samples, as far as both are known."""
    return here.samples is None or there.samples is None or here.samples == there.samples


def kind_differences(a: ProfiledSide, b: ProfiledSide) -> list[KindDifference]:
    """Return both profiles' seconds by kind, the largest difference first."""
    here, there = a.profile, b.profile
    gap = there.step_s - here.step_s if same_work(a, b) else 0.0
    found = [
        KindDifference(kind, before, after, (after - before) / gap if gap else None)
        for kind in WorkKind
        if (before := here.kinds.get(kind, 0.0)) + (after := there.kinds.get(kind, 0.0)) > 0
    ]
    return sorted(found, key=lambda one: -abs(one.difference_s))


def comparison_lines(here: ProfiledSide, there: ProfiledSide) -> Iterator[str]:
    """Yield two profiles kind by kind, as lines for a terminal; the sum and the steps without a profiler are given."""
    yield step_line("here ", here)
    yield step_line("there", there)
    if not same_work(here, there):
        yield f"  The steps have {here.samples:g} and {there.samples:g} samples: their seconds show no gap."
    yield f"  {'':28}{'here':>12}{'there':>12}{'difference':>13}{'of the gap':>12}"
    for one in kind_differences(here, there):
        share = "" if one.share is None else f"{one.share:.0%}"
        yield _row(KIND_NAMES[one.kind], one.here_s, one.there_s, share)
    yield _row("profiled step", here.profile.step_s, there.profile.step_s, "")
    for name, a, b in (
        ("communication, hidden", here.profile.communication_hidden_s, there.profile.communication_hidden_s),
        ("copies, hidden", here.profile.copy_hidden_s, there.profile.copy_hidden_s),
    ):
        if a or b:
            yield _row(f"({name})", a, b, "")
    if here.measured_step_s is not None and there.measured_step_s is not None:
        yield _row("measured step", here.measured_step_s, there.measured_step_s, "")


def _row(name: str, here_s: float, there_s: float, share: str) -> str:
    numbers = f"{here_s * 1e3:9.2f} ms{there_s * 1e3:9.2f} ms{(there_s - here_s) * 1e3:+10.2f} ms"
    return f"  {name:28}{numbers}{share:>12}".rstrip()


def step_line(name: str, side: ProfiledSide) -> str:
    """Return the profiled step and the steps without a profiler, as a sentence."""
    plain, measured = side.case.plain_step_s, side.measured_step_s
    parts = [f"{milliseconds(side.profile.step_s)} profiled ({side.profile.steps} steps, rank 0)"]
    if plain is not None:
        parts.append(f"{milliseconds(plain)} in the same process without the profiler")
    if measured is not None:
        parts.append(f"{milliseconds(measured)} in the measured runs")
    far = f"; {DISTANT}" if is_distant(side) else ""
    return f"{name}  a step of {', '.join(parts)}{far}"


def milliseconds(seconds: float) -> str:
    """Return seconds as milliseconds with their unit."""
    return f"{seconds * 1e3:.4g} ms"
