"""How a log begins and ends: the outcome that it tells, and what of it is not there."""

import re

import numpy as np

from trainmark.logs.counters import Counters
from trainmark.logs.format import Format, LogContext
from trainmark.logs.gathering import TAIL_BYTES, Gathering
from trainmark.logs.model import Ending, Facts, ParsedLog, Problem, Records, Severity, Status
from trainmark.logs.restarts import about_restarts
from trainmark.logs.trouble import Death, Trouble, find_trouble

_NO_END = "the log is incomplete: the end of the run is not in it"
_COMMA = re.compile(rb"(?<=\d),(?=\d)")


def of_no_format(seen: Gathering, name: str, facts: Facts) -> ParsedLog:
    """Conclude of a text that no format knows: it may still say that a program died."""
    trouble = find_trouble(seen.tail)
    problem = Problem("unknown-format", "no line is of a known format (trainmark parse --list-formats)")
    if trouble is None or trouble.death is Death.STOPPED:
        return ParsedLog(log=name, status=Status.UNKNOWN, facts=facts, problems=(problem,))
    status = Status.OOM if trouble.death is Death.OOM else Status.FAILED
    return ParsedLog(log=name, status=status, facts=facts, problems=(_death(trouble), problem))


def outcome_of(
    seen: Gathering,
    known: Format,
    records: Records,
    counters: Counters,
    ending: Ending,
    trouble: Trouble | None,
    figures: dict[str, float],
) -> tuple[Status, list[Problem]]:
    """Return how the run ended, and what about its records speaks against their being one run."""
    if trouble is not None and trouble.death is Death.OOM and ending is not Ending.SEEN:
        return Status.OOM, [_death(trouble)]
    if trouble is not None and trouble.death is Death.ERROR and ending is not Ending.SEEN:
        return Status.FAILED, [_death(trouble)]
    if counters.starts:
        runs = len(counters.starts) + 1
        where = ", ".join(str(start + 1) for start in counters.starts[:3])
        sentence = (
            f"the counters start anew at record {where}: the file holds {runs} runs (or ranks); split it"
        )
        return Status.INVALID, [Problem("several-runs", sentence)]
    if not records.count and not figures:
        return Status.INCOMPLETE, [
            Problem("no-records", known.without_records + _because_of_commas(known, seen))
        ]
    problems = []
    averaged = records.average_rate is not None or records.average_time_s is not None
    if counters.copies == 1 and counters.repeated and not averaged:
        sentence = f"{counters.repeated} records repeat a counter (a skipped update did its work): they count"
        problems.append(Problem("counter-repeats", sentence, Severity.NOTE))
    if counters.restarts:
        counted = "sample" if known.counts_samples else "step"
        problems.append(about_restarts(records, counters.restarts, counted))
    elif counters.copies == 1 and counters.backwards:
        problems.append(
            Problem("counter-backwards", f"the counters run backwards at {counters.backwards} records")
        )
    return Status.OK, problems


def _because_of_commas(known: Format, seen: Gathering) -> str:
    """Say so where the lines would be records but for the commas in their numbers (``14,8861``)."""
    if any(pattern.search(_COMMA.sub(b".", bytes(seen.head))) for pattern in known.records):
        return ": its numbers are written with commas, which the program does not print; write them with a point alone"
    return ""


def about_the_end(
    ending: Ending, trouble: Trouble | None, seen: Gathering, damage: str | None, status: Status
) -> list[Problem]:
    """Say what of the log's end is not there."""
    problems = []
    if damage:
        problems.append(Problem("incomplete", damage))
    elif ending is Ending.MISSING and trouble is not None and trouble.death is Death.STOPPED:
        ending = Ending.STOPPED
    if ending is Ending.MISSING and status is Status.OK:
        problems.append(Problem("incomplete", _NO_END))
    elif ending is Ending.STOPPED:
        sentence = "the log is incomplete: the run was stopped from outside before its end"
        problems.append(Problem("incomplete", sentence, Severity.NOTE))
    elif ending is Ending.UNKNOWABLE:
        sentence = "the log may be incomplete: this format does not print where the run was to end"
        problems.append(Problem("incomplete", sentence, Severity.NOTE))
    if seen.tail_is_open and ending is Ending.SEEN:
        sentence = "the last line has no end: the log may be incomplete there"
        problems.append(Problem("incomplete", sentence, Severity.NOTE))
    return problems


def about_the_start(known: Format, context: LogContext, records: Records) -> list[Problem]:
    """Say whether the log's beginning is not there."""
    severity = Severity.NOTE
    if known.header is not None:
        missing = known.header.search(context.text) is None
        # The first records are then none of the warm-up, and nothing can be held against the settings.
        if records.rate is not None or records.step_time_s is not None:
            severity = Severity.DOUBT
    else:
        first = records.step.array(0, 1) if records.step is not None and records.count else np.zeros(1)
        missing = bool(first[0] > 2 * context.step_interval)
    sentence = "the log is incomplete: its beginning, where the program prints its settings, is not in it"
    return [Problem("incomplete", sentence, severity)] if missing else []


def what_is_missing(start: list[Problem], end: list[Problem]) -> list[Problem]:
    """Return both problems, or one that says both where neither end of the log is there."""
    if not start or not any(problem.message == _NO_END for problem in end):
        return [*end, *start]
    sentence = (
        "the log is incomplete: neither its beginning, where the program prints its settings, nor the end of the run "
        "is in it"
    )
    return [Problem("incomplete", sentence), *(problem for problem in end if problem.message != _NO_END)]


def _death(trouble: Trouble) -> Problem:
    words = {Death.OOM: "the run ended out of memory", Death.ERROR: "the run ended in an error"}
    code = "out-of-memory" if trouble.death is Death.OOM else "failed"
    return Problem(code, f"{words.get(trouble.death, 'the run was stopped')}: {trouble.line}")


def after_last_record(known: Format, seen: Gathering) -> bytes:
    """Return the log's tail behind its last record: where a program says how it died."""
    last = 0
    for pattern in known.records[seen.pattern : seen.pattern + 1]:
        for match in pattern.finditer(seen.tail):
            last = match.end()
    if not last and seen.total_bytes <= TAIL_BYTES:
        return seen.tail
    return seen.tail[last:]
