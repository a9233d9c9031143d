"""What a gathered log amounts to: its records, facts, figures and outcome, and what is doubtful about them."""

import re
from dataclasses import replace

import numpy as np

from trainmark.logs.columns import Column
from trainmark.logs.counters import Counters
from trainmark.logs.ends import (
    about_the_end,
    about_the_start,
    after_last_record,
    of_no_format,
    outcome_of,
    what_is_missing,
)
from trainmark.logs.format import Format, LogContext, positive
from trainmark.logs.gathering import HEAD_BYTES, Gathering
from trainmark.logs.hints import Hints
from trainmark.logs.literals import can_match
from trainmark.logs.model import Facts, ParsedLog, Problem, Records, Status
from trainmark.logs.multi_run import said_twice, two_results
from trainmark.logs.other_formats import about_other_formats
from trainmark.logs.rank_records import read_records
from trainmark.logs.rejected_lines import misread
from trainmark.logs.settle import settle
from trainmark.logs.trouble import find_trouble

_LONGEST_NUMBER = 10


def conclude_log(
    seen: Gathering, name: str, hints: Hints, given: Facts, damage: str | None, *, in_progress: bool
) -> ParsedLog:
    """Return what a log amounts to, with its name's hints, its reader's facts, and how it is damaged."""
    known = seen.format
    if known is None:
        return of_no_format(seen, name, settle(Facts(), hints, given).facts)
    read = read_records(seen, known)
    records, counters, batches = read.records, read.counters, read.batches
    problems = list(read.problems)
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
    trouble = find_trouble(after_last_record(known, seen))
    status, verdict = outcome_of(seen, known, records, counters, ending, trouble, figures)
    problems += verdict
    problems += about_other_formats(seen, seen.formats)
    end = [] if in_progress else about_the_end(ending, trouble, seen, damage, status)
    start = about_the_start(known, context, records)
    problems += what_is_missing(start, end) if status is Status.OK else end
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
