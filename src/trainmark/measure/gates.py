"""Gates: the checks that every result goes through, each with its bound and the source of that bound.

A gate never deletes a number; it adds a doubt with the value it read. It has three answers: a doubt, clean (with how
many samples it read over which time), or not looked (with the reason). ``benchmarks/trust_gates.py`` measures how often
each gate fires on sound runs; docs/reference/gates.md has the table.

A gate's reading comes first: its value with its sentence, how much it read, or why it could not look.
"""

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.events import RunEvents
from trainmark.measure.energy import sampled_gpus
from trainmark.node.telemetry import SLOWDOWNS
from trainmark.schema.case import Case, Device
from trainmark.schema.measurement import SPOILING, UNINSPECTED, About, Answer, GateCheck, GateName, Suspicion
from trainmark.schema.telemetry import GpuSummary, TelemetrySummary

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

MIN_STEPS = 40
"""The smallest number of steps in which two levels can be recognised."""
MIN_GAP, MIN_SHARE = 0.05, 0.15
"""The smallest gap between two levels (as a share of the lower one), and the smallest share of steps on the rarer."""
MIN_PERIODS = 2
"""The smallest number of sampling periods in a window of which the samples can say anything."""
MIN_COVERAGE = 0.8
"""The smallest share of the window that samples must cover to call it clean."""
LEAST_OF_LARGEST = 0.2
"""Other processes are named if they use at least this share of the cores of the largest one."""
VIOLATIONS_OF_HARDWARE = frozenset({"thermal", "board_limit", "reliability"})
"""The policies of NVML whose violation is a slowdown; being at the power limit is none."""
DRIFT_P_VALUE = 0.01
"""The largest p-value of a drift: runs without a drift are reported at most this often."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The data of one run that gates read. ``gpus`` are the indexes of the GPUs it used; None if unknown.

    ``log`` is the output of another program; None for a program that writes trainmark's events.
    """

    case: Case
    events: RunEvents
    telemetry: Sequence[TelemetrySummary] = ()
    gpus: Collection[int] | None = None
    log: Path | None = None


@dataclass(frozen=True, slots=True)
class GateReading:
    """One value that a gate compares with its bound, and the sentence that reports it."""

    value: float
    sentence: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """The values that a gate read, and from how many samples over how many seconds; None if it does not count them.

    ``unchecked`` is the reason why the gate could not look, as the end of a sentence. A value at or above the bound
    counts nevertheless.
    """

    readings: tuple[GateReading, ...] = ()
    samples: int | None = None
    seconds: float | None = None
    unchecked: str | None = None


def _machine(
    nodes: Sequence[TelemetrySummary], readings: Iterator[GateReading], missing: str | None = None
) -> Inspection:
    """Return what a gate of the machine read; the least sampled node limits what the samples can say."""
    reasons = [f"{reason}{on_node(node)}" for node in nodes if (reason := cannot_look(node))]
    if not nodes:
        missing = "no telemetry was recorded"
    if reasons:
        return Inspection(unchecked="; ".join(dict.fromkeys(reasons)))
    return Inspection(
        readings=tuple(readings),
        samples=min((node.samples for node in nodes), default=0),
        seconds=min((_seconds(node) for node in nodes), default=0.0),
        unchecked=missing,
    )


def _seconds(node: TelemetrySummary) -> float:
    return node.seconds if node.covered_s is None else node.covered_s


def cannot_look(node: TelemetrySummary) -> str | None:
    """Return why a node's samples say nothing about its window; None if they do."""
    window, period, covered = node.window_s, node.period_s, node.covered_s
    if window is not None and period is not None and window < MIN_PERIODS * period:
        return (
            f"its window of {window:.2g} s is shorter than two sampling periods of {period:.2g} s (measure more "
            "steps: `steps` in the suite's protocol, or of the program)"
        )
    if window is not None and covered is not None and covered < MIN_COVERAGE * window:
        return f"the samples cover only {covered:.2g} s of its window of {window:.2g} s"
    return None if node.samples else "no sample was taken in its window"


def throttling(evidence: Evidence) -> Inspection:
    """Read the clock reasons and the violation times that show a slowdown of a GPU."""
    known = [gpu.throttled_share is not None or bool(gpu.violation_shares) for gpu, _ in _gpus(evidence)]
    return _gpu_inspection(evidence, _throttled(evidence), known, "NVML reports no reasons for low clocks")


def _throttled(evidence: Evidence) -> Iterator[GateReading]:
    for gpu, where in _gpus(evidence):
        slow = {reason: share for reason, share in gpu.reason_shares.items() if reason in SLOWDOWNS}
        if slow:
            reasons = ", ".join(f"{reason} in {share:.0%}" for reason, share in sorted(slow.items()))
            sentence = f"GPU {gpu.index} was throttled{where} during the window: {reasons} of the samples"
            yield GateReading(max(slow.values()), sentence)
        held = {name: share for name, share in gpu.violation_shares.items() if name in VIOLATIONS_OF_HARDWARE}
        if not slow and any(held.values()):
            reasons = ", ".join(f"{name} for {share:.0%}" for name, share in sorted(held.items()) if share)
            sentence = f"GPU {gpu.index} was throttled{where} during the window: {reasons} of the time"
            yield GateReading(max(held.values()), sentence)


def clocks(evidence: Evidence) -> Inspection:
    """Read by how much the clocks of the GPUs dropped below the power limit."""
    known = [gpu.clock_dropped_share is not None for gpu, _ in _gpus(evidence)]
    missing = "NVML reports no clocks, or no sample shows the GPU at work"
    return _gpu_inspection(evidence, _clock(evidence), known, missing)


def _clock(evidence: Evidence) -> Iterator[GateReading]:
    for gpu, where in _gpus(evidence):
        share = gpu.clock_dropped_share
        if share is not None:
            yield GateReading(
                share,
                f"the clock of GPU {gpu.index}{where} dropped in {share:.0%} of the window's samples "
                f"(to {gpu.sm_clock_mhz_min} MHz) although the GPU was not at its power limit",
            )


def foreign_processes(evidence: Evidence) -> Inspection:
    """Read which processes of others compute on the GPUs."""
    known = [_lists_processes(gpu, is_used=evidence.gpus is not None) for gpu, _ in _gpus(evidence)]
    missing = "NVML lists no process of the run, or processes whose owner is not visible in this container"
    return _gpu_inspection(evidence, _gpu_shared(evidence), known, missing)


def _lists_processes(gpu: GpuSummary, *, is_used: bool) -> bool:
    """Return whether NVML lists the processes on a GPU; in some containers it lists none, not even the run's own.

    One process that is not visible here is the run's own if none other is: NVML reports it by its number outside of the
    container.
    """
    unseen, own = gpu.unseen_processes_max, gpu.run_processes_max
    if unseen is None or unseen > 1:
        return False
    if own is None:  # of an older trainmark
        return True
    return unseen == 0 if own else unseen == 1 or not is_used


def _gpu_shared(evidence: Evidence) -> Iterator[GateReading]:
    for gpu, where in _gpus(evidence):
        pids = ", ".join(map(str, gpu.foreign_pids))
        yield GateReading(len(gpu.foreign_pids), f"other processes used GPU {gpu.index}{where} (PIDs {pids})")


def _gpu_inspection(
    evidence: Evidence, readings: Iterator[GateReading], known: Sequence[bool], missing: str
) -> Inspection:
    why = None if known and all(known) else missing if known else "NVML reports no GPU of the run"
    return _machine(evidence.telemetry, readings, why)


def cpu_share(evidence: Evidence) -> Inspection:
    """Read the share of the CPUs that other processes took."""
    known = all(node.cpu_other_mean is not None for node in evidence.telemetry)
    return _machine(
        evidence.telemetry, _cpu_shared(evidence), None if known else "the CPU counters were not read"
    )


def _cpu_shared(evidence: Evidence) -> Iterator[GateReading]:
    for node in evidence.telemetry:
        if node.cpu_other_mean is not None:
            share = node.cpu_other_mean
            sentence = f"other processes took {share:.0%} of the cores{on_node(node)} during the window"
            yield GateReading(share, f"{sentence}{_named(node)}")


def _named(node: TelemetrySummary) -> str:
    """Return the end of a sentence with the processes that took the cores; empty if they were not searched."""
    if node.foreign is None:
        return ""
    if not node.foreign:
        return " (none of the processes that are visible there)"
    largest = node.foreign[0].cores
    named = [one for one in node.foreign if one.cores >= LEAST_OF_LARGEST * largest]
    return ": " + ", ".join(f"{one.name} (PID {one.pid}, {one.cores:.2g} cores)" for one in named)


def _gpus(evidence: Evidence) -> Iterator[tuple[GpuSummary, str]]:
    for node in evidence.telemetry:
        yield from ((gpu, on_node(node)) for gpu in sampled_gpus(node, evidence.gpus))


def on_node(node: TelemetrySummary) -> str:
    """Return the end of a sentence that names the node; empty for this machine, and for the first of unnamed ones."""
    if node.host is not None:
        return f" on {node.host}"
    return f" on node {node.node}" if node.node else ""


def equal_ranks(evidence: Evidence) -> Inspection:
    """Read whether the ranks hold equal parameters and trained equally many samples."""
    summary = evidence.events.summary
    known = isinstance(summary.get("ranks_agree"), bool) or len(_numbers(summary, "rank_samples")) > 1
    return Inspection(
        tuple(_disagree(evidence)), unchecked=None if known else "the program reports nothing about its ranks"
    )


def _disagree(evidence: Evidence) -> Iterator[GateReading]:
    summary = evidence.events.summary
    if summary.get("ranks_agree") is False:
        yield GateReading(1, "The ranks hold different parameters after the window.")
    samples = _numbers(summary, "rank_samples")
    others = [count for count in samples if count != samples[0]]
    if others:
        yield GateReading(
            len(others), f"the ranks trained different numbers of samples in the window: {_listed(samples)}"
        )


def even_ranks(evidence: Evidence) -> Inspection:
    """Read by how many steps the ranks' windows differ."""
    windows = _numbers(evidence.events.summary, "rank_windows_s")
    times = measured_times(evidence.events)
    if len(windows) < 2 or not times.size:
        return Inspection(unchecked="the program does not report the windows of its ranks")
    steps = (max(windows) - min(windows)) / float(np.median(times))
    sentence = (
        f"the ranks' windows took {min(windows):.4g} to {max(windows):.4g} s, a difference of {steps:.1f} steps: "
        "ranks that exchange gradients in every step should finish within one step of each other"
    )
    return Inspection((GateReading(steps, sentence),))


def losses(evidence: Evidence) -> Inspection:
    """Read how many steps, or lines of another program's log, have a loss that is not finite."""
    if evidence.log is None:
        steps = evidence.events.losses_not_finite
        return Inspection((GateReading(steps, f"the loss of {steps} measured steps is not finite"),))
    lines, first = not_finite_lines(evidence.log)
    sentence = f"{lines} lines of the log show a loss that is not finite, the first: {first}"
    return Inspection((GateReading(lines, sentence),))


def batches(evidence: Evidence) -> Inspection:
    """Read whether each rank trained its batch in each step."""
    batch, steps = evidence.case.batch_per_device, int(measured_times(evidence.events).size)
    samples = _numbers(evidence.events.summary, "rank_samples")
    if not isinstance(batch, int) or not samples or not steps:
        return Inspection(unchecked="the program does not report the samples of its ranks")
    wrong = next((count for count in samples if count != batch * steps), None)
    if wrong is None:
        return Inspection()
    sentence = f"the case requests a batch of {batch} per device, but a rank trained {wrong / steps:g} samples per step"
    return Inspection((GateReading(abs(wrong / (batch * steps) - 1), sentence),))


def levels(evidence: Evidence) -> Inspection:
    """Read whether the step times have two levels."""
    times = measured_times(evidence.events)
    share, low, high, rarer = two_levels(times)
    sentence = (
        f"the step times have two levels, {low:.4g} and {high:.4g} s ({rarer:.0%} of the steps at the rarer level): "
        "the mean describes neither"
    )
    few = f"two levels are recognised in {MIN_STEPS} steps or more, and the window has {times.size}"
    return Inspection(
        (GateReading(share, sentence),),
        samples=int(times.size),
        seconds=float(times.sum()),
        unchecked=few if times.size < MIN_STEPS else None,
    )


def two_levels(times: NDArray[np.float64]) -> tuple[float, float, float, float]:
    """Return the share of a series' variance that two levels explain, both levels, and the share of the rarer one.

    The series is cut where the variance between both sides is largest (Otsu, "A threshold selection method from
    gray-level histograms", IEEE Trans. SMC 9(1), 1979). A normal series gives 64 %, a uniform one and a ramp 75 %. The
    share is 0 for fewer than ``MIN_STEPS`` steps, for a gap below ``MIN_GAP`` and for a rarer level below
    ``MIN_SHARE``.
    """
    ordered = np.sort(times)
    count = ordered.size
    if count < MIN_STEPS or ordered[0] == ordered[-1]:
        return 0.0, math.nan, math.nan, 0.0
    sums, sizes = np.cumsum(ordered)[:-1], np.arange(1, count)
    low, high = sums / sizes, (ordered.sum() - sums) / (count - sizes)
    between = sizes * (count - sizes) / count**2 * (high - low) ** 2
    cut = int(np.argmax(between))
    rarer = min(int(sizes[cut]), count - int(sizes[cut])) / count
    gap = float(high[cut] / low[cut] - 1)
    share = float(between[cut] / ordered.var()) if gap >= MIN_GAP and rarer >= MIN_SHARE else 0.0
    return share, float(low[cut]), float(high[cut]), rarer


_NOT_FINITE = re.compile(rb"\bloss\b['\"]?[\s:=(]*(nan|[-+]?inf(inity)?)\b", re.IGNORECASE)


def not_finite_lines(log: Path) -> tuple[int, str]:
    """Return the number of log lines with a loss that is NaN or infinite, and the first such line."""
    found, first = 0, ""
    try:
        with log.open("rb") as file:
            for line in file:
                if b"oss" in line and _NOT_FINITE.search(line):
                    found += 1
                    first = first or line.decode(errors="replace").strip()[:120]
    except OSError:
        return 0, ""
    return found, first


def measured_times(events: RunEvents) -> NDArray[np.float64]:
    """Return the known times of the measured steps, in seconds."""
    times = events.step_times_s[events.measured]
    return times[np.isfinite(times)]


def _numbers(summary: Mapping[str, object], name: str) -> list[float]:
    values = summary.get(name)
    if not isinstance(values, list):
        return []
    return [float(value) for value in values if isinstance(value, int | float)]


def _listed(values: Sequence[float]) -> str:
    text = ", ".join(f"{value:g}" for value in values[:4])
    return f"{text}, …" if len(values) > 4 else text


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
    sentence = f"not checked: {listed}; it is unknown whether the machine disturbed the run"
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
