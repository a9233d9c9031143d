"""Physics before belief: what a log says is held against what can be, before a number is made of it.

Each check looks at one way in which records cannot all be true (``counting``, ``pace``, ``totals``, ``bounds``,
``names``) and returns problems: a code, a sentence that says what it does to the number, and how much that weighs.
"""

from collections.abc import Iterator
from dataclasses import replace

from trainmark.logs.model import ParsedLog, Problem, Status
from trainmark.logs.plausibility.bounds import impossible_counts, impossible_times, unread_numbers
from trainmark.logs.plausibility.counting import lost_and_doubled
from trainmark.logs.plausibility.names import weigh_names
from trainmark.logs.plausibility.step_timing import Stall, stalls, unlikely_pace
from trainmark.logs.plausibility.totals import totals_disagree

__all__ = ["Stall", "checked", "stalls"]


def checked(log: ParsedLog) -> ParsedLog:
    """Return ``log`` with what cannot be true of it among its problems; memory does not grow with the log.

    A run of our own says its window itself and is judged by its own gates.
    """
    if log.status is not Status.OK or log.run_words is not None:
        return log
    log = replace(log, problems=weigh_names(log))
    said = {problem.code for problem in log.problems}
    more = tuple(problem for problem in _problems(log) if problem.code not in said)
    return replace(log, problems=(*log.problems, *more))


def _problems(log: ParsedLog) -> Iterator[Problem]:
    yield from impossible_counts(log.facts)
    yield from impossible_times(log.records)
    yield from unread_numbers(log.records)
    if log.records.count < 2:
        return
    yield from lost_and_doubled(log)
    yield from unlikely_pace(log)
    yield from totals_disagree(log)
