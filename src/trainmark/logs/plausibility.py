"""Plausibility checks of a parsed log, made before a number is computed from it; the work of steps that are unlike.

Each check returns problems: a code, a sentence with the effect on the number, and a severity. They are about single
figures, and about the times of steps: stalls, changes of pace, implausibly fast steps, clock jumps, contradictions of
the clock.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from trainmark.logs.intervals import (
    MATTERS,
    Change,
    Pace,
    WorstInterval,
    change_of_pace,
    counts_from_zero,
    intervals,
    last_digit,
    measure_timing,
    missing_and_duplicate_records,
    steps_covered,
    steps_since_restart,
)
from trainmark.logs.model import (
    MOST_OF_A_NOTE,
    Column,
    Facts,
    Floats,
    Meaning,
    ParsedLog,
    Problem,
    Records,
    Scope,
    Severity,
    Status,
    differences,
    in_step,
    median,
)

FROM_NAME = "from-name"
ONE_NODE = "one-node-assumed"
MOST_DEVICES = 200_000
"""Twice the size of the largest single job published by 2025."""
MOST_NODES = 50_000
MOST_PER_DEVICE = 1 << 22
"""Samples or tokens of one device in one micro-batch."""
LONGEST_S = 400 * 86_400.0
"""Longest plausible duration of a record, a little over a year."""
_BLOCK = 1 << 15
_NO_NUMBER = 0.02
_OFF = 0.02
"""Largest deviation of a line's batch from that of the others, besides what the printed digits leave open."""
_MOST_ODD = 0.1
"""Share of odd lines from which the batch is taken to vary, as with padding."""
_MOST_DEVIATION = 0.2
"""Allowed deviation: an epoch has a start that no record times (worker start-up, compilation of the first step)."""
_CLEARLY = 0.5
"""The rates are of intervals if that leaves at most this share of the deviation from the time stamps."""
AGREE = 0.05
"""If clock and records differ by more than this share for the same steps, one of them is wrong."""
MOST_UNTIMED = 0.2
"""Largest untimed share of the clock's time if records cover only the last steps of an interval."""
_MANY = 0.05
"""Largest share of outliers of a run whose pace changes."""
WORK_VARIES = "work-varies"
_HEAD = 4096
_FEWEST_VARYING = 20
_PAUSE = 10
"""A record that takes as many times the median takes that long, whatever else the program did meanwhile."""
_SURELY, _WORK_MATTERS = 5.0, 0.02
"""Standard errors of a slope above 0, and the least change of the number by another work of the steps."""


def check_plausibility(log: ParsedLog) -> ParsedLog:
    """Return ``log`` with the problems that the checks found; memory does not grow with the log.

    A trainmark run reports its own window and is checked by its own gates instead.
    """
    if log.status is not Status.OK or log.own_run is not None:
        return log
    named = weigh_name_hints(log)
    if named != log.problems:
        log = replace(log, problems=named)
    reported = {problem.code for problem in log.problems}
    more = tuple(problem for problem in _problems(log) if problem.code not in reported)
    return replace(log, problems=(*log.problems, *more)) if more else log


def _problems(log: ParsedLog) -> Iterator[Problem]:
    yield from impossible_counts(log.facts)
    yield from impossible_times(log.records)
    yield from non_numeric_speeds(log.records)
    yield from waits_longer_than_steps(log.records)
    if log.records.count < 2:
        if log.records.step is not None and not log.witnesses and not log.figures.get("summary"):
            sentence = "the number rests on a single record, so its reliability cannot be estimated"
            yield Problem("few-records", sentence)
        return
    yield from missing_and_duplicate_records(log)
    yield from timing_problems(log)
    yield from contradictory_records(log)
    yield from totals_disagree(log)


def weigh_name_hints(log: ParsedLog) -> tuple[Problem, ...]:
    """Return the log's problems; facts from the name or assumed become doubts if the number depends on them."""
    needed = _needed(log)
    if "devices" in needed and log.facts.gpus_per_node is not None and (log.facts.nodes or 1) > 1:
        needed = (*needed, "nodes")  # the devices are those of one node times the number of nodes
    return tuple(
        replace(problem, severity=Severity.DOUBT)
        if (problem.code == FROM_NAME and problem.message.startswith(needed))
        or (problem.code == ONE_NODE and "devices" in needed)
        else problem
        for problem in log.problems
    )


def _needed(log: ParsedLog) -> tuple[str, ...]:
    """Return the first words of the sentences about facts on which the number depends."""
    if log.scope is Scope.NODE:
        return ("nodes",)
    if log.records.rate is None and log.global_batch is None:
        return ()  # no number can be computed: the tool's own figure is used, if there is one
    by_batch = log.records.rate is None or (
        log.meaning is not Meaning.INTERVAL and log.records.clock_s is not None
    )
    if by_batch:
        return ("devices", "batch per device")
    return ("devices",) if log.scope is Scope.DEVICE else ()


def is_possible(gpus: int | None = None, nodes: int | None = None, batch: int | None = None) -> bool:
    """Return whether a run can have so many devices, nodes and samples per device; ``None`` is not checked."""
    return (
        (gpus is None or 0 < gpus <= MOST_DEVICES)
        and (nodes is None or 0 < nodes <= MOST_NODES)
        and (batch is None or 0 < batch <= MOST_PER_DEVICE)
        and (gpus is None or nodes is None or gpus >= nodes)
    )


def impossible_counts(facts: Facts) -> Iterator[Problem]:
    """Yield a problem if the counts of a run are impossible."""
    counts = f"{facts.gpus} devices on {facts.nodes} nodes with {facts.batch_per_device} samples each"
    if not is_possible(facts.gpus, facts.nodes, facts.batch_per_device):
        yield Problem("out-of-bounds", f"no run has {counts}: a number computed from these counts is wrong")


def non_numeric_speeds(records: Records) -> Iterator[Problem]:
    """Yield a problem if the speed of many records is not a number, although other records have one."""
    columns = [records.rate, records.step_time_s, records.average_rate, records.average_time_s]
    present = [column for column in columns if column is not None]
    if not present or not records.count:
        return
    without = sum(int(np.isnan(np.fmax.reduce(values)).sum()) for values in in_step(present))
    if without > max(_NO_NUMBER * records.count, 2):
        yield Problem(
            "numbers-unread",
            f"the speed of {without} of {records.count} records is not a number: these records are left out",
        )


def impossible_times(records: Records) -> Iterator[Problem]:
    """Yield a problem if a record lasts for years, by its samples and rate or by its step time."""
    longest = 0.0
    for start in range(0, records.count, _BLOCK):
        stop = min(start + _BLOCK, records.count)
        with np.errstate(divide="ignore", invalid="ignore"):
            if records.rate is not None and records.samples is not None:
                lasted = records.samples.array(start, stop) / records.rate.array(start, stop)
            elif records.step_time_s is not None:
                lasted = records.step_time_s.array(start, stop)
            else:
                return
        longest = max(longest, float(np.nanmax(lasted, initial=0.0)))
    if longest > LONGEST_S:
        yield Problem(
            "out-of-bounds", f"a record lasts {longest / 86_400:.0f} days, so its times cannot be right"
        )


def waits_longer_than_steps(records: Records) -> Iterator[Problem]:
    """Yield a doubt if a step waits for its batch longer than it takes: its time then leaves out the wait."""
    step_s = records.step_time_s or records.average_time_s
    if records.data_time_s is None or step_s is None or not records.count:
        return
    waits, steps = (column.array(0, _BLOCK) for column in (records.data_time_s, step_s))
    known = (waits >= 0) & (steps > 0)
    if not known.any():
        return
    wait_s, whole_s = median(waits[known]), median(steps[known])
    # Of times with few digits the last one may be rounded up.
    if wait_s > whole_s * (1 + _OFF + last_digit(np.array([whole_s]))[0]):
        sentence = (
            f"a step waits {wait_s:.4g} s for its batch and takes {whole_s:.4g} s: its time leaves the wait out, and "
            "the number is too high"
        )
        yield Problem("wait-left-out", sentence)


def contradictory_records(log: ParsedLog) -> Iterator[Problem]:
    """Yield a doubt about single records whose rate and step time give another batch than the other records'."""
    rates, times = log.records.rate, log.records.step_time_s
    if rates is None or times is None or log.meaning is Meaning.RUNNING:
        return
    usual = float("nan")
    odd: list[tuple[int, float]] = []
    effect_s = window_s = 0.0
    for start in range(0, log.records.count, _BLOCK):
        rate, seconds = (_positive(column.array(start, start + _BLOCK)) for column in (rates, times))
        batch = rate * seconds
        known = np.isfinite(batch)
        if not known.any():
            continue
        usual = median(batch[known]) if np.isnan(usual) else usual
        # The usual batch is as coarse as the record's.
        slack = _OFF + 2 * (last_digit(rate) + last_digit(seconds))
        places = np.flatnonzero(known & (np.abs(batch / usual - 1) > slack))
        odd += [(start + int(at) + 1, float(batch[at])) for at in places[: _BLOCK // 8]]
        effect_s += float(np.abs(usual / rate[places] - seconds[places]).sum())
        window_s += float(seconds[known].sum())
    if not odd or len(odd) > _MOST_ODD * log.records.count or effect_s <= MATTERS * window_s:
        return
    worst = max(odd, key=lambda one: abs(np.log(one[1] / usual)))
    more = f" (and {len(odd) - 1} more)" if len(odd) > 1 else ""
    sentence = (
        f"record {worst[0]}{more} has a rate and a step time that make a batch of {worst[1]:.4g}, the others one of "
        f"{usual:.4g}: one of its two figures is wrong"
    )
    yield Problem("record-contradicts-time", sentence, last_record=odd[-1][0])


def _positive(values: Floats) -> Floats:
    return np.where(values > 0, values, np.nan)


def totals_disagree(log: ParsedLog) -> Iterator[Problem]:
    """Yield a doubt if the printed epoch times differ widely from those computed from the records."""
    if not log.epoch_seconds or log.records.epoch is None or log.records.step is None:
        return
    own, done = _own(log)
    from_zero = counts_from_zero(log.records)
    opening, opening_s = _opening(log)
    printed = least = most = 0.0
    for epoch, (first, last) in _spans(log).items():
        if own.get(epoch, 0.0) > 0 and last > first and epoch in log.epoch_seconds:
            printed += log.epoch_seconds[epoch]
            # Up to an interval of steps may follow the last line of an epoch.
            before = float(steps_since_restart(np.array([first]), from_zero, log.step_interval)[0])
            least += own[epoch] / done[epoch] * (last - first + before)
            most += own[epoch] / done[epoch] * (last - first + log.step_interval)
            if epoch == opening:
                most += before * max(0.0, opening_s - own[epoch] / done[epoch])
    expected = min(max(printed, least), most)
    if expected > 0 and abs(printed / expected - 1) > _MOST_DEVIATION:
        sentence = (
            f"the program reports {printed:.6g} s for its epochs, but its records add up to {expected:.6g} s for the "
            f"same steps: by the reported time the rate would change by {expected / printed - 1:+.0%}"
        )
        yield Problem("totals-disagree", sentence)


def _spans(log: ParsedLog) -> dict[int, tuple[float, float]]:
    """Return the first and the last step of each epoch."""
    epochs, steps = log.records.epoch, log.records.step
    assert epochs is not None
    assert steps is not None
    found: dict[int, tuple[float, float]] = {}
    for numbers, places in zip(epochs.blocks(), steps.blocks(), strict=True):
        for epoch in np.unique(numbers[np.isfinite(numbers)]).tolist():
            in_epoch = places[numbers == epoch]
            first, last = found.get(int(epoch), (np.inf, -np.inf))
            found[int(epoch)] = min(first, float(in_epoch.min())), max(last, float(in_epoch.max()))
    return found


def _opening(log: ParsedLog) -> tuple[float, float]:
    """Return the epoch and the printed seconds a step of the first record: its step compiles."""
    if log.records.epoch is None or log.records.step_time_s is None:
        return float("nan"), 0.0
    return float(log.records.epoch.array(0, 1)[0]), float(log.records.step_time_s.array(0, 1)[0])


def _own(log: ParsedLog) -> tuple[dict[int, float], dict[int, float]]:
    """Return the seconds and the steps of each epoch, summed over its intervals by the records."""
    assert log.records.epoch is not None
    seconds: dict[int, float] = {}
    steps: dict[int, float] = {}
    for block in intervals(log):
        if not block.absolute:
            return {}, {}
        epochs = log.records.epoch.array(block.first, block.first + len(block.own))
        good = np.isfinite(block.own)
        for epoch in np.unique(epochs[good]).tolist():
            here: Floats = good & (epochs == epoch)
            seconds[int(epoch)] = seconds.get(int(epoch), 0.0) + float(block.own[here].sum())
            steps[int(epoch)] = steps.get(int(epoch), 0.0) + float(block.steps[here].sum())
    return seconds, steps


def with_settled_meaning(log: ParsedLog) -> ParsedLog:
    """Return a log whose rates are of the epoch or of intervals with the one of the two that fits its time stamps.

    Without a clear difference they are of the epoch: at an even pace both say the same.
    """
    if log.meaning is not Meaning.RUNNING_OR_INTERVAL:
        return log
    running, of_interval = (replace(log, meaning=one) for one in (Meaning.RUNNING, Meaning.INTERVAL))
    if log.records.rate is None or log.records.clock_s is None:
        return running
    return of_interval if _deviation_s(of_interval) < _CLEARLY * _deviation_s(running) else running


def _deviation_s(log: ParsedLog) -> float:
    """Return by how many seconds durations by the rates deviate from the clock's, apart from a common factor.

    The first block of records is enough.
    """
    block = next(intervals(log), None)
    if block is None:
        return 0.0
    known = np.isfinite(block.own) & np.isfinite(block.clock_s)
    own, clock = block.own[known], block.clock_s[known]
    total = own.sum()
    return float(np.abs(own * (clock.sum() / total) - clock).sum()) if total > 0 else np.inf


@dataclass(frozen=True, slots=True)
class Stall:
    """A set of ``count`` intervals that are far slower than usual; the worst ends at ``record``.

    They take ``share`` of the window. At the usual pace the rate would be ``factor`` times as high.
    """

    record: int
    share: float
    factor: float
    count: int = 1


def stalls(log: ParsedLog) -> Stall | None:
    """Return the stalls of ``log`` that matter: all of them, or only the worst.

    If all slow records change the number by less than a doubt, they belong to the run's spread, and only the worst one
    can stand out.
    """
    if log.records.count < 2 or log.own_run is not None:
        return None
    pace = measure_timing(log)
    all_stalls, slow = _stalls(pace), pace.slow
    if all_stalls is None or slow.excess_s > MOST_OF_A_NOTE * pace.window_s:
        return all_stalls
    excess_s = slow.took - slow.usual
    if not excess_s > MATTERS * pace.window_s:
        return None
    return Stall(slow.record, slow.took / pace.window_s, pace.window_s / (pace.window_s - excess_s))


def _stalls(pace: Pace) -> Stall | None:
    slow, window_s = pace.slow, pace.window_s
    if not slow.excess_s > MATTERS * window_s > 0:
        return None
    return Stall(slow.record, slow.all_s / window_s, window_s / (window_s - slow.excess_s), slow.count)


def timing_problems(log: ParsedLog) -> Iterator[Problem]:
    """Yield problems of the step timing of ``log`` after its warm-up."""
    pace = measure_timing(log)
    false = pace.false
    yield from _backwards(pace.back)
    change = change_of_pace(pace.chunks, log.clock_resolution_s if pace.by_clock else 0.0)
    outliers = [*_slow(pace, change), *_fast(pace, change), *([_changed(change)] if change else [])]
    yield from outliers
    averaged = log.records.average_rate is not None or log.records.average_time_s is not None
    averaged = averaged or (log.meaning is Meaning.RUNNING and log.records.clock_s is None)
    if not averaged and not any(problem.severity is Severity.DOUBT for problem in outliers):
        yield from _few(log, pace)
    if abs(false.took - false.usual) > MATTERS * pace.window_s > 0:
        ends = f"{false.usual:.4g} s by its rate and {false.took:.4g} s by its time stamps"
        message = f"record {false.record} took {ends}: one of the two is wrong"
        yield Problem("record-contradicts-clock", message, last_record=false.last)
    if pace.ratios:
        yield from _disagreement(log, pace)


_BY_CLOCK = frozenset({"clock-backwards", "stall", "too-fast", "pace-changes", "few-records"})
"""The problems that depend on when the records were printed, if the number is that of the clock."""


def with_timing_by(log: ParsedLog, resolution_s: float) -> ParsedLog:
    """Return a log that is timed by its clock with the problems of that clock, of this resolution, for earlier ones.

    The time at which a line arrived is another clock than the one in the line, and coarser than its digits.
    """
    if not log.uses_clock or log.records.count < 2:
        return log
    timed = replace(log, clock_resolution_s=resolution_s)
    others = (problem for problem in log.problems if problem.code not in _BY_CLOCK)
    return replace(log, problems=(*others, *timing_problems(timed)))


def _few(log: ParsedLog, pace: Pace) -> Iterator[Problem]:
    """Yield a doubt if the number depends on a single record, by more than the clock's resolution explains."""
    most, counted = pace.most, pace.counted
    grain = 2 * log.clock_resolution_s if pace.by_clock else 0.0
    rest = pace.window_s - most.took
    moved = (most.took - most.usual) / rest if rest > 0 else 0.0
    warm_up = log.warmup_records
    if not pace.window_s and log.records.count > warm_up + 2:
        # Records without any time are no few records: another problem names what they lack.
        return
    if counted < 2 or rest <= 0:
        cause = (
            f"the log has only {log.records.count} records"
            if not 0 < warm_up < log.records.count
            else "only one record follows the warm-up"
        )
        sentence = f"{cause}, so the reliability of the number cannot be estimated"
        yield Problem("few-records", sentence)
    elif abs(moved) > MOST_OF_A_NOTE and abs(most.took - most.usual) > grain:
        sentence = (
            f"the number is computed from only {counted} records: without record {most.record} it would change by "
            f"{moved:+.1%}"
        )
        yield Problem("few-records", sentence)


def _backwards(back: WorstInterval) -> Iterator[Problem]:
    if back.took < 0:
        sentence = f"the time stamps run backwards at record {back.record}, by {-back.took:.6g} s"
        message = f"{sentence}: a number computed from the clock is wrong"
        yield Problem("clock-backwards", message, last_record=back.last)


def _slow(pace: Pace, change: Change | None) -> Iterator[Problem]:
    found, slow = _stalls(pace), pace.slow
    if found is None or (change and slow.count > _MANY * pace.counted):
        return
    cause = "a stall or a clock jump" if pace.by_clock else "a stall"
    who, them = f"record {slow.record} took", "it"
    if found.count > 1:
        who, them = (
            f"{found.count} records are much slower than the others; the worst, record {slow.record}, took",
            "them",
        )
    times = (
        f" {slow.took / slow.usual:.3g} times as long as usual" if slow.usual > 0 else f" {slow.took:.3g} s"
    )
    portion = "; in total they take" if found.count > 1 else " and takes"
    sentence = (
        f"{cause}: {who}{times}{portion} {found.share:.0%} of the window; "
        f"without {them} the rate would be {found.factor - 1:.1%} higher"
    )
    severity = Severity.of_effect(slow.excess_s / pace.window_s)
    yield Problem("stall", sentence, severity, last_record=slow.last)


def _fast(pace: Pace, change: Change | None) -> Iterator[Problem]:
    fast = pace.fast
    if change and fast.count > _MANY * pace.counted:
        return
    share = -fast.excess_s / pace.window_s if pace.window_s > 0 else 0.0
    if share > MATTERS:
        more = f" (and {fast.count - 1} more)" if fast.count > 1 else ""
        sentence = (
            f"record {fast.record}{more} took {fast.took:.3g} s instead of the usual {fast.usual:.3g} s, which is "
            f"implausibly fast; it raises the rate by {share:.1%}"
        )
        yield Problem("too-fast", sentence, last_record=fast.last)


def _changed(change: Change) -> Problem:
    sentence = (
        f"from record {change.record} on a step takes {change.factor:.3g} times as long as before; the number covers "
        "both parts: if they are two runs (another machine or batch), split the file"
    )
    return Problem("pace-changes", sentence, last_record=change.record - 1)


def _disagreement(log: ParsedLog, pace: Pace) -> Iterator[Problem]:
    """Compare the time of the same steps by the clock and by the records; yield a doubt if they differ."""
    clock_s, own_s, jump = pace.clock_s, pace.own_s, pace.jump
    slack = 2 * log.clock_resolution_s / clock_s if clock_s > 0 else 1.0
    typical = median(pace.ratios)
    # The difference of two time stamps is known to within one resolution step of the clock.
    grain = log.clock_resolution_s * log.records.count
    fine = grain < AGREE * min(clock_s, own_s)
    share = clock_s / own_s - 1
    if abs(typical - 1) > (AGREE if fine else AGREE + grain / own_s):
        yield Problem("rates-contradict-clock", _between(log, typical))
    elif abs(share) > AGREE + slack and (pace.by_clock or share < 0):
        sentence = (
            f"the steps took {own_s:.6g} s by the records and {clock_s:.6g} s by the time stamps; "
            f"the largest difference is at record {jump.record} ({jump.usual:.4g} s and {jump.took:.4g} s)"
        )
        yield Problem("rates-contradict-clock", sentence)
    elif log.of_last_steps and pace.between_s > MOST_UNTIMED * own_s:
        sentence = (
            f"a record times only the last steps before it, and throughout the log {clock_s / own_s - 1:.0%} more "
            "clock time passes between records: slow steps may be hidden"
        )
        yield Problem("rates-contradict-clock", sentence)


def _between(log: ParsedLog, typical: float) -> str:
    batch = log.global_batch
    if batch is not None and log.records.step_time_s is None:
        return (
            f"the clock time between two records is {typical:.3g} times the time computed from their rate and a global "
            f"batch of {batch}: the rate, batch, number of devices or steps is wrong"
        )
    return f"the clock time between two records is {typical:.3g} times the time that the records report"


def with_varying_work(log: ParsedLog) -> ParsedLog:
    """Return the log with the work of each record, rate x time, if that of a step varies: padding, packing, a ramp.

    The time is the printed one of a step, else that of the clock since the record before. Equal steps have a low rate
    where they take long; where both rise, a step that takes longer does more, and its rate counts for more work.
    """
    records = log.records
    is_of_records = log.meaning is Meaning.INTERVAL and records.average_rate is None and log.own_run is None
    is_counted = records.samples is not None or records.consumed is not None or log.counts_samples
    if records.rate is None or is_counted or not is_of_records or not _varies(log):
        return log
    samples = Column()
    for start in range(0, records.count, _BLOCK):
        stop = min(start + _BLOCK, records.count)
        samples.append(records.rate.array(start, stop) * _seconds(log, start, stop))
    sentence = (
        "lines with a higher rate took longer, so the work of a step varies (as with padding, packing or a ramp of the "
        "batch): each line counts by its rate x time"
    )
    problem = Problem(WORK_VARIES, sentence, Severity.NOTE)
    return replace(log, records=replace(records, samples=samples), problems=(*log.problems, problem))


def _varies(log: ParsedLog) -> bool:
    """Return whether rate and time of the first records show that they are of different work."""
    records = log.records
    assert records.rate is not None
    stop = min(_HEAD, records.count)
    rate, seconds = records.rate.array(0, stop), _seconds(log, 0, stop)
    known = (rate > 0) & (seconds >= 0) & np.isfinite(rate * seconds)
    if np.count_nonzero(known) < _FEWEST_VARYING:
        return False
    rate, seconds = rate[known], seconds[known]
    took = np.minimum(seconds, _PAUSE * median(seconds))
    if not took.sum() > 0 or abs((rate * took).sum() / took.sum() * (1 / rate).mean() - 1) <= _WORK_MATTERS:
        return False
    higher, longer = np.log(rate) - np.log(rate).mean(), took / took.mean() - 1
    square = (higher**2).sum()
    slope = (higher * longer).sum() / square
    left = longer - slope * higher
    return bool(slope > _SURELY * np.sqrt((left**2).sum() / (len(left) - 2) / square))


def _seconds(log: ParsedLog, start: int, stop: int) -> Floats:
    """Return the time of all steps of the records ``start`` … ``stop``; NaN where it is unknown."""
    records = log.records
    if records.step_time_s is not None:
        times = records.step_time_s.array(start, stop)
        if records.step is None:
            return times
        from_zero = counts_from_zero(records)
        return times * steps_covered(records.step, start, stop, log.step_interval, from_zero=from_zero)
    if records.clock_s is None:
        return np.full(stop - start, np.nan)
    first = max(start - 1, 0)
    passed = differences(records.clock_s.array(first, stop))
    if records.epoch is not None:
        passed = np.where(differences(records.epoch.array(first, stop)) == 0, passed, np.nan)
    return passed if start else np.concatenate(([np.nan], passed))
