"""Plausibility checks of a parsed log, made before a number is computed from it.

Each module checks one kind of contradiction (``counting``, ``step_timing``, ``pairs``, ``totals``, …) and
returns problems: a code, a sentence with the effect on the number, and a severity.
"""

from collections.abc import Iterator
from dataclasses import replace

from trainmark.logs.model import ParsedLog, Problem, Status
from trainmark.logs.plausibility.bounds import impossible_counts, impossible_times, non_numeric_speeds
from trainmark.logs.plausibility.counting import missing_and_duplicate_records
from trainmark.logs.plausibility.names import weigh_name_hints
from trainmark.logs.plausibility.pairs import contradictory_records
from trainmark.logs.plausibility.step_timing import Stall, stalls, timing_problems
from trainmark.logs.plausibility.totals import totals_disagree

__all__ = ["Stall", "check_plausibility", "stalls"]


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
    if log.records.count < 2:
        if log.records.step is not None and not log.witnesses and not log.figures.get("summary"):
            sentence = "the number rests on a single record, so its reliability cannot be estimated"
            yield Problem("few-records", sentence)
        return
    yield from missing_and_duplicate_records(log)
    yield from timing_problems(log)
    yield from contradictory_records(log)
    yield from totals_disagree(log)
