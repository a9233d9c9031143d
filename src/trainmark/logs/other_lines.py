"""The lines of a log that are no records: its start and end, and those of other runs and programs.

They give the outcome of the run, the cause of an early end, and problems: for missing parts, for records that are lost
or of another run, and for misread ones.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from trainmark.logs.format import Format, LogContext, parse_positive
from trainmark.logs.lines.fields import STAMP
from trainmark.logs.lines.literals import VARYING, can_match, required_all
from trainmark.logs.lines.suffixes import SUFFIX
from trainmark.logs.model import (
    SEVERAL_RUNS,
    EndState,
    Facts,
    ParsedLog,
    Problem,
    Records,
    Severity,
    Status,
)
from trainmark.logs.records import TAIL_BYTES, Counters, LogCollector
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
_WORDS = {
    "nodes": "{} nodes",
    "gpus": "{} devices",
    "gpus_per_node": "{} devices per node",
    "batch_per_device": "a batch of {} per device",
    "global_batch": "a batch of {} over all devices",
    "accumulation": "{} micro-batches per step",
    "precision": "{}",
}
_SAME_RESULT = 0.005
"""Difference between two prints of one result, which may be rounded."""
_FEWEST_OTHERS = 2
_FEW = 4
_SMALL_BYTES = 1 << 14
"""A text of this size is searched whole first, as it was when its format was looked for."""
_CHECKED_BYTES = 1 << 15
"""Bytes at either end of the log that are checked."""
_FIGURES = ("rate", "average_rate", "step_time_s", "step_time_ms", "average_time_s", "average_time_ms")
_MORE_DIGITS = re.compile(rb"(?:[ '_]|\xc2\xa0|\xe2\x80\x89|\xe2\x80\xaf)\d{3}(?!\d)")
"""After one to three digits: the number continues in groups of three."""
_OTHER_UNIT = re.compile(rb",\d|[kKMG](?![A-Za-z])")
"""After any number: it continues after a comma, or counts thousands."""
_VALUES = re.compile(rb"[-+\d.eE]*(?:,[-+\d.eE]*){2,}")
"""A line of a table: numbers between commas, of which none is a decimal comma."""
_LETTER_AFTER_STAMP = re.compile(rb"^(?:" + STAMP + rb")?.*?[A-Za-z]")
"""What a line needs to resemble a record: after a date there are rulers and empty lines too."""
_KINDS = 8
"""Most kinds of record lines: with more, other lines that begin like them prove nothing."""
_GROUP = 3
"""Digits between thousands separators."""
_MANY = 0.02
_FEWEST = 3


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
        "no line matches a known log format (see trainmark parse --list-formats); trainmark parse --format FILE.yaml "
        "reads it by a description of its lines (docs/how-to/describe-a-log.md)",
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


def conflicting_facts(known: Format, pattern: int, context: LogContext, later: bytes) -> Iterator[Problem]:
    """Yield a doubt if two parts of the text report different facts of the run.

    These are the text before and after the first record (the first result, of a program without records), and that
    before and after the last start before it: an attempt may have had another batch. ``pattern`` is the index of the
    format's record pattern; ``later`` is the text of another start of a log, further down than the context reaches.
    """
    record = known.records[pattern] if known.records else known.figures.get("summary")
    first = record.search(context.head) if record is not None and known.own_run is None else None
    if record is None or first is None:
        return
    head = context.head[: first.start()]
    starts = [start.start() for start in known.header.finditer(head)] if known.header is not None else []
    rest = record.sub(b"", context.text[first.start() :])
    parts = [("after its first records", head, text) for text in (rest, later) if text]
    if len(starts) > 1:
        parts.append(("at its next start", head[: starts[-1]], head[starts[-1] :]))
    for place, text, other_text in parts:
        other = known.facts(replace(context, head=other_text, tail=b"", text=other_text))
        if all(getattr(other, name) is None for name in _WORDS):
            continue
        one = known.facts(replace(context, head=text, tail=b"", text=text))
        for name, words in _WORDS.items():
            values = getattr(one, name), getattr(other, name)
            if None not in values and values[0] != values[1]:
                sentence = (
                    f"the log reports {words.format(values[0])}, and {place} {words.format(values[1])}: it contains "
                    "two different runs, and the number uses the settings of the first; split the file"
                )
                yield Problem(SEVERAL_RUNS, sentence)
                return


def second_start(known: Format, pattern: int, records: Records, context: LogContext) -> Iterator[Problem]:
    """Yield a doubt if a program whose counters do not show it starts again after its first record, or result.

    ``pattern`` is the index of the format's record pattern. The text of several ranks is not in the order of time.
    A format with headings has a doubt of its own for this: Keras may train several times in a run.
    """
    if known.header is None or known.heading is not None or context.ranks > 1:
        return
    if known.records and _counts_runs(known.records[pattern], records):
        return
    of_run = known.records[pattern] if known.records and records.count else known.figures.get("summary")
    if of_run is None or (known.own_run or known.computed_figures) is not None:
        return
    first = of_run.search(context.text)
    starts = [start.start() for start in known.header.finditer(context.text)] if first else []
    if first and starts and starts[0] < first.start() < starts[-1]:
        covers = "covers several runs" if records.count else "is that of the last run"
        sentence = f"the program starts again after its first {'record' if records.count else 'result'}: "
        yield Problem(SEVERAL_RUNS, f"{sentence}the number {covers}; split the file")


def _counts_runs(record: re.Pattern[bytes], records: Records) -> bool:
    """Return whether the counters of ``records`` begin again with a run only: not for epochs that no line prints."""
    if records.epoch is not None:
        return "epoch" in record.groupindex
    return records.step is not None or records.consumed is not None


def conflicting_results(known: Format, records: Records, tail: bytes) -> Iterator[Problem]:
    """Yield a doubt if a program that prints its result once per run printed two different results.

    For programs with records the number does not come from the result, except for trainmark runs.
    """
    summary = known.figures.get("summary")
    if (records.count and known.own_run is None) or summary is None or not can_match(summary, tail):
        return
    values = [value for word in summary.findall(tail) if (value := parse_positive(word)) is not None]
    if values and max(values) > min(values) * (1 + _SAME_RESULT):
        sentence = (
            f"the log contains {len(values)} results of the program, from {min(values):.6g} to {max(values):.6g}: "
            "the file contains several runs, and the last result is used; split it"
        )
        yield Problem(SEVERAL_RUNS, sentence)


def other_format_problems(collected: LogCollector) -> list[Problem]:
    """Return a problem if either end of the log has records of another program."""
    known = collected.format
    assert known is not None
    if known.accompanies:
        return _around_harness(known, collected)
    ends = {"beginning": bytes(collected.head), "end": collected.tail}
    if ends["beginning"] == ends["end"]:
        del ends["end"]  # a short log, which is both
    for place, whole in ends.items():
        if len(whole) <= _SMALL_BYTES:
            candidates = [other for other in _others(collected, whole) if _may_be_in(other, whole)]
            if not candidates:
                continue
            text = _few_of_each(whole)
        else:
            text = _few_of_each(whole)
            candidates = _others(collected, text)
        others = [other for other in candidates if _may_be_in(other, text)]
        rest = _without(known, text) if others else b""
        for other in others:
            if _trains_in(other, rest) or (not _share_trainer(other, known) and _is_in(other, rest)):
                return [_other_records(place, other)]
    return []


def _share_trainer(other: Format, known: Format) -> bool:
    """Return whether the results of ``other`` may be of the same run: both programs' trainer prints them."""
    return (other.built_on or other.name) == (known.built_on or known.name)


def _around_harness(harness: Format, collected: LogCollector) -> list[Problem]:
    """Return a problem if another program trains before the first line of ``harness``, or after its last one.

    A program that runs in the harness prints its records between them, and perhaps its results after them.
    """
    head, tail = bytes(collected.head), collected.tail
    first, last = harness.mark.search(head), list(harness.mark.finditer(tail))[-1:]
    ends = {
        "beginning": head[: first.start()] if first else head,
        "end": tail[last[0].end() :] if last else tail,
    }
    for place, whole in ends.items():
        text = _few_of_each(whole)
        for other in collected.formats.candidates(text) if text else ():
            if other.accompanies or not _may_be_in(other, text):
                continue
            # Results after the harness's last line are of a program that ran in it.
            if _trains_in(other, text) or (place == "beginning" and _is_in(other, text)):
                return [_other_records(place, other)]
    return []


def _other_records(place: str, other: Format) -> Problem:
    sentence = f"the {place} of the file has records of another format, {other.name}: split it"
    return Problem("several-formats", sentence)


def _others(collected: LogCollector, text: bytes) -> list[Format]:
    """Return the formats of other programs that ``text`` may have."""
    candidates = collected.formats.candidates(text)
    return [other for other in candidates if other is not collected.format and not other.accompanies]


def _few_of_each(text: bytes) -> bytes:
    """Return the lines of ``text``, but of lines that differ only in their numbers only the first few."""
    counts: Counter[bytes] = Counter()
    chosen = []
    if len(text) > _SMALL_BYTES:
        from trainmark.logs.lines.shapes import few_of_each

        text = few_of_each(text, _FEW)  # first, because checking each line costs more
    for line, kind in zip(text.split(b"\n"), text.translate(None, VARYING).split(b"\n"), strict=True):
        counts[kind] += 1
        if counts[kind] <= _FEW:
            chosen.append(line)
    return b"\n".join(chosen)


def _without(known: Format, text: bytes) -> bytes:
    """Return ``text`` without the records of ``known``."""
    for pattern in known.records:
        text = pattern.sub(b"", text)
    if known.extract is not None:
        text = b"\n".join(line for line in text.split(b"\n") if not known.mark.search(line))
    return text


def _may_be_in(other: Format, text: bytes) -> bool:
    patterns = (*other.records, *other.figures.values(), *([other.mark] if other.extract else []))
    return any(can_match(pattern, text) for pattern in patterns)


def _is_in(other: Format, text: bytes) -> bool:
    """Return whether ``text`` contains two records of ``other``, or a result that it prints."""
    results = (figure.search(text) for figure in other.figures.values() if can_match(figure, text))
    return (other.extract is None and any(results)) or _trains_in(other, text)


def _trains_in(other: Format, text: bytes) -> bool:
    """Return whether ``text`` contains two records of ``other``."""
    if other.extract is not None:
        return other.mark.search(text) is not None and bool(other.extract(text).columns)
    return any(
        can_match(pattern, text) and len(pattern.findall(text)) >= _FEWEST_OTHERS for pattern in other.records
    )


def find_rejected_lines(known: Format, pattern: int, head: bytes, tail: bytes) -> Iterator[Problem]:
    """Yield doubts about numbers read only in part and record-like lines not read, at either end of a log.

    ``pattern`` is the index of the format's record pattern.
    """
    # The two ends of a short log are one text.
    ends = tuple(dict.fromkeys((head[:_CHECKED_BYTES], tail[-_CHECKED_BYTES:])))
    expressions = [*known.records[pattern : pattern + 1]]
    if summary := known.figures.get("summary"):
        expressions.append(summary)
    for expression in expressions:
        found = next((cut for text in ends for cut in _cut_numbers(expression, text)), None)
        if found is not None:
            sentence = f"some numbers are read only in part ({found}): write them with a decimal point only"
            yield Problem("numbers-cut", sentence)
    for expression in known.records[pattern : pattern + 1]:
        counts = [_count_skipped(expression, text) for text in ends]
        skipped, read = max(counts, key=lambda count: count[0] / max(sum(count), 1))
        if skipped >= _FEWEST and skipped > _MANY * (skipped + read):
            sentence = (
                f"{skipped} of {skipped + read} lines at one end of the log begin like records but cannot be read: "
                "they were truncated, wrapped or written in another locale, and do not count in the number"
            )
            yield Problem("records-passed-over", sentence)


def _cut_numbers(expression: re.Pattern[bytes], text: bytes) -> Iterator[str]:
    """Yield the numbers in ``text`` of which ``expression`` reads only the first part."""
    numbers = expression.groupindex
    # A number whose unit is read too is whole.
    names = [name for name in _FIGURES if name in numbers and name + SUFFIX not in numbers]
    groups = [numbers[name] for name in names] if numbers else [1]
    for match in expression.finditer(text):
        for group in groups:
            word, end = match[group], match.end(group)
            if not word:
                continue
            short = word.isdigit() and len(word) <= _GROUP
            more = (short and _MORE_DIGITS.match(text, end)) or _OTHER_UNIT.match(text, end)
            if more and not _VALUES.fullmatch(_line_at(text, end)):
                yield text[match.start(group) : more.end()].decode("utf-8", "replace")


def _line_at(text: bytes, place: int) -> bytes:
    end = text.find(b"\n", place)
    return text[text.rfind(b"\n", 0, place) + 1 : len(text) if end < 0 else end].rstrip(b"\r")


def _count_skipped(expression: re.Pattern[bytes], text: bytes) -> tuple[int, int]:
    """Return how many lines of ``text`` resemble records but do not match ``expression``, and how many match.

    A line resembles a record if it ends early, or has commas in place of points.
    """
    words = required_all(expression)
    if not words:
        return 0, 0
    word = max(words, key=len)
    lines = [line for line in text.split(b"\n")[1:-1] if word in line]  # the first and last may be incomplete
    ours = {line for line in lines if expression.search(line + b"\n")}
    whole = {line.translate(None, VARYING) for line in ours}
    others = [line for line in lines if line not in ours]
    others = [line.translate(None, VARYING) for line in others if _LETTER_AFTER_STAMP.match(line)]
    skipped = (
        sum(1 for other in others if any(_is_part(other, one) for one in whole))
        if len(whole) <= _KINDS
        else 0
    )
    return skipped, sum(line in ours for line in lines)


def _is_part(line: bytes, whole: bytes) -> bool:
    is_cut = line != whole and whole.startswith(line)
    return is_cut or (b"," in line and line.replace(b",", b"") == whole.replace(b",", b""))
