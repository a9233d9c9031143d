"""Gates: the checks that every result goes through, each with its bound and the source of that bound.

A gate never deletes a number; it adds a doubt with the value it read. ``benchmarks/trust_gates.py`` measures how often
each gate fires on sound runs; docs/gates.md has the table.
"""

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.events import RunEvents
from trainmark.node.telemetry import SLOWDOWNS
from trainmark.schema.case import Case
from trainmark.schema.gates import GateName
from trainmark.schema.measurement import About, Suspicion
from trainmark.schema.telemetry import GpuSummary, TelemetrySummary

MIN_STEPS = 40
"""The smallest number of steps in which two levels can be recognised."""
MIN_GAP, MIN_SHARE = 0.05, 0.15
"""The smallest gap between two levels (as a share of the lower one), and the smallest share of steps on the rarer."""
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
class Gate:
    """One gate: a value at or above ``bound`` is a doubt. ``source`` is the reason for the bound."""

    name: GateName
    about: About
    bound: float
    unit: str
    source: str
    read: Callable[[Evidence], Iterator[GateReading]] = field(repr=False)

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


def apply_gates(evidence: Evidence, off: Collection[str] = ()) -> tuple[Suspicion, ...]:
    """Return the doubts that the gates raise about one run; gates named in ``off`` are skipped."""
    doubts = (
        gate.doubt(reading) for gate in GATES if gate.name not in off for reading in gate.read(evidence)
    )
    return tuple(doubt for doubt in doubts if doubt is not None)


def apply_drift_gate(throughputs: Sequence[float], off: Collection[str] = ()) -> tuple[Suspicion, ...]:
    """Return the doubts about a case's pooled runs; ``throughputs`` are in the order in which the runs started."""
    if DRIFT.name in off:
        return ()
    doubt = DRIFT.doubt(drift(throughputs))
    return () if doubt is None else (doubt,)


def _throttled(evidence: Evidence) -> Iterator[GateReading]:
    for gpu, where in _gpus(evidence):
        slow = {reason: share for reason, share in gpu.reason_shares.items() if reason in SLOWDOWNS}
        if slow:
            reasons = ", ".join(f"{reason} in {share:.0%}" for reason, share in sorted(slow.items()))
            sentence = f"GPU {gpu.index} was throttled{where} during the window: {reasons} of the samples"
            yield GateReading(max(slow.values()), sentence)


def _clock(evidence: Evidence) -> Iterator[GateReading]:
    for gpu, where in _gpus(evidence):
        share = gpu.clock_dropped_share
        if share is not None:
            yield GateReading(
                share,
                f"the clock of GPU {gpu.index}{where} dropped in {share:.0%} of the window's samples "
                f"(to {gpu.sm_clock_mhz_min} MHz) although the GPU was not at its power limit",
            )


def _gpu_shared(evidence: Evidence) -> Iterator[GateReading]:
    for gpu, where in _gpus(evidence):
        pids = ", ".join(map(str, gpu.foreign_pids))
        yield GateReading(len(gpu.foreign_pids), f"other processes used GPU {gpu.index}{where} (PIDs {pids})")


def _cpu_shared(evidence: Evidence) -> Iterator[GateReading]:
    for node in evidence.telemetry:
        if node.cpu_other_mean is not None:
            share = node.cpu_other_mean
            sentence = f"other processes took {share:.0%} of the cores{_on(node)} during the window"
            yield GateReading(share, sentence)


def _gpus(evidence: Evidence) -> Iterator[tuple[GpuSummary, str]]:
    for node in evidence.telemetry:
        for gpu in node.gpus:
            if evidence.gpus is None or gpu.index in evidence.gpus:
                yield gpu, _on(node)


def _on(node: TelemetrySummary) -> str:
    return f" on node {node.node}" if node.node else ""


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


def _uneven(evidence: Evidence) -> Iterator[GateReading]:
    windows = _numbers(evidence.events.summary, "rank_windows_s")
    times = _measured(evidence.events)
    if len(windows) > 1 and times.size:
        steps = (max(windows) - min(windows)) / float(np.median(times))
        yield GateReading(
            steps,
            f"the ranks' windows took {min(windows):.4g} to {max(windows):.4g} s, a difference of {steps:.1f} steps: "
            "ranks that exchange gradients in every step should finish within one step of each other",
        )


def _loss(evidence: Evidence) -> Iterator[GateReading]:
    if evidence.log is None:
        steps = evidence.events.losses_not_finite
        yield GateReading(steps, f"the loss of {steps} measured steps is not finite")
        return
    lines, first = not_finite_lines(evidence.log)
    yield GateReading(lines, f"{lines} lines of the log show a loss that is not finite, the first: {first}")


def _batch(evidence: Evidence) -> Iterator[GateReading]:
    batch, steps = evidence.case.batch_per_device, int(_measured(evidence.events).size)
    samples = _numbers(evidence.events.summary, "rank_samples")
    if not isinstance(batch, int) or not samples or not steps:
        return
    wrong = next((count for count in samples if count != batch * steps), None)
    if wrong is not None:
        yield GateReading(
            abs(wrong / (batch * steps) - 1),
            f"the case requests a batch of {batch} per device, but a rank trained {wrong / steps:g} samples per step",
        )


def _levels(evidence: Evidence) -> Iterator[GateReading]:
    times = _measured(evidence.events)
    share, low, high, rarer = two_levels(times)
    yield GateReading(
        share,
        f"the step times have two levels, {low:.4g} and {high:.4g} s ({rarer:.0%} of the steps at the rarer level): "
        "the mean describes neither",
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


def _measured(events: RunEvents) -> NDArray[np.float64]:
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


GATES: tuple[Gate, ...] = (
    Gate(
        GateName.GPU_THROTTLED,
        About.MACHINE,
        0.01,
        "of the window's samples",
        "no sample of 64 stored runs on H200s shows a slowdown; being at the power limit, as most are, does not count",
        _throttled,
    ),
    Gate(
        GateName.CLOCK_DROPPED,
        About.MACHINE,
        0.10,
        "of the window's samples 5 % below its highest clock",
        "below their power limit the clocks of 64 stored runs on H200s stay within 1 %",
        _clock,
    ),
    Gate(
        GateName.GPU_SHARED,
        About.MACHINE,
        1,
        "foreign processes on a GPU of the run",
        "a shared GPU time-slices its processes",
        _gpu_shared,
    ),
    Gate(
        GateName.CPU_SHARED,
        About.MACHINE,
        0.10,
        "of the cores",
        "the stored sound runs have at most 7.2 % (72 runs on 2 cores) and 1.2 % (64 runs on GPU hosts)",
        _cpu_shared,
    ),
    Gate(
        GateName.RANKS_DISAGREE,
        About.WORK,
        1,
        "ranks",
        "equal by definition: every rank applies the same update to the same weights",
        _disagree,
    ),
    Gate(
        GateName.RANKS_UNEVEN,
        About.WORK,
        2,
        "steps between the first and the last rank's end",
        "ranks that exchange gradients differ by at most one step; stored runs on 2 and 4 GPUs: 0.002",
        _uneven,
    ),
    Gate(GateName.LOSS_NOT_FINITE, About.WORK, 1, "steps or lines", "a loss is a number", _loss),
    Gate(
        GateName.BATCH_DIFFERS,
        About.WORK,
        1e-9,
        "of the requested batch",
        "equal by definition: a rank's samples are its steps times its batch",
        _batch,
    ),
    Gate(
        GateName.TWO_LEVELS,
        About.WINDOW,
        0.85,
        "of the steps' variance, explained by two levels that differ by at least 5 %",
        "a normal series gives 0.64, a ramp 0.75; benchmarks/trust_gates.py has the false alarms",
        _levels,
    ),
)
"""Every gate over one run, in the order in which doubts are reported."""

DRIFT = Gate(
    GateName.DRIFT_OVER_RUNS,
    About.MACHINE,
    0.01,
    "of the median, from the first run to the last",
    "the interval width that `adaptive` aims for; chance produces such an order in at most 1 % of cases",
    lambda _: iter(()),
)
"""The gate over all runs of a case."""
