"""Time that passes between the steps which a program times: its printed times against the clock of the same records.

A program may stop its timer before it prints, logs or fetches the next batch (torchvision's references leave out the
printing of each line). The throughput is work over wall time, so that time belongs to it. A pause for a validation or a
checkpoint does not: it is rare, and much longer than what usually lies between two records.
"""

from dataclasses import dataclass, replace

import numpy as np

from trainmark.logs.intervals import MATTERS, intervals
from trainmark.logs.model import MOST_OF_A_NOTE, Floats, ParsedLog, Problem, Severity, Witness, median
from trainmark.measure.rules.catalog import disagreement
from trainmark.measure.rules.model import RuleKind, RuleResult

_PAUSE, _SHORTEST_S = 0.5, 1.0
"""A pause takes at least this share of the time that its record prints, and a second: a shorter one is a stall,"""
_OUTLIER = 8 * 1.4826
"""and exceeds the usual time between two records by so many median absolute deviations."""
_MOST_BY_RATE = 0.2
"""The largest share of untimed steps for a printed rate: a greater one is rather a mistake about the batch."""
_FEWEST = 5
_MOST_PAUSES = 0.1
"""A larger share of records with a pause is rather a wait for data, or a step that is slow each time."""
_DISAGREE = "witnesses-disagree"
_STAMPS = "time stamps"
_BY_OTHER_TIMES = frozenset({_STAMPS, "program's summary"})


@dataclass(frozen=True, slots=True)
class Untimed:
    """The seconds of the same records by their printed times and by the clock, without ``pauses``.

    The pauses took ``paused_s`` more than their records print; ``intervals`` counts the records without them. With them
    the clock's time is ``window_s``. ``longest_s`` is the most by which the clock exceeds one of the other records.
    """

    printed_s: float
    clock_s: float
    intervals: int
    pauses: int
    paused_s: float
    window_s: float
    longest_s: float

    @property
    def share(self) -> float:
        """By which share of the wall time the printed times are too short; negative if they are too long."""
        return 1 - self.printed_s / self.clock_s


def untimed(log: ParsedLog, skipped: int) -> Untimed | None:
    """Return the time that the records after the first ``skipped`` leave out; both times are equal if it is negligible.

    None if the number is already that of the clock, or if the records have no times that can be compared with one.
    """
    if log.uses_clock or log.records.clock_s is None or log.own_run is not None:
        return None
    printed, clock, parts, slack_s = _same_records(log, max(skipped, 1))
    if len(printed) < _FEWEST or not printed.sum() > 0:
        return None
    between = clock - printed
    usual = median(between)
    far = _OUTLIER * median(np.abs(between - usual)) + 2 * log.clock_resolution_s
    paused = between > usual + np.maximum(max(far, _SHORTEST_S), _PAUSE * printed)
    found = Untimed(
        printed_s=float(printed[~paused].sum()),
        clock_s=float(clock[~paused].sum()),
        intervals=int(np.count_nonzero(~paused)),
        pauses=int(np.count_nonzero(paused)),
        paused_s=float(between[paused].sum()),
        window_s=float(clock.sum()),
        longest_s=float(between[~paused].max(initial=0.0)),
    )
    ends_s = (parts + found.pauses) * log.clock_resolution_s + slack_s
    by_rate = log.records.step_time_s is None and log.records.average_time_s is None
    if not found.clock_s > 0 or (by_rate and abs(found.share) > _MOST_BY_RATE):
        return None
    # Digits or clock are too coarse to tell such a difference.
    return (
        found
        if abs(found.share) > MATTERS + ends_s / found.clock_s
        else replace(found, clock_s=found.printed_s)
    )


def _same_records(log: ParsedLog, skipped: int) -> tuple[Floats, Floats, int, float]:
    """Return the seconds of each record by its figures and by the clock, of records that have both.

    Also the number of stretches of such records without one that lacks either, and the most that the digits of averages
    may change the first sum.
    """
    printed, clock, parts, slack_s = [], [], 0, 0.0
    for block in intervals(log):
        if not block.absolute:
            return np.empty(0), np.empty(0), 0, 0.0
        good = (block.own > 0) & (block.clock_s >= 0) & (block.records > skipped)
        parts += int(np.count_nonzero(np.diff(good.astype(np.int8), prepend=0) > 0))
        printed.append(block.own[good])
        clock.append(block.clock_s[good])
        slack_s = max(slack_s, float(block.slack[good].max(initial=0.0)))
    if not printed:
        return np.empty(0), np.empty(0), 0, 0.0
    return np.concatenate(printed), np.concatenate(clock), parts, slack_s


def by_wall_clock(log: ParsedLog, result: RuleResult, explained: int = 0) -> RuleResult:
    """Return the result of trainmark's own rule with the time that passes between the steps which ``log`` times.

    The clock is that of the records. ``explained`` is the number of pauses that the log has a reason for. Other rules
    are those of publishers, and stay as they are.
    """
    if result.value is None or result.rule != RuleKind.WINDOW:
        return result
    found = untimed(log, result.skipped)
    if found is None:
        return result
    pauses = _pauses(found, explained)
    if not found.share:
        return replace(result, problems=(*result.problems, *pauses), paused_s=found.paused_s)
    factor = found.printed_s / found.clock_s
    value = result.value * factor
    others = tuple(one for one in result.problems if one.code != _DISAGREE)
    witnesses = tuple(_scaled(one, factor) for one in result.witnesses)
    if len(others) < len(result.problems):
        reported = frozenset(one.code for one in (*log.problems_after(result.skipped), *others))
        # That of the stamps is by the median interval, and this number is already by them.
        by_others = tuple(one for one in witnesses if one.name != _STAMPS)
        others = (*others, *disagreement(log, value, by_others, reported))
    problems = (*others, _left_out(found, result.value), *pauses)
    return replace(
        result,
        value=value,
        problems=problems,
        witnesses=witnesses,
        printed=result.value,
        paused_s=found.paused_s,
    )


def _scaled(witness: Witness, factor: float) -> Witness:
    """Return a witness by the printed times as one by the clock."""
    if witness.name in _BY_OTHER_TIMES:
        return witness
    return witness._replace(value=witness.value * factor, how=f"{witness.how}, x {factor:.4g} by the clock")


def _left_out(found: Untimed, printed: float) -> Problem:
    times = f"{found.printed_s:.6g} s for {found.intervals} records, which took {found.clock_s:.6g} s by the clock"
    is_single = found.longest_s > _PAUSE * (found.clock_s - found.printed_s)
    why = (
        f"{found.longest_s:.3g} s of it before a single record, as by a stall or a short validation"
        if is_single
        else "such as printing or a wait for data"
    )
    cause = (
        f"the printed times leave out {found.share:.1%} of the window ({times}), {why}"
        if found.share > 0
        else f"the printed times are too long ({times})"
    )
    pauses = f" without {found.pauses} pauses of {found.paused_s:.3g} s in all" if found.pauses else ""
    sentence = f"{cause}: the number is by the clock{pauses}, by the printed times it is {printed:.6g}"
    return Problem("untimed", sentence, Severity.of_effect(found.share))


def _pauses(found: Untimed, explained: int) -> tuple[Problem, ...]:
    """Return the doubt about pauses that may be a part of training: frequent ones, or more than are ``explained``."""
    records, share = found.pauses + found.intervals, found.paused_s / found.window_s
    is_explained = found.pauses <= explained
    if share <= MOST_OF_A_NOTE or (is_explained and found.pauses <= _MOST_PAUSES * records):
        return ()
    unexplained = (
        "" if is_explained else ", and the log has no line about a validation or a checkpoint for each"
    )
    sentence = (
        f"before {found.pauses} of {records} records the program pauses, for {share:.0%} of the window, which its "
        f"times and the number leave out{unexplained}: if it waits for data or stalls there, the rate is {share:.0%} "
        "lower"
    )
    return (Problem("pauses", sentence),)
