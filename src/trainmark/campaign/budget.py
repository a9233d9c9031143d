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

from trainmark.node import Pulse, StepPace
from trainmark.schema.case import Case, Device, Precision
from trainmark.schema.manifest import CpuFacts
from trainmark.schema.outcome import Outcome

WITHOUT_STEPS = 0.2
"""The share of the budget after which a first run that reports no steps is ended."""

_BF16 = frozenset({Precision.BF16, Precision.AMP_BF16})
_BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16", "svebf16"})
_ISA_LIMITS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")
_ISA_WITH_BF16 = ("BF16", "AMX", "AVX10", "ALL", "DEFAULT")


@dataclass(frozen=True, slots=True)
class Timing:
    """What the first run of a case showed: seconds of a run and of a step; None where no step was reported."""

    run_s: float | None
    step_s: float | None = None


@dataclass(slots=True)
class FirstRunWatch:
    """Ends the first run of a case once it is expected to take longer than its share, before half of it is over."""

    steps: int
    share_s: float
    budget_s: float
    pace: StepPace = field(default_factory=StepPace)

    def __call__(self, pulse: Pulse) -> tuple[Outcome, str] | None:
        """Return the outcome that ends the run, or None to let it go on."""
        self.pace.add(pulse)
        expected_s = self.pace.run_s(self.steps)
        if expected_s is None:
            if pulse.elapsed_s <= WITHOUT_STEPS * self.budget_s:
                return None
        elif expected_s <= self.share_s or pulse.elapsed_s > expected_s / 2:
            return None
        return Outcome.SKIPPED, "ended early: it takes longer than its share of the suite's time budget"


def cases_over_budget(needed_s: Mapping[str, float | None], left_s: float) -> tuple[str, ...]:
    """Return the ids of the cases to leave out so that the others fit into ``left_s`` seconds.

    ``needed_s`` maps each case in the suite's order to the seconds that its remaining runs need; None is unknown. The
    longest are left out first, unknown ones before all, and of equal ones the later in the suite.
    """
    kept = dict(needed_s)
    out: list[str] = []
    while kept and sum(float("inf") if needed is None else needed for needed in kept.values()) > left_s:
        longest = max(
            reversed(kept), key=lambda case: float("inf") if (needed := kept[case]) is None else needed
        )
        out.append(longest)
        del kept[longest]
    return tuple(out)


def duration(seconds: float) -> str:
    """Return seconds as a reader says them: ``4.2 s``, ``50 s``, ``4 min 10 s``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def why_left_out(
    case: Case, timing: Timing, runs: int, left_s: float, budget_s: float, causes: Sequence[str]
) -> str:
    """Return the sentence that says why a case is not measured, with what is known of the cause."""
    if timing.run_s is None:
        need = "it reported no two steps in time"
    else:
        each = f" ({duration(timing.step_s)} a step)" if timing.step_s is not None else ""
        need = f"{runs} run{'s' if runs > 1 else ''} would take about {duration(runs * timing.run_s)}{each}"
    left = f"{duration(max(0.0, left_s))} of the time budget of {duration(budget_s)} were left"
    return "; ".join((f"{case.precision} left out: {need}, and {left}", *causes))


def causes_of(
    case: Case, timing: Timing, steps_s: Mapping[str, float], cpu: CpuFacts, on_cpu: bool
) -> tuple[str, ...]:
    """Return what is known of why a case is slow: its step beside the one in FP32, and missing BF16 instructions.

    ``steps_s`` maps ids of timed cases to the seconds of a step.
    """
    causes = []
    plain = steps_s.get(case.varied(precision=Precision.FP32).id)
    if plain and timing.step_s is not None and case.precision is not Precision.FP32:
        causes.append(f"a step takes {timing.step_s / plain:.1f} times as long as with fp32")
    if on_cpu and case.precision in _BF16 and (missing := without_bf16(cpu, os.environ)) is not None:
        causes.append(missing)
    return tuple(causes)


def without_bf16(cpu: CpuFacts, variables: Mapping[str, str]) -> str | None:
    """Return why a CPU computes without BF16 instructions, in a sentence; None where it has them."""
    if not _BF16_FLAGS & set(cpu.flags):
        return "this CPU has no BF16 instructions"
    for name in _ISA_LIMITS:
        limit = variables.get(name, "").upper()
        if limit and not any(word in limit for word in _ISA_WITH_BF16):
            return f"{name}={variables[name]} hides this CPU's BF16 instructions"
    return None


def computes_on_cpu(case: Case, gpus: int) -> bool:
    """Return whether a case computes on the CPU of a machine with so many GPUs."""
    return case.device is Device.CPU or (case.device is Device.AUTO and gpus == 0)
