"""A suite's time budget: what each case is expected to take, and which cases are left out because they do not fit.

    first run of each case      ends early where its first steps show that it takes longer than its share of the budget
    all cases timed             the longest are left out until the rest fits
    remaining runs              start only while the budget lasts

A case's share of one run is the budget over all cases and their ``min_repeats`` runs, so the timing costs at most one
repeat of a suite that fits.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from trainmark.node import Heartbeat, StepPace
from trainmark.schema.case import Case, Device
from trainmark.schema.manifest import CpuFacts
from trainmark.schema.outcome import Outcome
from trainmark.schema.precision import Precision

LONG = 1.5
"""A first run is ended early when it is expected to take longer than this many shares."""

WITHOUT_STEPS = 0.2
"""The share of the budget after which a first run that reports no step is ended; twice as much without a second one."""

_BF16 = frozenset({Precision.BF16, Precision.AMP_BF16})
_BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16", "svebf16"})
_ISA_LIMITS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")
_ISA_WITH_BF16 = ("BF16", "AMX", "AVX10", "ALL", "DEFAULT")


@dataclass(frozen=True, slots=True)
class Timing:
    """The seconds of a run and of a step of a case; None where no step was reported.

    ``predicted_from`` names the cases whose timings it was computed from; None for what the case itself showed.
    """

    run_s: float | None
    step_s: float | None = None
    predicted_from: str | None = None


@dataclass(slots=True)
class FirstRunWatch:
    """Ends the first run of a case once it is expected to take longer than its share, before half of it is over."""

    steps: int
    share_s: float
    budget_s: float
    pace: StepPace = field(default_factory=StepPace)

    def __call__(self, pulse: Heartbeat) -> tuple[Outcome, str] | None:
        """Return the outcome that ends the run, or None to let it go on."""
        self.pace.add(pulse)
        expected_s = self.pace.run_s(self.steps)
        if expected_s is None:
            patience = WITHOUT_STEPS if self.pace.first is None else 2 * WITHOUT_STEPS
            if pulse.elapsed_s <= patience * self.budget_s:
                return None
        elif expected_s <= LONG * self.share_s or pulse.elapsed_s > expected_s / 2:
            return None
        return Outcome.SKIPPED, "ended early: it takes longer than its share of the suite's time budget"


def predict(case: Case, timed: Sequence[tuple[Case, Timing]], steps: int) -> Timing | None:
    """Return the timing of a case by three timed ones; None without them.

    One differs from the case on one axis only; two others differ from each other in the same way, and the ratio of
    their steps applies to the case too.
    """
    by_id = {one.id: timing for one, timing in timed}
    for near, known in timed:
        axes = _differing(case, near)
        if len(axes) != 1 or known.run_s is None or known.step_s is None:
            continue
        for slow, slow_timing in timed:
            if slow.value(axes[0]) != case.value(axes[0]) or slow_timing.step_s is None:
                continue
            fast_timing = by_id.get(slow.varied(**{axes[0]: near.value(axes[0])}).id)
            if fast_timing is None or not fast_timing.step_s:
                continue
            step_s = known.step_s * slow_timing.step_s / fast_timing.step_s
            return Timing(known.run_s + steps * (step_s - known.step_s), step_s, f"{slow.id} and {near.id}")
    return None


def _differing(case: Case, other: Case) -> list[str]:
    if case.axes != other.axes:
        return []
    return [axis for axis in case.axes if case.value(axis) != other.value(axis)]


def cases_over_budget(needed_s: Mapping[str, float | None], left_s: float) -> tuple[str, ...]:
    """Return the ids of the cases to leave out so that the others fit into ``left_s`` seconds.

    ``needed_s`` maps each case in the suite's order to the seconds that its remaining runs need; None is unknown. The
    longest are left out first, unknown ones before all, and of equal ones the later in the suite.
    """
    fitting = dict(needed_s)
    out: list[str] = []
    while fitting and sum(float("inf") if needed is None else needed for needed in fitting.values()) > left_s:
        longest = max(
            reversed(fitting), key=lambda case: float("inf") if (needed := fitting[case]) is None else needed
        )
        out.append(longest)
        del fitting[longest]
    return tuple(out)


def duration(seconds: float) -> str:
    """Return seconds in human-readable form: ``4.2 s``, ``50 s``, ``4 min 10 s``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def why_left_out(timing: Timing, runs: int, left_s: float, budget_s: float, causes: Sequence[str]) -> str:
    """Return the sentence that explains why a case is not measured, with the known causes of its slowness."""
    if timing.run_s is None:
        need = "it did not report two steps in time"
    else:
        each = f" ({duration(timing.step_s)} a step)" if timing.step_s is not None else ""
        need = f"{runs} run{'s' if runs > 1 else ''} would take about {duration(runs * timing.run_s)}{each}"
        if timing.predicted_from is not None:
            need += f", as predicted from {timing.predicted_from}"
    left = f"only {duration(max(0.0, left_s))} of the time budget of {duration(budget_s)} is left"
    return "; ".join((f"{need}, and {left}", *causes))


def causes_of(
    case: Case, timing: Timing, timed: Sequence[tuple[Case, Timing]], cpu: CpuFacts, on_cpu: bool
) -> tuple[str, ...]:
    """Return the known causes of a case's slowness: its step time relative to FP32, and missing BF16 instructions.

    ``timed`` holds the cases whose step time is known.
    """
    causes = []
    fp32 = case.varied(precision=Precision.FP32).id
    plain = next((known.step_s for one, known in timed if one.id == fp32), None)
    if plain and timing.step_s is not None and timing.step_s > plain and case.precision is not Precision.FP32:
        causes.append(f"a step takes about {timing.step_s / plain:.1f} times as long as with fp32")
    if on_cpu and case.precision in _BF16 and (missing := without_bf16(cpu, os.environ)) is not None:
        causes.append(missing)
    return tuple(causes)


def without_bf16(cpu: CpuFacts, variables: Mapping[str, str]) -> str | None:
    """Return the reason why a CPU computes without BF16 instructions; None if it has and may use them."""
    if not _BF16_FLAGS & set(cpu.flags):
        return "this CPU has no BF16 instructions"
    for name in _ISA_LIMITS:
        limit = variables.get(name, "").upper()
        if limit and not any(word in limit for word in _ISA_WITH_BF16):
            return f"{name}={variables[name]} hides this CPU's BF16 instructions"
    return None


def computes_on_cpu(case: Case, gpus: int) -> bool:
    """Return whether a case computes on the CPU of a machine with ``gpus`` GPUs."""
    return case.device is Device.CPU or (case.device is Device.AUTO and gpus == 0)
