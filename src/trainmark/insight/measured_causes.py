"""Causes in the records and the telemetry of the two sides, each with the factor that it accounts for.

A factor that both sides recorded over several runs has the interval of Student's t on its logarithm; of single runs it
has that of the noise of their records. Processor time is an identity on CPUs: the rate is the CPUs in use over the
processor time of a sample. If the sides may use different CPUs, the factor is between that of the CPUs in use, which
holds for equal processor time, and the whole gap.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean, median, stdev

from trainmark.insight.difference import Basis, DifferenceOf, OwnCause, RecipeDifference
from trainmark.insight.programs import Change
from trainmark.insight.recipe import Reading
from trainmark.insight.side_facts import SideFacts
from trainmark.insight.sides import ExplainedRun, OtherSide
from trainmark.measure.statistics import MIN_RUNS, student_t
from trainmark.reference import Reference

_SAME_NUMBER = 1e-4
_LEAST_WAIT = 1e-3
_LEAST_SHARE = 0.02
"""A share of the window that differs by less is not a cause: the kernel's ticks and NVML's periods blur it."""
_LEAST_CLOCK = 0.01
_TELEMETRY = "telemetry of the runs"


def own_causes(
    run: ExplainedRun, other: OtherSide, *, waits_counted: bool, others_differ: bool
) -> Iterator[RecipeDifference]:
    """Yield the causes in the runs' own records and telemetry, and a publisher's other rule.

    ``waits_counted``: an axis of the loader differs, which the wait for data bounds already. ``others_differ``: the
    recipes or programs differ, so that the whole gap cannot be that of the machine.
    """
    factor = run.stall.factor if run.stall else 1.0
    if run.stall:
        yield _stall(run, inverted=False)
    if other.run is not None and other.run.stall:
        yield _stall(other.run, inverted=True)
    yield from _waits(run, other, waits_counted=waits_counted)
    yield from _statistic(run, other, factor)
    if other.run is not None:
        yield from _of_ranks(run, other.run)
        if run.facts.on_gpu or other.run.facts.on_gpu:
            yield from _of_gpus(run, other.run, others_differ=others_differ)
        else:
            yield from _of_cpus(run, other.run, others_differ=others_differ)


def _stall(run: ExplainedRun, *, inverted: bool) -> RecipeDifference:
    stall = run.stall
    assert stall is not None
    where = f"record {stall.record}"
    if stall.count > 1:
        where = f"{stall.count} records, the worst {where}"
    stalled, other = (
        Reading(f"{stall.share:.0%} of the window", where),
        Reading("none", "the time of the other records"),
    )
    factor = 1 / stall.factor if inverted else stall.factor
    here, there = (other, stalled) if inverted else (stalled, other)
    return _own(OwnCause.STALL, (here, there), Basis.OWN, (factor, factor))


def _statistic(run: ExplainedRun, other: OtherSide, stalled: float) -> Iterator[RecipeDifference]:
    """Yield the value of the run's log by the rule of the figure's publisher, without the part of a stall."""
    figure = other.figure
    theirs = None
    if figure is not None:
        theirs = next((rule for rule in run.by_publishers if _publishes(rule.by, figure)), None)
    if theirs and figure and run.throughput and theirs.rule != run.rule:
        by_rule = theirs.value / run.throughput
        # A stall hardly changes a mean of rates: its part must not be counted twice.
        by_rule = by_rule / stalled if by_rule > stalled else min(by_rule, 1.0)
        if abs(by_rule - 1) > _SAME_NUMBER:
            there = Reading(f"{theirs.rule}: {theirs.value:.6g}", f"{theirs.by}; {figure.statistic}")
            here = Reading(f"{run.rule}: {run.throughput:.6g}", "the rule of the run's number")
            yield _own(OwnCause.STATISTIC, (here, there), Basis.OWN, (by_rule, by_rule))


def _waits(run: ExplainedRun, other: OtherSide, *, waits_counted: bool) -> Iterator[RecipeDifference]:
    """Yield the wait for data: its part of the gap if both runs recorded it, else what it can account for at most."""
    if run.data_wait is None:
        return
    where = "the run's own data-wait times"
    here = Reading(f"{run.data_wait:.1%} of a step", where)
    if other.run is not None and other.run.data_wait is not None:
        there_wait = other.run.data_wait
        span = _span_of_times(run, other.run, "data_wait", run.data_wait, there_wait)
        if abs(span[0] * span[1] - 1) > 2 * _LEAST_WAIT:
            there = Reading(f"{there_wait:.1%} of a step", where)
            yield _own(OwnCause.DATA_WAIT, (here, there), Basis.OWN, span)
    elif run.data_wait > _LEAST_WAIT and not waits_counted:
        there = Reading("not stated", "")
        yield _own(OwnCause.DATA_WAIT, (here, there), Basis.BOUNDED, (1.0, 1 / (1 - run.data_wait)))


def _of_ranks(run: ExplainedRun, other: ExplainedRun) -> Iterator[RecipeDifference]:
    waits = _both(run.facts, other.facts, "rank_wait")
    if waits is not None and abs(waits[0] - waits[1]) > _LEAST_SHARE:
        texts = (f"the other ranks wait {share:.0%} of a step for the slowest" for share in waits)
        span = _span_of_times(run, other, "rank_wait", *waits)
        yield _own(OwnCause.RANK_WAIT, _readings(texts), Basis.OWN, span)


def _of_cpus(run: ExplainedRun, other: ExplainedRun, *, others_differ: bool) -> Iterator[RecipeDifference]:
    """Yield fewer CPUs to use, a quota, and other load, with the factors that the CPUs in use bound."""
    here, there = run.facts, other.facts
    stops = _both(here, there, "quota_stop")
    if stops is not None and abs(stops[0] - stops[1]) > _LEAST_SHARE:
        texts = (f"the CPU quota stops it in {share:.0%} of the window" for share in stops)
        yield _own(
            OwnCause.CPU_QUOTA, _readings(texts), Basis.OWN, _span_of_shares(run, other, "quota_stop", *stops)
        )
    in_use = _cpus_in_use(run, other)
    allowed = _both(here, there, "allowed_cpus")
    if in_use is not None and allowed is not None and allowed[0] != allowed[1]:
        texts = (
            f"{count:.0f} CPUs allowed, {cores:.2f} in use"
            for count, cores in zip(allowed, _both(here, there, "cores") or (math.nan, math.nan), strict=True)
        )
        span = _ordered(in_use, 1.0 if others_differ else _ratio(run, other) or 1.0)
        yield _own(
            OwnCause.CPUS_ALLOWED, _readings(texts), Basis.PHYSICS if others_differ else Basis.OWN, span
        )
        in_use = None
    waits = _both(here, there, "cpu_wait")
    busy = [1 - (side.data_wait or 0.0) for side in (run, other)]
    if waits is not None and all(wait < share for wait, share in zip(waits, busy, strict=True)):
        # The wait stretches the computation alone; a wait for data stays as it is.
        stretched = [share / max(share - wait, 0.01) for wait, share in zip(waits, busy, strict=True)]
        factor = 1 / (1 - busy[0] + busy[0] * stretched[1] / stretched[0])
    else:
        factor = 1.0
    if waits is not None and abs(factor - 1) > _LEAST_SHARE:
        loads = _both(here, there, "other_load") or (math.nan, math.nan)
        texts = (
            f"waits for a CPU in {wait:.0%} of the window, other processes take {load:.0%} of the CPUs"
            for wait, load in zip(waits, loads, strict=True)
        )
        width = math.hypot(*(_half_width(side, "cpu_wait") for side in (run, other)))
        span = factor * math.exp(-width), factor * math.exp(width)
        # Threads that wait for each other lose more than the main thread's own wait.
        found = [*span, *((in_use,) if in_use is not None else ())]
        if not others_differ and (whole := _ratio(run, other)) is not None:
            found.append(whole)
        yield _own(OwnCause.CPU_SHARED, _readings(texts), Basis.OWN, (min(found), max(found)))


def _cpus_in_use(run: ExplainedRun, other: ExplainedRun) -> float | None:
    cores = _both(run.facts, other.facts, "cores")
    return None if cores is None or cores[0] <= 0 or cores[1] <= 0 else cores[1] / cores[0]


def _of_gpus(run: ExplainedRun, other: ExplainedRun, *, others_differ: bool) -> Iterator[RecipeDifference]:
    """Yield the clock, which limits what it explains, and the time that the GPU is idle besides waiting for data."""
    here, there = run.facts, other.facts
    clocks = _both(here, there, "clock_mhz")
    if clocks is not None and clocks[0] > 0 and abs(clocks[1] / clocks[0] - 1) > _LEAST_CLOCK:
        texts = (_clock(facts) for facts in (here, there))
        yield _own(OwnCause.GPU_CLOCK, _readings(texts), Basis.PHYSICS, _ordered(1.0, clocks[1] / clocks[0]))
    busy = _both(here, there, "gpu_busy")
    if busy is None:
        return
    computing = [
        min(1.0, share / (1 - (side.data_wait or 0.0)))
        for share, side in zip(busy, (run, other), strict=True)
    ]
    if computing[0] > 0 and abs(computing[1] - computing[0]) > 2 * _LEAST_SHARE:
        texts = (f"busy {share:.0%} of the window" for share in busy)
        factor = computing[1] / computing[0]
        width = math.hypot(*(_half_width(side, "gpu_busy", _same) for side in (run, other)))
        measured = factor * math.exp(-width), factor * math.exp(width)
        span = _ordered(1.0, factor) if others_differ else measured
        yield _own(OwnCause.GPU_IDLE, _readings(texts), Basis.BOUNDED if others_differ else Basis.OWN, span)


def _clock(facts: SideFacts) -> str:
    values = {
        name: facts.values(name)
        for name in ("clock_mhz", "power_limited", "power_w", "power_limit_w", "slowed")
    }
    found = {name: median(numbers) for name, numbers in values.items() if numbers}
    parts = [f"{found['clock_mhz']:.0f} MHz"]
    if "power_w" in found:
        limit = f" of {found['power_limit_w']:.0f}" if "power_limit_w" in found else ""
        parts.append(f"{found['power_w']:.0f}{limit} W")
    if found.get("power_limited"):
        parts.append(f"at the power limit in {found['power_limited']:.0%} of the samples")
    if found.get("slowed"):
        parts.append(f"slowed by heat or a brake in {found['slowed']:.0%}")
    return ", ".join(parts)


def _both(here: SideFacts, there: SideFacts, name: str) -> tuple[float, float] | None:
    """Return the medians of a fact on both sides; None if a run lacks it."""
    one, other = here.values(name), there.values(name)
    return (median(one), median(other)) if one and other else None


def _ratio(run: ExplainedRun, other: ExplainedRun) -> float | None:
    if run.throughput is None or other.throughput is None:
        return None
    return other.throughput / run.throughput


def _span_of_shares(
    run: ExplainedRun, other: ExplainedRun, name: str, here: float, there: float
) -> tuple[float, float]:
    """Return the factor that a share of lost time accounts for, as an interval over the runs of both sides."""
    factor = (1 - min(there, 0.99)) / (1 - min(here, 0.99))
    widths = [_half_width(side, name) for side in (run, other)]
    width = math.hypot(*widths)
    return factor * math.exp(-width), factor * math.exp(width)


def _span_of_times(
    run: ExplainedRun, other: ExplainedRun, name: str, here: float, there: float
) -> tuple[float, float]:
    """Return the factor of having the other side's waiting time of a unit of work instead of one's own.

    The same seconds are another share of a step whose computation takes longer, so that shares alone would show a
    difference where there is none.
    """
    ratio = _ratio(run, other)
    if ratio is None:
        return _span_of_shares(run, other, name, here, there)
    factor = 1 / max(1 - here + there / ratio, 0.01)
    width = math.hypot(*(_half_width(side, name) for side in (run, other)))
    return factor * math.exp(-width), factor * math.exp(width)


def _rest(share: float) -> float:
    return 1 - min(share, 0.99)


def _same(share: float) -> float:
    return max(share, 0.01)


def _half_width(side: ExplainedRun, name: str, computing: Callable[[float], float] = _rest) -> float:
    """Return half the width of the interval of a side's computing time, on the logarithm.

    ``computing`` gives it from the recorded share: the rest of a share of lost time, or the share itself.
    """
    shares = side.facts.values(name)
    if len(shares) < MIN_RUNS:
        return side.noise
    logs = [math.log(computing(share)) for share in shares]
    # The noise of a run's rate is not that of its wait; of several runs the waits themselves are known.
    return student_t(len(logs) - 1) * stdev(logs, fmean(logs)) / math.sqrt(len(logs))


def _ordered(*ends: float) -> tuple[float, float]:
    return min(ends), max(ends)


def _own(
    cause: OwnCause, readings: tuple[Reading, Reading], basis: Basis, span: Sequence[float]
) -> RecipeDifference:
    here, there = readings
    return RecipeDifference(
        cause.value, here, there, basis, span[0], span[1], None, (), Change(), of=DifferenceOf.RECORDS
    )


def _readings(texts: Iterable[str]) -> tuple[Reading, Reading]:
    here, there = (Reading(text, _TELEMETRY) for text in texts)
    return here, there


def _publishes(by: str, reference: Reference) -> bool:
    """Return whether ``by`` (``PaddlePaddle/Perf``, ``NVIDIA and others``) published the figure."""
    name = by.split(maxsplit=1)[0].removesuffix("'s").casefold()
    source = reference.source
    return name in f"{source.publisher or ''} {source.document} {source.url or ''}".casefold()
