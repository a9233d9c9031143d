"""Gates: the checks that every result goes through, each with its bound and the source of that bound.

A gate never deletes a number; it adds a doubt with the value it read. It has three answers: a doubt, clean (with how
many samples it read over which time), or not looked (with the reason). ``benchmarks/trust_gates.py`` measures how often
each gate fires on sound runs; docs/reference/gates.md has the table.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from trainmark.measure.gate_checks import (
    Evidence,
    GateReading,
    Inspection,
    batches,
    clocks,
    cpu_share,
    equal_ranks,
    even_ranks,
    foreign_processes,
    levels,
    losses,
    throttling,
    two_levels,
)
from trainmark.schema.case import Device
from trainmark.schema.gates import SPOILING, UNINSPECTED, Answer, GateCheck, GateName
from trainmark.schema.measurement import About, Suspicion

__all__ = [
    "DRIFT",
    "GATES",
    "Evidence",
    "Gate",
    "GateReading",
    "Verdict",
    "apply_drift_gate",
    "apply_gates",
    "check_gates",
    "drift",
    "two_levels",
]

DRIFT_P_VALUE = 0.01
"""The largest p-value of a drift: runs without a drift are reported at most this often."""


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate: a value at or above ``bound`` is a doubt. ``source`` is the reason for the bound.

    ``applies`` returns whether a run has what the gate is about; a run on the CPU has no GPU to throttle.
    """

    name: GateName
    about: About
    bound: float
    unit: str
    source: str
    inspect: Callable[[Evidence], Inspection] = field(repr=False)
    applies: Callable[[Evidence], bool] = field(repr=False, default=lambda _: True)

    def doubt(self, reading: GateReading) -> Suspicion | None:
        """Return the doubt that a value raises, or None."""
        if not reading.value >= self.bound:
            return None
        return Suspicion(
            code=self.name,
            sentence=reading.sentence,
            about=self.about,
            value=reading.value,
            bound=self.bound,
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answers of all gates that apply to a run, and their doubts."""

    doubts: tuple[Suspicion, ...]
    checks: tuple[GateCheck, ...]


def check_gates(evidence: Evidence, off: Collection[str] = ()) -> Verdict:
    """Return the answer of each gate that applies to one run; gates named in ``off`` do not look."""
    doubts: list[Suspicion] = []
    checks = []
    for gate in (gate for gate in GATES if gate.applies(evidence)):
        if gate.name in off:
            checks.append(GateCheck(gate=gate.name, answer=Answer.OFF))
            continue
        found = gate.inspect(evidence)
        raised = [doubt for reading in found.readings if (doubt := gate.doubt(reading)) is not None]
        doubts += raised
        checks.append(_check(gate.name, found, raised))
    unchecked = [check for check in checks if check.answer is Answer.UNCHECKED and check.gate in SPOILING]
    if unchecked:
        doubts.append(_uninspected(unchecked))
    return Verdict(tuple(doubts), tuple(checks))


def _check(name: GateName, found: Inspection, raised: Sequence[Suspicion]) -> GateCheck:
    answer = Answer.DOUBT if raised else Answer.UNCHECKED if found.unchecked else Answer.CLEAN
    reason = found.unchecked if answer is Answer.UNCHECKED else None
    seconds = None if found.seconds is None else round(found.seconds, 3)
    counted = answer is not Answer.UNCHECKED
    return GateCheck(
        gate=name,
        answer=answer,
        samples=found.samples if counted else None,
        seconds=seconds if counted else None,
        reason=reason,
    )


def _uninspected(checks: Sequence[GateCheck]) -> Suspicion:
    """Return the doubt about a run at whose machine some gates could not look."""
    reasons: dict[str, list[str]] = {}
    for check in checks:
        reasons.setdefault(check.reason or "", []).append(check.gate.value)
    listed = "; ".join(f"{', '.join(gates)}: {reason}" for reason, gates in reasons.items())
    sentence = f"not looked: {listed}; it is unknown whether the machine disturbed the run"
    return Suspicion(code=UNINSPECTED, sentence=sentence, about=About.MACHINE)


def apply_gates(evidence: Evidence, off: Collection[str] = ()) -> tuple[Suspicion, ...]:
    """Return the doubts that the gates raise about one run; gates named in ``off`` are skipped."""
    return check_gates(evidence, off).doubts


def apply_drift_gate(throughputs: Sequence[float], off: Collection[str] = ()) -> tuple[Suspicion, ...]:
    """Return the doubts about a case's pooled runs; ``throughputs`` are in the order in which the runs started."""
    if DRIFT.name in off:
        return ()
    doubt = DRIFT.doubt(drift(throughputs))
    return () if doubt is None else (doubt,)


def drift(throughputs: Sequence[float]) -> GateReading:
    """Return the total drift of runs in order of time, as a share of their median; 0 unless it is significant.

    The slope is the Theil-Sen estimator (the median of all pairwise slopes); its significance is Kendall's exact
    two-sided test of the order at ``DRIFT_P_VALUE``. Fewer than 6 runs cannot pass it.
    """
    runs = np.asarray(throughputs, dtype=np.float64)
    if runs.size < 6:
        return GateReading(0.0, "")
    from scipy import stats

    slope = float(stats.theilslopes(runs).slope)
    total = slope * (runs.size - 1) / float(np.median(runs))
    p_value = float(stats.kendalltau(np.arange(runs.size), runs).pvalue)
    if not p_value <= DRIFT_P_VALUE:
        return GateReading(0.0, "")
    direction = "slower" if total < 0 else "faster"
    return GateReading(
        abs(total),
        f"the runs became {direction} by {abs(total):.1%} from the first to the last (p = {p_value:.2%} by chance): "
        "the machine changed in between, so their interval does not describe one state of it",
    )


def _on_gpus(evidence: Evidence) -> bool:
    """Return whether the run computes on GPUs; ``auto`` takes the CPU of a machine without any."""
    if evidence.case.device is Device.CPU or evidence.gpus == ():
        return False
    reported = evidence.events.parameters.device
    if evidence.case.device is Device.CUDA or reported is not None:
        return reported != Device.CPU
    return any(node.gpus for node in evidence.telemetry)


def _of_several_ranks(evidence: Evidence) -> bool:
    return evidence.case.world_size > 1


def _of_events(evidence: Evidence) -> bool:
    return evidence.log is None


GATES: tuple[Gate, ...] = (
    Gate(
        GateName.GPU_THROTTLED,
        About.MACHINE,
        0.01,
        "of the window's samples",
        "no sample of 64 stored runs on H200s shows a slowdown; being at the power limit, as most are, does not count",
        throttling,
        _on_gpus,
    ),
    Gate(
        GateName.CLOCK_DROPPED,
        About.MACHINE,
        0.10,
        "of the window's samples 5 % below its highest clock",
        "below their power limit the clocks of 64 stored runs on H200s stay within 1 %",
        clocks,
        _on_gpus,
    ),
    Gate(
        GateName.GPU_SHARED,
        About.MACHINE,
        1,
        "foreign processes on a GPU of the run",
        "a shared GPU time-slices its processes",
        foreign_processes,
        _on_gpus,
    ),
    Gate(
        GateName.CPU_SHARED,
        About.MACHINE,
        0.10,
        "of the cores",
        "the stored sound runs have at most 7.2 % (72 runs on 2 cores) and 1.2 % (64 runs on GPU hosts)",
        cpu_share,
    ),
    Gate(
        GateName.RANKS_DISAGREE,
        About.WORK,
        1,
        "ranks",
        "equal by definition: every rank applies the same update to the same weights",
        equal_ranks,
        _of_several_ranks,
    ),
    Gate(
        GateName.RANKS_UNEVEN,
        About.WORK,
        2,
        "steps between the first and the last rank's end",
        "ranks that exchange gradients differ by at most one step; stored runs on 2 and 4 GPUs: 0.002",
        even_ranks,
        _of_several_ranks,
    ),
    Gate(GateName.LOSS_NOT_FINITE, About.WORK, 1, "steps or lines", "a loss is a number", losses),
    Gate(
        GateName.BATCH_DIFFERS,
        About.WORK,
        1e-9,
        "of the requested batch",
        "equal by definition: a rank's samples are its steps times its batch",
        batches,
        _of_events,
    ),
    Gate(
        GateName.TWO_LEVELS,
        About.WINDOW,
        0.85,
        "of the steps' variance, explained by two levels that differ by at least 5 %",
        "a normal series gives 0.64, a ramp 0.75; benchmarks/trust_gates.py has the false alarms",
        levels,
        _of_events,
    ),
)
"""Every gate over one run, in the order in which doubts are reported."""

DRIFT = Gate(
    GateName.DRIFT_OVER_RUNS,
    About.MACHINE,
    0.01,
    "of the median, from the first run to the last",
    "the interval width that `adaptive` aims for; chance produces such an order in at most 1 % of cases",
    lambda _: Inspection(),
)
"""The gate over all runs of a case."""
