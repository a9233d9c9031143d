"""Gates: what is looked at in every result, from which bound on it is in doubt, and where that bound comes from.

A gate never deletes a number; it adds a doubt, with what it saw. ``benchmarks/trust_gates.py`` measures how often each
fires on sound runs; docs/gates.md has the table.
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

LEAST_STEPS = 40
"""A window of fewer steps says too little about levels."""
LEAST_APART, LEAST_SHARE = 0.05, 0.15
"""Two levels are at least this far apart (as a share of the lower one), and the rarer has this share of the steps."""
CHANCE = 0.01
"""How often runs without a drift may show an order as strict."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What there is of one run. ``gpus`` are the indexes of those that it computed on; None where nobody can say.

    ``log`` is what another program printed; of a program that writes our events it is not looked at.
    """

    case: Case
    events: RunEvents
    telemetry: Sequence[TelemetrySummary] = ()
    gpus: Collection[int] | None = None
    log: Path | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """One value that a gate compares with its bound, and the sentence that says it."""

    value: float
    sentence: str


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate: a value at or above ``bound`` is a doubt. ``source`` says where the bound comes from."""

    name: GateName
    about: About
    bound: float
    unit: str
    source: str
    look: Callable[[Evidence], Iterator[Seen]] = field(repr=False)

    def doubt(self, seen: Seen) -> Suspicion | None:
        """Return the doubt that a value raises, or None."""
        if not seen.value >= self.bound:
            return None
        return Suspicion(
            code=self.name, sentence=seen.sentence, about=self.about, value=seen.value, bound=self.bound
        )


def judge(evidence: Evidence, off: Collection[str] = ()) -> tuple[Suspicion, ...]:
    """Return what the gates hold against one run; those named in ``off`` are not asked."""
    doubts = (gate.doubt(seen) for gate in GATES if gate.name not in off for seen in gate.look(evidence))
    return tuple(doubt for doubt in doubts if doubt is not None)


def judge_case(throughputs: Sequence[float], off: Collection[str] = ()) -> tuple[Suspicion, ...]:
    """Return what is held against a case's pooled runs together; they are given in the order of their starts."""
    if DRIFT.name in off:
        return ()
    doubt = DRIFT.doubt(drift(throughputs))
    return () if doubt is None else (doubt,)


def _throttled(evidence: Evidence) -> Iterator[Seen]:
    for gpu, where in _gpus(evidence):
        slow = {reason: share for reason, share in gpu.reason_shares.items() if reason in SLOWDOWNS}
        if slow:
            reasons = ", ".join(f"{reason} in {share:.0%}" for reason, share in sorted(slow.items()))
            sentence = f"GPU {gpu.index} was throttled{where} in the window: {reasons} of the samples"
            yield Seen(max(slow.values()), sentence)


def _clock(evidence: Evidence) -> Iterator[Seen]:
    for gpu, where in _gpus(evidence):
        share = gpu.clock_dropped_share
        if share is not None:
            yield Seen(
                share,
                f"the clock of GPU {gpu.index}{where} fell in {share:.0%} of the window's samples "
                f"(to {gpu.sm_clock_mhz_min} MHz), and it was not at its power limit",
            )


def _gpu_shared(evidence: Evidence) -> Iterator[Seen]:
    for gpu, where in _gpus(evidence):
        pids = ", ".join(map(str, gpu.foreign_pids))
        yield Seen(len(gpu.foreign_pids), f"other processes computed on GPU {gpu.index}{where}: {pids}")


def _cpu_shared(evidence: Evidence) -> Iterator[Seen]:
    for node in evidence.telemetry:
        if node.cpu_other_mean is not None:
            share = node.cpu_other_mean
            sentence = f"other processes took {share:.0%} of the cores{_on(node)} during the window"
            yield Seen(share, sentence)


def _gpus(evidence: Evidence) -> Iterator[tuple[GpuSummary, str]]:
    for node in evidence.telemetry:
        for gpu in node.gpus:
            if evidence.gpus is None or gpu.index in evidence.gpus:
                yield gpu, _on(node)


def _on(node: TelemetrySummary) -> str:
    return f" on node {node.node}" if node.node else ""


def _disagree(evidence: Evidence) -> Iterator[Seen]:
    summary = evidence.events.summary
    if summary.get("ranks_agree") is False:
        yield Seen(1, "The ranks hold different parameters after the window.")
    samples = _numbers(summary, "rank_samples")
    others = [count for count in samples if count != samples[0]]
    if others:
        yield Seen(len(others), f"the ranks did not train as many samples in the window: {_listed(samples)}")


def _uneven(evidence: Evidence) -> Iterator[Seen]:
    windows = _numbers(evidence.events.summary, "rank_windows_s")
    times = _measured(evidence.events)
    if len(windows) > 1 and times.size:
        steps = (max(windows) - min(windows)) / float(np.median(times))
        yield Seen(
            steps,
            f"the ranks' windows took {min(windows):.4g} to {max(windows):.4g} s, which is {steps:.1f} steps: "
            "ranks that exchange gradients in every step end together",
        )


def _loss(evidence: Evidence) -> Iterator[Seen]:
    if evidence.log is None:
        steps = evidence.events.losses_not_finite
        yield Seen(steps, f"the loss of {steps} measured steps is not finite")
        return
    lines, first = not_finite_lines(evidence.log)
    yield Seen(lines, f"{lines} lines of the log show a loss that is not finite, the first: {first}")


def _batch(evidence: Evidence) -> Iterator[Seen]:
    asked, steps = evidence.case.batch_per_device, int(_measured(evidence.events).size)
    samples = _numbers(evidence.events.summary, "rank_samples")
    if not isinstance(asked, int) or not samples or not steps:
        return
    wrong = next((count for count in samples if count != asked * steps), None)
    if wrong is not None:
        yield Seen(
            abs(wrong / (asked * steps) - 1),
            f"a batch of {asked} was asked for, and a rank trained {wrong / steps:g} samples a step",
        )


def _levels(evidence: Evidence) -> Iterator[Seen]:
    times = _measured(evidence.events)
    share, low, high, rarer = two_levels(times)
    yield Seen(
        share,
        f"the steps have two levels, {low:.4g} and {high:.4g} s ({rarer:.0%} of them at the rarer one): "
        "their mean is that of no step",
    )


def two_levels(times: NDArray[np.float64]) -> tuple[float, float, float, float]:
    """Return what share of a series' variance two levels explain, the levels, and the share of the rarer one.

    The series is cut where the variance between both sides is largest (Otsu, "A threshold selection method from
    gray-level histograms", IEEE Trans. SMC 9(1), 1979). A normal series gives 64 %, a uniform one and a ramp 75 %. It
    is 0 for fewer than ``LEAST_STEPS`` steps, and where the levels are closer or the rarer is rarer than is looked at.
    """
    ordered = np.sort(times)
    count = ordered.size
    if count < LEAST_STEPS or ordered[0] == ordered[-1]:
        return 0.0, math.nan, math.nan, 0.0
    sums, sizes = np.cumsum(ordered)[:-1], np.arange(1, count)
    low, high = sums / sizes, (ordered.sum() - sums) / (count - sizes)
    between = sizes * (count - sizes) / count**2 * (high - low) ** 2
    cut = int(np.argmax(between))
    rarer = min(int(sizes[cut]), count - int(sizes[cut])) / count
    apart = float(high[cut] / low[cut] - 1)
    share = float(between[cut] / ordered.var()) if apart >= LEAST_APART and rarer >= LEAST_SHARE else 0.0
    return share, float(low[cut]), float(high[cut]), rarer


def drift(throughputs: Sequence[float]) -> Seen:
    """Return by how much runs in order of time went up or down, as a share of their median; 0 where chance may do it.

    The slope is Theil's and Sen's (the median of all pairs' slopes); chance is Kendall's exact test of the order, both
    sides, at ``CHANCE``. Fewer than 6 runs cannot pass it.
    """
    runs = np.asarray(throughputs, dtype=np.float64)
    if runs.size < 6:
        return Seen(0.0, "")
    from scipy import stats

    slope = float(stats.theilslopes(runs).slope)
    total = slope * (runs.size - 1) / float(np.median(runs))
    chance = float(stats.kendalltau(np.arange(runs.size), runs).pvalue)
    if not chance <= CHANCE:
        return Seen(0.0, "")
    way = "slower" if total < 0 else "faster"
    return Seen(
        abs(total),
        f"the runs became {way} from the first to the last by {abs(total):.1%}, in an order that chance gives in "
        f"{chance:.2%}: their interval is not that of one state of the machine",
    )


_NOT_FINITE = re.compile(rb"\bloss\b['\"]?[\s:=(]*(nan|[-+]?inf(inity)?)\b", re.IGNORECASE)


def not_finite_lines(log: Path) -> tuple[int, str]:
    """Return how many lines of a log show a loss that is NaN or infinite, and the first of them."""
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
        "no sample of 64 kept runs on H200s shows a slowdown; the power limit, in most of them, is none",
        _throttled,
    ),
    Gate(
        GateName.CLOCK_DROPPED,
        About.MACHINE,
        0.10,
        "of the window's samples 5 % below its highest clock",
        "away from their power limit the clocks of 64 kept runs on H200s stay within 1 %",
        _clock,
    ),
    Gate(
        GateName.GPU_SHARED,
        About.MACHINE,
        1,
        "processes of others on a GPU of the run",
        "a GPU that is shared takes turns",
        _gpu_shared,
    ),
    Gate(
        GateName.CPU_SHARED,
        About.MACHINE,
        0.10,
        "of the cores",
        "the kept sound runs have at most 7.2 % (72 on 2 cores) and 1.2 % (64 beside GPUs)",
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
        "ranks that exchange gradients are at most one step apart; kept runs on 2 and 4 GPUs: 0.002",
        _uneven,
    ),
    Gate(GateName.LOSS_NOT_FINITE, About.WORK, 1, "steps or lines", "a loss is a number", _loss),
    Gate(
        GateName.BATCH_DIFFERS,
        About.WORK,
        1e-9,
        "of the batch that was asked for",
        "equal by definition: samples of a rank are its steps times its batch",
        _batch,
    ),
    Gate(
        GateName.TWO_LEVELS,
        About.WINDOW,
        0.85,
        "of the steps' variance, explained by two levels at least 5 % apart",
        "a normal series gives 0.64, a ramp 0.75; benchmarks/trust_gates.py has the false alarms",
        _levels,
    ),
)
"""Every gate over one run, in the order in which doubts are told."""

DRIFT = Gate(
    GateName.DRIFT_OVER_RUNS,
    About.MACHINE,
    0.01,
    "of the median, from the first run to the last",
    "the width that adaptive asks for; the order is one that chance gives in 1 % of cases at most",
    lambda _: iter(()),
)
"""The gate over a case's runs together."""
