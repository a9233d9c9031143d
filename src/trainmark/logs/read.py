"""Reading one log: recognise its format, collect its records in bulk, settle its facts, say what is wrong."""

import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np

from trainmark.logs.batches import told_batches
from trainmark.logs.bulk import VARYING
from trainmark.logs.columns import Column, Floats, in_step
from trainmark.logs.counters import Counters, count, first_of_each
from trainmark.logs.fields import FIELDS
from trainmark.logs.format import Format, LogContext, positive
from trainmark.logs.gathering import HEAD_BYTES, TAIL_BYTES, Gathering
from trainmark.logs.hints import Hints, read_hints
from trainmark.logs.literals import can_match
from trainmark.logs.misread import misread
from trainmark.logs.model import Ending, Facts, Meaning, ParsedLog, Problem, Records, Severity, Status
from trainmark.logs.opening import binary_kind, plain
from trainmark.logs.physics import checked
from trainmark.logs.physics.intervals import counts_from_zero, steps_covered
from trainmark.logs.restarts import about_restarts
from trainmark.logs.settle import settle
from trainmark.logs.several import said_twice, two_results, unlike_copies
from trainmark.logs.shapes import few_of_each
from trainmark.logs.transport import pieces
from trainmark.logs.trouble import Death, Trouble, find_trouble

_LARGEST_BLOCK_BYTES = 30 << 20
_FEWEST_OTHERS = 2
_FEW = 4
_LONGEST_NUMBER = 10
_NO_END = "the log is incomplete: the end of the run is not in it"
_COMMA = re.compile(rb"(?<=\d),(?=\d)")


def read_log(path: str | Path, formats: Sequence[Format], given: Facts | None = None) -> ParsedLog:
    """Read the log at ``path`` (text or gzip; one of ``formats``), with facts ``given`` by its reader.

    Never raises for what is in the file: a file that cannot be opened, is no text, or has no known format
    comes back with that status.
    """
    name = str(path)
    try:
        with Path(path).open("rb") as file:
            return read_stream(file, formats, name, given)
    except OSError as error:
        return _unreadable(name, f"cannot be read: {error.strerror or error}")


def read_stream(
    stream: BinaryIO, formats: Sequence[Format], name: str = "-", given: Facts | None = None
) -> ParsedLog:
    """Read a log from ``stream`` (binary, not necessarily seekable); ``name`` is shown and read for hints."""
    seen = Gathering(formats)
    _keep_freed_memory()
    damage: str | None = None
    try:
        with plain(stream) as unpacked, np.errstate(all="ignore"):
            try:
                for piece in pieces(unpacked):
                    if seen.total_bytes == 0 and (sign := binary_kind(piece)):
                        return _unreadable(name, f"is not text ({sign})")
                    seen.take(piece)
            except (EOFError, zlib.error, gzip.BadGzipFile) as error:
                damage = f"the gzip stream is damaged or cut: {error}"
            seen.finish()
    except OSError:
        raise
    except (
        Exception
    ) as error:  # one log that a format's reader stumbles over must not end the reading of others
        return _beyond(seen, name, error)
    return conclude(seen, name, given, damage)


def conclude(
    seen: Gathering,
    name: str,
    given: Facts | None = None,
    damage: str | None = None,
    *,
    in_progress: bool = False,
) -> ParsedLog:
    """Return what ``seen`` amounts to; never raises for what a log says.

    Of a log in progress more can be taken in afterwards, and that its end is not there is no problem; of a whole one
    the lines that never ended are taken in by ``Gathering.finish`` before.
    """
    if not seen.total_bytes:
        if damage:
            return _unreadable(name, damage)
        return ParsedLog(log=name, status=Status.EMPTY, problems=(Problem("empty", "the file is empty"),))
    try:
        with np.errstate(all="ignore"):
            log = _conclude(seen, name, read_hints(name), given or Facts(), damage, in_progress=in_progress)
            return checked(log)
    except Exception as error:
        return _beyond(seen, name, error)


def _beyond(seen: Gathering, name: str, error: Exception) -> ParsedLog:
    """Return the log as unreadable: a reader of its format met what it does not know, and has no number to give."""
    of = f"as a log of {seen.format.name}" if seen.format else "as any known format"
    where = f"cannot be read {of}: {type(error).__name__}: {str(error)[:160]}"
    return _unreadable(name, f"{where}; please report it with the line that it stumbles over")


def _keep_freed_memory() -> None:
    """Have glibc reuse what each piece of a log frees, and not map it anew: a quarter of the time of reading.

    It keeps freed blocks as large as the largest one that was freed so far, up to 32 MiB (mallopt(3),
    M_MMAP_THRESHOLD). This one is never touched, so it takes no memory. Other allocators do not mind.
    """
    np.empty(_LARGEST_BLOCK_BYTES, np.uint8)


def _unreadable(name: str, why: str) -> ParsedLog:
    return ParsedLog(log=name, status=Status.UNREADABLE, problems=(Problem("unreadable", f"the file {why}"),))


def _conclude(
    seen: Gathering, name: str, hints: Hints, given: Facts, damage: str | None, *, in_progress: bool
) -> ParsedLog:
    known = seen.format
    if known is None:
        return _of_no_format(seen, name, settle(Facts(), hints, given).facts)
    records, problems, consumed = _one_rank(seen)
    counters = count(records)
    if counters.copies > 1:
        problems += unlike_copies(known, records, counters.copies)
        records, consumed = first_of_each(records), None
        problems.append(
            Problem(
                "ranks-untagged",
                f"{counters.copies} ranks print the same records without a tag: the first of each is read",
                Severity.NOTE,
            )
        )
    batches = None
    if known.records and "batch" in known.records[seen.pattern].groupindex and records.count:
        averaged = known.meaning is Meaning.INTERVAL
        records, batches = told_batches(records, consumed, counters.interval, averaged=averaged)
        problems += filter(None, [batches.problem()])
    if known.samples_of_step and records.samples is not None:
        records = _samples_of_records(records, counters.interval)

    context = _context(seen, records, counters)
    words = known.parameters(context) if known.parameters else {}
    settled = settle(
        known.facts(context),
        hints,
        given,
        tf32_said=known.run_words is not None or _says_tf32(context),
        named_fp16=known.fp16,
    )
    facts = replace(settled.facts, global_batch=batches.only) if batches else settled.facts
    problems += settled.problems
    problems += said_twice(known, seen.pattern, context, seen.later)
    problems += two_results(known, records, seen.tail)
    problems += misread(known, seen.pattern, context.head, seen.tail)
    figures = _figures(known, seen.tail)
    ending = known.ending(context)
    trouble = find_trouble(_after_last_record(known, seen))
    status, verdict = _status(seen, known, records, counters, ending, trouble, figures)
    problems += verdict
    problems += _about_other_formats(seen, seen.formats)
    end = [] if in_progress else _about_the_end(ending, trouble, seen, damage, status)
    start = _about_the_start(known, context, records)
    problems += _what_is_missing(start, end) if status is Status.OK else end
    # The warm-up of a run is not in an excerpt from its middle.
    warmup_steps = 0 if start and _first(records.step) > known.warmup_steps else known.warmup_steps
    if seen.loss_not_finite:
        problems.append(
            Problem("loss-not-finite", "the loss is NaN or infinite in some record: the training had failed")
        )
    said = {problem.code for problem in problems}
    problems += [doubt for doubt in (known.doubts(context) if known.doubts else ()) if doubt.code not in said]
    return ParsedLog(
        log=name,
        status=status,
        format=known.name,
        framework=known.framework or words.get("framework"),
        unit=words.get("unit", known.unit) if known.run_words else _unit(known, seen.pattern),
        scope=known.scope_said(context) if known.scope_said else known.scope,
        meaning=known.meaning,
        ending=ending,
        facts=facts,
        records=records,
        figures=figures,
        parameters=words,
        warmup_steps=warmup_steps,
        clock_resolution_s=_resolution(records.clock_s),
        step_interval=counters.interval,
        accumulates=known.accumulates,
        averages_from=known.averages_from,
        counts_samples=known.counts_samples,
        of_last_steps=known.of_last_steps,
        epoch_seconds=_epoch_seconds(known, context.text),
        contested=settled.contested,
        restarts=counters.restarts,
        usual_batch=batches.usual if batches else None,
        problems=tuple(problems),
        run_words=known.run_words(context) if known.run_words else None,
    )


def _of_no_format(seen: Gathering, name: str, facts: Facts) -> ParsedLog:
    """Conclude of a text that no format knows: it may still say that a program died."""
    trouble = find_trouble(seen.tail)
    problem = Problem("unknown-format", "no line is of a known format (trainmark parse --list-formats)")
    if trouble is None or trouble.death is Death.STOPPED:
        return ParsedLog(log=name, status=Status.UNKNOWN, facts=facts, problems=(problem,))
    status = Status.OOM if trouble.death is Death.OOM else Status.FAILED
    return ParsedLog(log=name, status=status, facts=facts, problems=(_death(trouble), problem))


def _context(seen: Gathering, records: Records, counters: Counters) -> LogContext:
    head = bytes(seen.head)
    return LogContext(
        head=head,
        tail=seen.tail,
        text=head if seen.text_bytes <= HEAD_BYTES else head + b"\n" + seen.tail,
        first_step=int(np.nan_to_num(_first(records.step))) if records.step is not None else None,
        last_epoch=_last(records.epoch),
        last_step=_last(records.step),
        step_interval=counters.interval,
        ranks=max(seen.streams.ranks, default=-1) + 1,
        notes=bytes(seen.notes),
        records=records.count,
    )


def _figures(known: Format, tail: bytes) -> dict[str, float]:
    """Return the tool's own results, the last of each."""
    found = ((key, _last_match(pattern, tail)) for key, pattern in known.figures.items())
    return {key: value for key, match in found if match and (value := positive(match)) is not None}


def _epoch_seconds(known: Format, text: bytes) -> dict[int, float]:
    """Return the seconds that each epoch took, as the program says itself."""
    if known.epoch_seconds is None or not can_match(known.epoch_seconds, text):
        return {}
    found: dict[int, float] = {}
    for match in known.epoch_seconds.finditer(text):
        words = match.groupdict(b"0")
        units = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
        seconds = sum(scale * (positive(words.get(unit) or b"0") or 0.0) for unit, scale in units.items())
        if seconds > 0 and len(words["epoch"]) < _LONGEST_NUMBER:
            found[int(words["epoch"])] = seconds
    return found


def _one_rank(seen: Gathering) -> tuple[Records, list[Problem], Column | None]:
    """Choose the rank that is read: the one with most records, the lowest of equals.

    The last that is returned is what the run had consumed at each record, where its lines say so.
    """
    if not seen.counts:
        return Records(), [], None
    rank = min(seen.counts, key=lambda r: (-seen.counts[r], -1 if r is None else r))
    kept, size = seen.columns[rank], seen.counts[rank]
    if seen.format is not None and seen.format.assemble is not None:
        made = seen.format.assemble({name: column.array() for name, column in kept.items()})
        kept = {name: Column.of(values) for name, values in made.items()}
        size = len(next(iter(made.values()), ()))
    if seen.format is not None and seen.format.reworked is not None:
        kept, size = _gathered(seen.format.reworked(_blocks(kept)))
    columns = {name: kept[name] for name in FIELDS if name in kept}
    problems = []
    if len(seen.counts) > 1:
        which = "the untagged lines are" if rank is None else f"rank {rank} is"
        problems.append(
            Problem("several-ranks", f"{len(seen.counts)} ranks print records: {which} read", Severity.NOTE)
        )
    return Records(count=size, **columns), problems, kept.get("consumed")


def _blocks(columns: Mapping[str, Column]) -> Iterator[dict[str, Floats]]:
    """Yield the columns in blocks of equal places, so that no column has to be in memory."""
    for values in in_step(list(columns.values())):
        yield dict(zip(columns, values, strict=True))


def _gathered(blocks: Iterator[dict[str, Floats]]) -> tuple[dict[str, Column], int]:
    kept: dict[str, Column] = {}
    size = 0
    for block in blocks:
        for name, values in block.items():
            kept.setdefault(name, Column()).append(values)
        size += len(next(iter(block.values())))
    return kept, size


def _because_of_commas(known: Format, seen: Gathering) -> str:
    """Say so where the lines would be records but for the commas in their numbers (``14,8861``)."""
    if any(pattern.search(_COMMA.sub(b".", bytes(seen.head))) for pattern in known.records):
        return ": its numbers are written with commas, which the program does not print; write them with a point alone"
    return ""


def _status(
    seen: Gathering,
    known: Format,
    records: Records,
    counters: Counters,
    ending: Ending,
    trouble: Trouble | None,
    figures: dict[str, float],
) -> tuple[Status, list[Problem]]:
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


def _about_other_formats(seen: Gathering, formats: Sequence[Format]) -> list[Problem]:
    """Tell another program's records at either end of the log: the file then holds more than the run that is read."""
    known = seen.format
    assert known is not None
    for place, text in (("beginning", _few_of_each(bytes(seen.head))), ("end", _few_of_each(seen.tail))):
        others = [other for other in formats if other is not known and _may_be_in(other, text)]
        rest = _without(known, text) if others else b""
        for other in others:
            if _is_in(other, rest):
                sentence = f"the {place} of the file has records of another format, {other.name}: split it"
                return [Problem("several-formats", sentence)]
    return []


def _few_of_each(text: bytes) -> bytes:
    """Return the lines of ``text``, of those that differ in their numbers only the first few."""
    met: Counter[bytes] = Counter()
    kept = []
    text = few_of_each(text, _FEW)  # these first: to look at each line by itself costs more
    for line, kind in zip(text.split(b"\n"), text.translate(None, VARYING).split(b"\n"), strict=True):
        met[kind] += 1
        if met[kind] <= _FEW:
            kept.append(line)
    return b"\n".join(kept)


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
    """Say whether ``text`` holds two records of ``other``, or a result as it prints it."""
    if other.extract is not None:
        return other.mark.search(text) is not None and bool(other.extract(text).columns)
    results = (figure.search(text) for figure in other.figures.values() if can_match(figure, text))
    return any(results) or any(
        can_match(pattern, text) and len(pattern.findall(text)) >= _FEWEST_OTHERS for pattern in other.records
    )


def _about_the_end(
    ending: Ending, trouble: Trouble | None, seen: Gathering, damage: str | None, status: Status
) -> list[Problem]:
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


def _about_the_start(known: Format, context: LogContext, records: Records) -> list[Problem]:
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


def _what_is_missing(start: list[Problem], end: list[Problem]) -> list[Problem]:
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


def _after_last_record(known: Format, seen: Gathering) -> bytes:
    last = 0
    for pattern in known.records[seen.pattern : seen.pattern + 1]:
        for match in pattern.finditer(seen.tail):
            last = match.end()
    if not last and seen.total_bytes <= TAIL_BYTES:
        return seen.tail
    return seen.tail[last:]


def _samples_of_records(records: Records, interval: int) -> Records:
    """Turn samples of one step into samples of the record: times the steps that it is of."""
    if records.samples is None or records.step is None:
        return records
    converted, position, from_zero = Column(), 0, counts_from_zero(records)
    for samples in records.samples.blocks():
        covered = steps_covered(
            records.step, position, position + len(samples), interval, from_zero=from_zero
        )
        converted.append(samples * covered)
        position += len(samples)
    return replace(records, samples=converted)


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


def _first(column: Column | None) -> float:
    return float(column.array(0, 1)[0]) if column is not None and len(column) else 0.0


def _last(column: Column | None) -> int | None:
    if column is None or not len(column):
        return None
    value = column.array(len(column) - 1)[-1]
    return int(value) if np.isfinite(value) else None


def _last_match(pattern: re.Pattern[bytes], text: bytes) -> bytes | None:
    found: list[bytes] = pattern.findall(text)
    return found[-1] if found else None


def _says_tf32(context: LogContext) -> bool:
    switches = (b"NVIDIA_TF32_OVERRIDE=0", b"allow_tf32", b'"tf32_matmul"')
    return any(switch in context.head for switch in switches)
