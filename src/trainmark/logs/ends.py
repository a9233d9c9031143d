"""Start and end of a log: the outcome of the run, the cause of an early end, and problems for missing parts."""

import re
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from trainmark.logs.format import Format, LogContext
from trainmark.logs.gathering import TAIL_BYTES, LogCollector
from trainmark.logs.literals import can_match
from trainmark.logs.model import EndState, Facts, ParsedLog, Problem, Records, Severity, Status
from trainmark.logs.rank_records import Counters
from trainmark.logs.restarts import restart_problem

_NO_END = "the log ends before the run does"
NO_START = "the start of the log is missing (the program prints its settings there)"
"""Also for an excerpt whose first record is not of the first steps."""
_COMMA = re.compile(rb"(?<=\d),(?=\d)")
_OOM = re.compile(
    rb"CUDA out of memory|CUDA error: out of memory|OutOfMemoryError|RESOURCE_EXHAUSTED|ResourceExhaustedError"
    rb"|cudaMalloc failed: out of memory|CUDA_ERROR_OUT_OF_MEMORY|Out of memory error on GPU|ResourceExhausted:"
    rb"|CUDNN_STATUS_ALLOC_FAILED|std::bad_alloc|oom-kill|Cannot allocate memory|\bMemoryError\b|Killed process \d+"
    rb"|\"outcome\": ?\"oom\"|DefaultCPUAllocator: not enough memory|(?<!ran )out of memory"
)
_HARMLESS_OOM = re.compile(rb"not a failure|could be performance gains", re.IGNORECASE)
_FAILURE = re.compile(
    rb"Traceback \(most recent call last\)|Segmentation fault|core dumped|Fatal Python error|terminate called after"
    rb"|returned a non-zero exit code|exited on signal \d+|ChildFailedError|srun: error|ABORT NOW|FatalError:"
    rb"|\"outcome\": ?\"(?:failed|timeout|invalid)\"|NCCL error in|slurmstepd: error"
)
_ON_PURPOSE = re.compile(rb"KeyboardInterrupt|Terminating with signal 15|SIGTERM|SIGINT")


class FailureKind(StrEnum):
    """Cause of an early end of a run."""

    OOM = "oom"
    ERROR = "error"
    STOPPED = "stopped"


class RunFailure(NamedTuple):
    """The cause of an early end, and the log line that shows it."""

    kind: FailureKind
    line: str


def unknown_format_log(collected: LogCollector, name: str, facts: Facts) -> ParsedLog:
    """Return the result for a text of no known format, which may still show that a program crashed."""
    failure = find_failure(collected.tail)
    problem = Problem(
        "unknown-format",
        "no line matches a known log format (see trainmark parse --list-formats); --format FILE.yaml reads it by a "
        "description of its lines (docs/how-to/describe-a-log.md)",
    )
    if failure is None or failure.kind is FailureKind.STOPPED:
        return ParsedLog(log=name, status=Status.UNKNOWN, facts=facts, problems=(problem,))
    status = Status.OOM if failure.kind is FailureKind.OOM else Status.FAILED
    return ParsedLog(log=name, status=status, facts=facts, problems=(_failure_problem(failure), problem))


def run_outcome(
    collected: LogCollector,
    known: Format,
    records: Records,
    counters: Counters,
    end_state: EndState,
    failure: RunFailure | None,
    figures: dict[str, float],
) -> tuple[Status, list[Problem]]:
    """Return the outcome of the run, and problems that show that the records are not those of one run."""
    if failure is not None and failure.kind is FailureKind.OOM and end_state is not EndState.FOUND:
        return Status.OOM, [_failure_problem(failure)]
    if failure is not None and failure.kind is FailureKind.ERROR and end_state is not EndState.FOUND:
        return Status.FAILED, [_failure_problem(failure)]
    if counters.starts:
        runs = len(counters.starts) + 1
        where = ", ".join(str(start + 1) for start in counters.starts[:3])
        sentence = (
            f"the counters restart at record {where}: the file contains {runs} runs (or ranks); split it"
        )
        return Status.INVALID, [Problem("several-runs", sentence)]
    if not records.count and not figures:
        return Status.INCOMPLETE, [
            Problem("no-records", known.without_records + _because_of_commas(known, collected))
        ]
    problems = []
    averaged = records.average_rate is not None or records.average_time_s is not None
    if counters.copies == 1 and counters.repeated and not averaged:
        sentence = (
            f"{counters.repeated} records repeat a counter (skipped optimizer updates); their work is counted"
        )
        problems.append(Problem("counter-repeats", sentence, Severity.NOTE))
    if counters.restarts:
        counted = "sample" if known.counts_samples else "step"
        problems.append(restart_problem(records, counters.restarts, counted))
    elif counters.copies == 1 and counters.backwards:
        problems.append(
            Problem("counter-backwards", f"the counters decrease at {counters.backwards} records")
        )
    return Status.OK, problems


def _because_of_commas(known: Format, collected: LogCollector) -> str:
    """Return an explanation if the lines would be records without the commas in their numbers (``14,8861``)."""
    head = bytes(collected.head)
    patterns = [pattern for pattern in known.records if not pattern.search(head)]
    if any(pattern.search(_COMMA.sub(b".", head)) for pattern in patterns):
        return ": its numbers have decimal commas, which the program does not print; replace them by decimal points"
    return ""


def end_problems(
    end_state: EndState,
    failure: RunFailure | None,
    collected: LogCollector,
    damage: str | None,
    status: Status,
) -> list[Problem]:
    """Return the problems of a missing or unknown end of the log."""
    problems = []
    if damage:
        problems.append(Problem("incomplete", damage))
    elif end_state is EndState.MISSING and failure is not None and failure.kind is FailureKind.STOPPED:
        end_state = EndState.STOPPED
    if end_state is EndState.MISSING and status is Status.OK:
        problems.append(Problem("incomplete", _NO_END, Severity.NOTE))
    elif end_state is EndState.STOPPED:
        sentence = "the run was stopped by a signal before it was complete"
        problems.append(Problem("incomplete", sentence, Severity.NOTE))
    elif end_state is EndState.UNKNOWN:
        sentence = "the log may be incomplete: this format does not print when a run is complete"
        problems.append(Problem("incomplete", sentence, Severity.NOTE))
    if collected.tail_is_open and end_state is EndState.FOUND:
        sentence = "the last line has no line end: the log may be truncated there"
        problems.append(Problem("incomplete", sentence, Severity.NOTE))
    return problems


def start_problems(known: Format, context: LogContext, records: Records) -> list[Problem]:
    """Return the note of a missing start of the log."""
    if known.header is not None:
        missing = known.header.search(context.text) is None
    else:
        first = records.step.array(0, 1) if records.step is not None and records.count else np.zeros(1)
        missing = bool(first[0] > 2 * context.step_interval)
    return [Problem("incomplete", NO_START, Severity.NOTE)] if missing else []


def merge_missing_ends(start: list[Problem], end: list[Problem]) -> list[Problem]:
    """Return the problems of both ends of the log, merged into one if both ends are missing."""
    if not start or not any(problem.message == _NO_END for problem in end):
        return [*end, *start]
    sentence = (
        "the start of the log (the program prints its settings there) and the end of the run are missing"
    )
    note = Problem("incomplete", sentence, Severity.NOTE)
    return [note, *(problem for problem in end if problem.message != _NO_END)]


def _failure_problem(failure: RunFailure) -> Problem:
    words = {FailureKind.OOM: "the run ran out of memory", FailureKind.ERROR: "the run ended with an error"}
    code = "out-of-memory" if failure.kind is FailureKind.OOM else "failed"
    return Problem(code, f"{words.get(failure.kind, 'the run was stopped')}: {failure.line}")


def after_last_record(known: Format, collected: LogCollector) -> bytes:
    """Return the log's tail after its last record, where a crashed program prints its error."""
    last = 0
    for pattern in known.records[collected.pattern : collected.pattern + 1]:
        for match in pattern.finditer(collected.tail):
            last = match.end()
    if not last and collected.total_bytes <= TAIL_BYTES:
        return collected.tail
    return collected.tail[last:]


def find_failure(after_last_record: bytes) -> RunFailure | None:
    """Return the cause of an early end, from the text after the last record; ``None`` if none is printed.

    An allocator's warning that is "not a failure" (TensorFlow) does not count.
    """
    for match in _OOM.finditer(after_last_record) if can_match(_OOM, after_last_record) else ():
        line = _line(after_last_record, match.start())
        if not _HARMLESS_OOM.search(line):
            return RunFailure(FailureKind.OOM, _shown(line))
    stopped = _ON_PURPOSE.search(after_last_record)
    failure = None if stopped else _last_failure(after_last_record)
    if failure is not None:
        return RunFailure(FailureKind.ERROR, failure)
    return (
        RunFailure(FailureKind.STOPPED, _shown(_line(after_last_record, stopped.start())))
        if stopped
        else None
    )


def _last_failure(text: bytes) -> str | None:
    match = _FAILURE.search(text) if can_match(_FAILURE, text) else None
    if match is None:
        return None
    if match[0].startswith(b"Traceback"):
        # The error's own line is the first one that is not indented after the traceback.
        error = re.search(rb"\n(\w[\w.]*(?:Error|Exception|Interrupt|Exit)\b[^\n]*)", text[match.end() :])
        if error:
            return _shown(error[1])
    return _shown(_line(text, match.start()))


def _line(text: bytes, at: int) -> bytes:
    end = text.find(b"\n", at)
    return text[text.rfind(b"\n", 0, at) + 1 : end if end >= 0 else len(text)]


def _shown(line: bytes) -> str:
    return " ".join(line.decode("utf-8", "replace").split())[:160]
