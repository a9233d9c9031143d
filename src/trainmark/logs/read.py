"""Reader of one log: recognise its format, collect its records in bulk, report the result; never raise for content."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from trainmark.logs.batches import count_batch
from trainmark.logs.facts import (
    Hints,
    MergedFacts,
    batch_of_sequences,
    merge_facts,
    read_hints,
    with_accumulation,
)
from trainmark.logs.format import (
    Format,
    GivenFormats,
    KnownFormats,
    LogContext,
    ProgramFormats,
    parse_positive,
)
from trainmark.logs.lines.literals import can_match
from trainmark.logs.lines.transport import (
    DamagedError,
    UnusableFileError,
    binary_kind,
    open_log,
    read_pieces,
    unpack,
)
from trainmark.logs.lines.wrapping import reads_times, unwrap
from trainmark.logs.model import (
    Column,
    EndState,
    Facts,
    Meaning,
    ParsedLog,
    Problem,
    Records,
    Status,
    rounding_of,
)
from trainmark.logs.other_lines import (
    after_last_record,
    conflicting_facts,
    conflicting_results,
    end_problems,
    find_failure,
    find_rejected_lines,
    merge_missing_ends,
    other_format_problems,
    run_outcome,
    second_start,
    start_problems,
    unknown_format_log,
)
from trainmark.logs.plausibility import check_plausibility, with_settled_meaning, with_varying_work
from trainmark.logs.records import HEAD_BYTES, Counters, LogCollector, Read, read_records

_LARGEST_BLOCK_BYTES = 30 << 20
_LONGEST_NUMBER = 10
_COUNTERS = 4096
"""Records whose counters show whether they begin with 0 or 1."""


def read_log(path: str | Path, formats: KnownFormats, given: Facts | None = None) -> ParsedLog:
    """Read the log at ``path`` (text, maybe compressed; one of ``formats``), with facts ``given`` by its reader.

    Never raises for the content of a file: a file that cannot be opened, is not text, or has no known format
    is returned with that status.
    """
    name = str(path)
    try:
        with open_log(path) as file:
            return read_stream(file, formats, name, given)
    except UnusableFileError as error:
        return unreadable_log(name, str(error))
    except OSError as error:
        return unreadable_log(name, f"cannot be read: {error.strerror or error}")


def read_stream(
    stream: BinaryIO,
    formats: KnownFormats,
    name: str = "-",
    given: Facts | None = None,
    recognised: Callable[[], None] | None = None,
) -> ParsedLog:
    """Read a log from ``stream`` (binary, not necessarily seekable); ``name`` is shown and read for hints.

    ``recognised`` is called after each piece from the one on that shows the log's format by a record, if it has any.
    """
    collected, harness = LogCollector(formats), None
    _keep_freed_memory()
    with_times = isinstance(formats, GivenFormats) and any(
        reads_times(known.records) for known in formats.formats
    )
    damage: str | None = None
    try:
        with unpack(stream) as unpacked, np.errstate(all="ignore"):
            try:
                for piece in read_pieces(
                    unwrap(unpacked, with_times=with_times), ranks=collected.streams.ranks
                ):
                    if collected.total_bytes == 0 and (sign := binary_kind(piece)):
                        return unreadable_log(name, f"is not text ({sign})")
                    start = len(collected.head)
                    collected.take(piece)
                    harness = _continue_harness(harness, collected, piece, start)
                    if recognised is not None and collected.has_records:
                        recognised()
            except DamagedError as error:
                damage = str(error)
            collected.finish()
            if harness is not None:
                harness.finish()
    except OSError:
        raise
    except Exception as error:  # an error in one format's reader must not end the reading of other logs
        return _beyond(collected, name, error)
    if harness is not None and (log := conclude(harness, name, given, damage)).records.count:
        return log
    log = conclude(collected, name, given, damage)
    if not log.records.count and collected.format is not None and collected.format.accompanies:
        return _by_program(stream, formats, log, given) or log
    return log


def _by_program(
    stream: BinaryIO, formats: KnownFormats, harness: ParsedLog, given: Facts | None
) -> ParsedLog | None:
    """Return the log by the records of the program between the lines of a harness that has none; None without any.

    A stream that cannot be read again has been read by the harness alone.
    """
    try:
        stream.seek(0)
    except (OSError, ValueError):
        return None
    log = read_stream(stream, ProgramFormats(formats), harness.log, given)
    return log if log.records.count else None


def _continue_harness(
    harness: LogCollector | None, collected: LogCollector, piece: bytes, start: int
) -> LogCollector | None:
    """Return the collector of the harness that accompanies the program, with the next piece; None without a harness.

    No earlier piece has a line of it, so of those only the log's ``start`` (bytes of the head) is added, for its facts.
    """
    if harness is None:
        if collected.accompanied_by is None:
            return None
        harness = LogCollector(GivenFormats((collected.accompanied_by,)))
        if start:
            harness.take(bytes(collected.head[:start]))
    harness.take(piece)
    return harness


def conclude(
    collected: LogCollector,
    name: str,
    given: Facts | None = None,
    damage: str | None = None,
    *,
    in_progress: bool = False,
) -> ParsedLog:
    """Return the parsed log; never raise for the content of a log.

    A log ``in_progress`` can be continued afterwards, and its missing end is not a problem. For a complete log call
    ``LogCollector.finish`` first, which adds the lines without a line end.
    """
    if not collected.total_bytes:
        if damage:
            return unreadable_log(name, damage)
        return ParsedLog(log=name, status=Status.EMPTY, problems=(Problem("empty", "the file is empty"),))
    try:
        with np.errstate(all="ignore"):
            log = conclude_log(
                collected, name, read_hints(name), given or Facts(), damage, in_progress=in_progress
            )
            return check_plausibility(with_varying_work(with_settled_meaning(log)))
    except Exception as error:
        return _beyond(collected, name, error)


def _beyond(collected: LogCollector, name: str, error: Exception) -> ParsedLog:
    """Return the log as unreadable after an exception in the reader of its format."""
    of = f"as a log of {collected.format.name}" if collected.format else "in any known format"
    where = f"cannot be read {of}: {type(error).__name__}: {str(error)[:160]}"
    return unreadable_log(name, f"{where}; please report this together with the line that causes it")


@cache
def _keep_freed_memory() -> None:
    """Make glibc reuse freed blocks instead of mapping new ones, which saves a quarter of the reading time.

    It retains freed blocks as large as the largest one freed so far, up to 32 MiB (mallopt(3), M_MMAP_THRESHOLD).
    This block is never touched, so it takes no memory. Other allocators ignore it.
    """
    np.empty(_LARGEST_BLOCK_BYTES, np.uint8)


def unreadable_log(name: str, why: str) -> ParsedLog:
    """Return the result for a file that cannot be read; ``why`` continues "the file …"."""
    return ParsedLog(log=name, status=Status.UNREADABLE, problems=(Problem("unreadable", f"the file {why}"),))


class _Ending(NamedTuple):
    """How a run ended and which parts of its log are missing; ``warmup_steps`` are those left to skip."""

    status: Status
    end_state: EndState
    figures: dict[str, float]
    warmup_steps: int
    problems: list[Problem]


def conclude_log(
    collected: LogCollector, name: str, hints: Hints, given: Facts, damage: str | None, *, in_progress: bool
) -> ParsedLog:
    """Return the parsed log from its collected text, the hints of its name, the user's facts and its damage."""
    known = collected.format
    if known is None:
        return unknown_format_log(collected, name, merge_facts(Facts(), hints, given).facts)
    read = read_records(collected, known)
    context = _context(collected, read.records, read.counters)
    if known.required is not None and not known.required.search(context.text):
        return unknown_format_log(collected, name, merge_facts(Facts(), hints, given).facts)
    settled = _settle(known, context, hints, given)
    facts, assumed = with_accumulation(_with_batch(settled.facts, read), known, read.records, given)
    unit = _unit(known, collected.pattern)
    ending = _ending(collected, known, read, context, damage, in_progress=in_progress)
    problems = [
        *read.problems,
        *settled.problems,
        *assumed,
        *batch_of_sequences(facts, unit, read.records, given),
        *_contradictions(collected, known, read, context),
        *ending.problems,
    ]
    reported = {problem.code for problem in problems}
    doubts = known.doubts(context) if known.doubts else ()
    problems += [doubt for doubt in doubts if doubt.code not in reported]
    words = known.parameters(context) if known.parameters else {}
    return ParsedLog(
        log=name,
        status=ending.status,
        format=known.name,
        framework=known.framework or words.get("framework"),
        unit=words.get("unit", known.unit) if known.own_run else unit,
        scope=known.find_scope(context) if known.find_scope else known.scope,
        meaning=_meaning(known, collected.pattern),
        end_state=ending.end_state,
        facts=facts,
        records=read.records,
        figures=ending.figures,
        parameters=words,
        warmup_steps=ending.warmup_steps,
        clock_resolution_s=_resolution(read.records.clock_s),
        figure_rounding=rounding_of(known.records[collected.pattern], context.tail) if known.records else 0.0,
        step_interval=read.counters.interval,
        accumulates=known.accumulates,
        averages_from=_averages_from(known, read),
        counts_samples=known.counts_samples,
        of_last_steps=known.of_last_steps,
        epoch_seconds=_epoch_seconds(known, context.text),
        contested=settled.contested,
        restarts=read.counters.restarts,
        usual_batch=read.batches.usual if read.batches else None,
        problems=tuple(problems),
        own_run=known.own_run(context) if known.own_run else None,
        witnesses=read.witnesses,
        tagged_ranks=read.tagged_ranks,
    )


def _averages_from(known: Format, read: Read) -> int:
    """Return the counter at which an average covers no step: 0 in a log whose counters begin with 1 in each epoch."""
    if not known.may_count_from_one or read.records.step is None:
        return known.averages_from
    steps, interval = read.records.step.array(0, _COUNTERS), read.counters.interval
    with_zero = (steps == 0).any()
    with_one = (steps == 1).any() if interval == 1 else (steps % interval == 1).mean() > 1 / 2
    return 0 if with_one and not with_zero else known.averages_from


def _with_batch(facts: Facts, read: Read) -> Facts:
    """Return ``facts`` with the global batch that the lines print, or that their counters give if nothing else does."""
    if read.batches:
        return replace(facts, global_batch=read.batches.only)
    records = read.records
    if (
        facts.global_batch
        or facts.batch_per_device
        or records.rate is not None
        or records.step_time_s is None
    ):
        return facts
    return replace(facts, global_batch=count_batch(records))


def _settle(known: Format, context: LogContext, hints: Hints, given: Facts) -> MergedFacts:
    """Return the facts of the log, its name and its user."""
    return merge_facts(
        known.facts(context),
        hints,
        given,
        tf32_logged=known.own_run is not None or _reports_tf32(context),
        named_fp16=known.fp16,
    )


def _contradictions(
    collected: LogCollector, known: Format, read: Read, context: LogContext
) -> Iterator[Problem]:
    """Yield the facts and results that the log contradicts later, and lines that resemble records."""
    yield from conflicting_facts(known, collected.pattern, context, collected.later)
    yield from second_start(known, collected.pattern, read.records, context)
    yield from conflicting_results(known, read.records, collected.tail)
    yield from find_rejected_lines(known, collected.pattern, context.head, collected.tail)


def _ending(
    collected: LogCollector,
    known: Format,
    read: Read,
    context: LogContext,
    damage: str | None,
    *,
    in_progress: bool,
) -> _Ending:
    figures, end_state = _figures(known, context), known.end_state(context)
    failure = find_failure(after_last_record(known, collected))
    status, problems = run_outcome(collected, known, read.records, read.counters, end_state, failure, figures)
    problems = [*problems, *other_format_problems(collected)]
    end = [] if in_progress else end_problems(end_state, failure, collected, damage, status)
    start = start_problems(known, context, read.records)
    problems += merge_missing_ends(start, end) if status is Status.OK else end
    if collected.loss_not_finite:
        sentence = "the loss of at least one record is NaN or infinite: the training diverged"
        problems.append(Problem("loss-not-finite", sentence))
    # An excerpt from the middle of a run has no warm-up.
    is_excerpt = bool(start) and _first_covered(read) > known.warmup_steps
    return _Ending(status, end_state, figures, 0 if is_excerpt else known.warmup_steps, problems)


def _context(collected: LogCollector, records: Records, counters: Counters) -> LogContext:
    head = bytes(collected.head)
    return LogContext(
        head=head,
        tail=collected.tail,
        text=head if collected.text_bytes <= HEAD_BYTES else head + b"\n" + collected.tail,
        first_step=_first_step(records),
        last_epoch=_last(records.epoch),
        last_step=_last(records.step),
        step_interval=counters.interval,
        ranks=max(collected.streams.ranks, default=-1) + 1,
        notes=bytes(collected.notes),
        records=records.count,
    )


def _figures(known: Format, context: LogContext) -> dict[str, float]:
    """Return the tool's own results, the last value of each."""
    matches = ((key, _last_match(pattern, context.tail)) for key, pattern in known.figures.items())
    found = {key: value for key, match in matches if match and (value := parse_positive(match)) is not None}
    computed = known.computed_figures(context) if known.computed_figures else {}
    return {key: value for key, value in (found | computed).items() if value is not None}


def _epoch_seconds(known: Format, text: bytes) -> dict[int, float]:
    """Return the seconds of each epoch, as the program prints them."""
    if known.epoch_seconds is None or not can_match(known.epoch_seconds, text):
        return {}
    found: dict[int, float] = {}
    for match in known.epoch_seconds.finditer(text):
        words = match.groupdict(b"0")
        units = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
        seconds = sum(
            scale * (parse_positive(words.get(unit) or b"0") or 0.0) for unit, scale in units.items()
        )
        if seconds > 0 and len(words["epoch"]) < _LONGEST_NUMBER:
            found[int(words["epoch"])] = seconds
    return found


def _resolution(clock: Column | None) -> float:
    if clock is None:
        return 1.0
    values = clock.array(0, 1024)
    values = values[np.isfinite(values)]
    for grain in (1.0, 0.001):
        if np.all(np.abs(values / grain - np.round(values / grain)) < 1e-3):
            return grain
    return 1e-6


def _unit(known: Format, pattern: int) -> str:
    return known.pattern_units[pattern] if known.pattern_units else known.unit


def _meaning(known: Format, pattern: int) -> Meaning:
    return known.pattern_meanings[pattern] if known.pattern_meanings else known.meaning


def _first(column: Column | None) -> float:
    return float(column.array(0, 1)[0]) if column is not None and len(column) else 0.0


def _first_covered(read: Read) -> float:
    """Return the step at which the first record begins: a line may be about all steps since the line before."""
    return _first(read.records.step) - read.counters.interval + 1


def _first_step(records: Records) -> int | None:
    if records.step is None:
        return None
    first = _first(records.step)
    return int(first) if np.isfinite(first) else 0


def _last(column: Column | None) -> int | None:
    if column is None or not len(column):
        return None
    value = column.array(len(column) - 1)[-1]
    return int(value) if np.isfinite(value) else None


def _last_match(pattern: re.Pattern[bytes], text: bytes) -> bytes | None:
    found: list[bytes] = pattern.findall(text)
    return found[-1] if found else None


def _reports_tf32(context: LogContext) -> bool:
    switches = (b"NVIDIA_TF32_OVERRIDE=0", b"allow_tf32", b'"tf32_matmul"')
    return any(switch in context.head for switch in switches)
