"""The records of a log: collected while it streams, assembled rank by rank, and timed by their arrival.

The collector keeps the log's head, its tail and the columns of each rank. Of a rank, each record counts once, with the
samples of the steps that it covers; counters number the records. Arrival times are those of the log's bytes.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trainmark.logs.batches import Batches, apply_batches, find_batches
from trainmark.logs.format import Format, GivenFormats, KnownFormats
from trainmark.logs.intervals import counts_from_zero, steps_covered
from trainmark.logs.lines.fields import Extract, derived, extract, past_midnight
from trainmark.logs.lines.headings import drop_unheaded
from trainmark.logs.lines.literals import VARYING, can_match, required
from trainmark.logs.lines.transport import Demultiplexer, Rank, begin_lines, strip_colours
from trainmark.logs.model import (
    FIELDS,
    SEVERAL_RUNS,
    Column,
    Floats,
    Meaning,
    ParsedLog,
    Problem,
    RankRecords,
    Records,
    Restart,
    Scope,
    Severity,
    Witness,
    differences,
    in_step,
    median,
)
from trainmark.logs.restarts import find_restarts, find_resumed_runs

HEAD_BYTES = 1 << 19
TAIL_BYTES = 1 << 17
NOTES_BYTES = 1 << 20
_RECOGNISED_BYTES = 1 << 15
_MOST_KINDS = 4096
_SHORT_BYTES = 1 << 14
"""A shorter text is searched whole."""
_OVERALL = 1 << 15
"""Weight of a match of the ``overall`` pattern against matches of other patterns."""

# Each begins with plain letters ("oss" of loss and Loss), which makes the search as fast as memory.
_NOT_FINITE = rb"[ \t:=]{0,12}(?:\[|tensor\()?[-+]?(?i:nan|inf|infinity)\b"
_LOSS = re.compile(rb"oss(?:_finite\": ?false|[\w.]*[\"']?" + _NOT_FINITE + rb")")
_COST = re.compile(rb"cost: \[[-+]?(?i:nan|inf)\b")
_COPY_DEVIATION = 0.02
"""Ranks that print one figure of all devices print nearly the same value."""
_SAMPLE_DEVIATION = 0.1
"""Values of single steps, or averages since each rank's own start, may differ more."""
_LEAST_SPAN_S = 20.0
"""Time that copies take by their stamps, in whole seconds at worst, from which its difference counts."""
_FEWEST_IN_TURN = 10
_SPREADS = 4.0
"""Difference of two runs that print in turn, in deviations of each from its own median."""
_EPOCH = 1e9
_SAMPLE = 1 << 18
"""Records used to detect repeated counters: repeats show from the start, and sorting all costs memory."""
_BLOCK = 1 << 15
STAMP_PATTERN = "{stamp}.*?"
"""The beginning of a guessed pattern for lines that are read with their arrival before them."""
MOST_AT_ONCE = 1.5
"""Above this mean number of records at one moment, the program's output may be buffered."""
_MANY_LOOKS = 5
"""The least median time between two moments of a buffered output, in looks at the log."""


@dataclass(slots=True)
class LogCollector:
    """Collects a log piece by piece; recognises which of ``formats`` it has from the first records.

    ``later`` is the text from a second header of a log after the first records. ``accompanied_by`` is the format of a
    harness whose lines are among those of the program.
    """

    formats: KnownFormats
    total_bytes: int = 0
    text_bytes: int = 0
    head: bytearray = field(default_factory=bytearray)
    tail: bytes = b""
    tail_is_open: bool = False
    later: bytes = b""
    loss_not_finite: bool = False
    notes: bytearray = field(default_factory=bytearray)
    format: Format | None = None
    accompanied_by: Format | None = None
    pattern: int = 0
    columns: dict[Rank, dict[str, Column]] = field(default_factory=dict)
    counts: Counter[Rank] = field(default_factory=Counter)
    streams: Demultiplexer = field(default_factory=Demultiplexer)
    _kinds: set[bytes] = field(default_factory=set)
    _has_values: bool = False
    _opened: dict[Rank, bool | None] = field(default_factory=dict)

    def take(self, piece: bytes) -> None:
        """Add the next piece of the log."""
        self.total_bytes += len(piece)
        self.tail_is_open = not piece.endswith((b"\n", b"\r"))
        for rank, text in self.streams.split(piece):
            self._take_text(rank, text)

    @property
    def has_records(self) -> bool:
        """Return whether a record with more than its counters was found, or the format has none."""
        return self.format is not None and (self._has_values or not self.format.records)

    def finish(self) -> None:
        """Add the lines without a line end."""
        for rank, text in self.streams.rest():
            self._take_text(rank, text)

    def _take_text(self, rank: Rank, text: bytes) -> None:
        if self.text_bytes < HEAD_BYTES:
            self.head += strip_colours(text[: HEAD_BYTES - self.text_bytes])
        self.text_bytes += len(text)
        end = strip_colours(text[-TAIL_BYTES:])
        self.tail = end if len(text) >= TAIL_BYTES else (self.tail + end)[-TAIL_BYTES:]
        if self.format is None or not self.counts:
            self._recognise(strip_colours(text))
        if self.format is None:
            return
        found = _fields(self.format, self.pattern, self._headed(self.format, rank, text))
        noted = self.format.notes
        if noted is not None and len(self.notes) < NOTES_BYTES:
            # The samples have each line but for its numbers: they show whether words without any are in the text.
            plain = all(word == word.translate(None, VARYING) for word in required(noted))
            if any(can_match(noted, part) for part in (found.samples if plain else (text,))):
                for match in noted.finditer(strip_colours(text)):
                    self.notes += match[0].rstrip(b"\n") + b"\n"
        if self.accompanied_by is None and not self.format.accompanies:
            self.accompanied_by = next(self._harnesses(found.samples), None)
        self.loss_not_finite = self.loss_not_finite or any(map(has_bad_loss, found.samples))
        if not self.later and found.columns:
            self.later = _second_start(self.format, found.samples if self.counts else found.samples[1:])
        if found.columns:
            self._append(rank, found.columns)

    def _headed(self, known: Format, rank: Rank, text: bytes) -> bytes:
        """Return ``text`` without the records that are of no heading, for a format that has them."""
        if known.heading is None:
            return text
        record, plain = known.records[self.pattern], strip_colours(text)
        headed, self._opened[rank] = drop_unheaded(known.heading, record, plain, self._opened.get(rank))
        return headed

    def _harnesses(self, samples: list[bytes]) -> Iterator[Format]:
        """Yield the formats of harnesses whose lines are in the samples of a text."""
        for sample in samples:
            yield from (known for known in self.formats.harnesses(sample) if can_match(known.mark, sample))

    def _recognise(self, text: bytes) -> None:
        """Choose the format with the most records in the first lines; in all of ``text`` if there are none."""
        if (
            self.format is None
            and self.text_bytes > 2 * HEAD_BYTES
            and next(iter(self.formats.candidates(_one_of_each(text))), None) is None
        ):
            return
        # Whole lines: a truncated one would match a pattern with fewer fields.
        cut = text.rfind(b"\n", 0, _RECOGNISED_BYTES) + 1 or _RECOGNISED_BYTES
        samples = [text[:cut], text[cut:]]
        if self.format is not None and not self.format.records and self.format.extract is None:
            # Every piece of a log without records gets here. Its start is enough, if it has new lines.
            samples = samples[:1] if self._is_new(samples[0]) else []
        for sample in samples:
            most = 0
            for known in self.formats.candidates(sample):
                if known.extract and known.mark.search(sample) and known.extract(sample).columns:
                    self.format = known
                    return
                for index, pattern in enumerate(known.records):
                    if not can_match(pattern, sample):
                        continue
                    matches = len(pattern.findall(sample)) * (_OVERALL if index == known.overall else 1)
                    # A record may be cut between its lines where the sample ends.
                    if matches > most + (most > 0 and self.format is known and len(sample) < len(text)):
                        most, self.format, self.pattern = matches, known, index
            if most:
                return
        if self.format is None:
            marks = (
                known
                for known in self.formats.candidates(text)
                if can_match(known.mark, text) and known.mark.search(text)
            )
            self.format = next(marks, None)

    def _is_new(self, text: bytes) -> bool:
        """Return whether ``text`` has a line that differs from all earlier ones by more than its numbers."""
        lines = set(text.translate(None, VARYING).split(b"\n")) - self._kinds
        if len(self._kinds) < _MOST_KINDS:
            self._kinds |= lines
        return bool(lines)

    def _append(self, rank: Rank, found: dict[str, Floats]) -> None:
        columns = self.columns.setdefault(rank, {})
        length = len(next(iter(found.values())))
        self._has_values = self._has_values or any(
            np.isfinite(values).any() for name, values in found.items() if name not in ("step", "epoch")
        )
        for name, values in found.items():
            column = columns.get(name)
            if column is None:
                column = columns[name] = Column()
                column.append(np.full(self.counts[rank], np.nan))
            column.append(values)
        for name in columns.keys() - found.keys():
            columns[name].append(np.full(length, np.nan))
        self.counts[rank] += length


def _one_of_each(text: bytes) -> bytes:
    if len(text) <= _SHORT_BYTES:
        return text
    from trainmark.logs.lines.shapes import one_of_each

    return one_of_each(text)


def _second_start(known: Format, samples: list[bytes]) -> bytes:
    """Return the text from a second start of a log, as a resumed run prints it; empty if there is none."""
    if known.header is None or not known.records:
        return b""
    for text in samples:
        if can_match(known.header, text) and (start := known.header.search(text)):
            return strip_colours(text[start.start() :])
    return b""


def _fields(known: Format, pattern: int, text: bytes) -> Extract:
    if known.extract:
        found = known.extract(strip_colours(text))
    elif known.records:
        found = extract(known.records[pattern], text, known.header)
    else:
        return Extract({}, [_one_of_each(text)])
    derived(found.columns)
    return found


def has_bad_loss(text: bytes) -> bool:
    """Return whether a line of ``text`` prints a loss that is NaN or infinite."""
    if b"oss_finite" not in text:
        # Searching for these words costs a tenth of the patterns: "inf" is nearly always part of INFO.
        words = text.lower()
        if b"nan" not in words and words.count(b"inf") == words.count(b"info"):
            return False
    return _LOSS.search(text) is not None or _COST.search(text) is not None


class Counters(NamedTuple):
    """The numbering of the records.

    ``interval`` is the usual number of steps between records. ``repeated`` and ``backwards`` count records whose
    number equals, or is lower than, the highest one before. ``copies`` is how often nearly every number occurs (more
    than once if several ranks print the same lines untagged). ``starts`` are the positions at which the numbering
    restarts like a second run. ``restarts`` are the returns to a checkpoint; if present, they explain all
    ``backwards`` records.
    """

    interval: int = 1
    repeated: int = 0
    backwards: int = 0
    copies: int = 1
    starts: tuple[int, ...] = ()
    restarts: tuple[Restart, ...] = ()


def count(records: Records) -> Counters:
    """Return the numbering of ``records`` (of one rank, in the order of the log).

    Records without a counter of steps or epochs are numbered by their work since the start of the run.
    """
    by_work = records.step is None and records.epoch is None
    if by_work and records.consumed is None:
        return Counters()
    interval = _interval(records)
    repeated = backwards = position = 0
    first = high = -np.inf
    starts: list[int] = []
    for keys in _keys(records):
        if np.isinf(first):
            first = keys[0]
        if keys[0] > high and (keys[1:] > keys[:-1]).all():
            high = float(keys[-1])
            position += len(keys)
            continue
        offset = 0
        while offset < len(keys):
            rest = keys[offset:]
            before = np.maximum.accumulate(np.concatenate(([high], rest)))[:-1]
            # A number back at or below the first one, after higher ones, starts a second run.
            anew = np.flatnonzero((rest <= first) & (before > first)) if len(rest) else np.empty(0)
            end = int(anew[0]) if len(anew) else len(rest)
            part, highest = rest[:end], before[:end]
            repeated += int(np.count_nonzero(part == highest))
            backwards += int(np.count_nonzero(part < highest))
            if end:
                high = max(high, float(part.max()))
            if end < len(rest):
                starts.append(position + offset + end)
                high, first = float(rest[end]), float(rest[end])
                end += 1
            offset += end
        position += len(keys)
    if not (repeated or backwards or starts):
        return Counters(interval=interval)
    copies = _copies(records)
    repeated = 0 if by_work else repeated  # work may be printed rounded
    restarts = find_restarts(records, interval) if backwards and not starts else None
    if restarts and (copies == 1 or len(restarts) < copies):
        # When the counter reaches its value before the restart, it repeats one number.
        return Counters(interval, max(repeated - len(restarts), 0), backwards, restarts=restarts)
    if starts and copies == 1 and (resumed := find_resumed_runs(records, starts)):
        return Counters(interval, repeated, backwards, restarts=resumed)
    if starts and copies > 1 and not _whole_runs(records, starts):
        starts = []  # interleaved lines of several ranks, not consecutive runs
    elif starts:
        copies = 1
    return Counters(interval, repeated, backwards, copies, tuple(starts))


def first_of_each(records: Records) -> Records:
    """Return the first record of each number, as one rank would have printed them."""
    columns = {name: Column() for name in _names(records)}
    high, position, total = -np.inf, 0, 0
    for keys in _keys(records):
        before = np.maximum.accumulate(np.concatenate(([high], keys)))[:-1]
        keep = keys > before
        high = max(high, float(keys.max()))
        for name, column in columns.items():
            column.append(getattr(records, name).array(position, position + len(keys))[keep])
        position += len(keys)
        total += int(np.count_nonzero(keep))
    return Records(count=total, **columns)


def copy_deviation(records: Records, copies: int) -> float:
    """Return the median relative difference in speed between the ``copies`` of a record.

    If some records lack their speed, as lines of two runs in turn leave one without, their times of a step count too.
    Without a speed it is that of the times from the first to the last step; 0 if these are short, or not printed.
    """
    speeds = _speeds(records)
    timed = speeds[:1] if speeds and np.isfinite(speeds[0].array(0, _BLOCK)).all() else speeds
    if not timed and records.clock_s is None:
        return 0.0
    keys = _sample(records)
    order = np.argsort(keys, kind="stable")
    _, first, size = np.unique(keys[order], return_index=True, return_counts=True)
    places = first[size == copies][:, None] + np.arange(copies)
    found = []
    for column in timed or filter(None, [records.clock_s]):
        values = column.array(0, len(keys))[order][places]
        if not timed:
            values = values[-1:] - values[:1]
            values = values[(values > _LEAST_SPAN_S).all(axis=1)]
        values = values[(values > 0).all(axis=1)]
        found.append(median(values.max(axis=1) / values.min(axis=1)) - 1 if len(values) else 0.0)
    return max(found)


def _alternation(records: Records) -> float:
    """Return by how much every second of the records, which have no counter, is slower; 0 if the others are as slow."""
    speeds = _speeds(records)
    if (
        not speeds
        or records.step is not None
        or records.epoch is not None
        or len(speeds[0]) < _FEWEST_IN_TURN
    ):
        return 0.0
    values = speeds[0].array(0, _SAMPLE)
    middles = [median(values[at::2]) for at in (0, 1)]
    if not min(middles) > 0:
        return 0.0
    difference = max(middles) / min(middles) - 1
    spread = max(median(np.abs(values[at::2] / middles[at] - 1)) for at in (0, 1))
    return difference if difference > max(_COPY_DEVIATION, _SPREADS * spread) else 0.0


def _speeds(records: Records) -> list[Column]:
    """Return the columns of the speeds and the times of steps."""
    return [c for c in (records.rate, records.step_time_s, records.average_time_s) if c is not None]


def _names(records: Records) -> list[str]:
    return [name for name in FIELDS if getattr(records, name) is not None]


def _sample(records: Records) -> Floats:
    return np.concatenate(list(_keys(records, min(_SAMPLE, records.count))))


def _keys(records: Records, end: int | None = None) -> Iterator[Floats]:
    end = records.count if end is None else end
    counter = records.consumed if records.step is None and records.epoch is None else records.step
    for start in range(0, end, _BLOCK):
        stop = min(start + _BLOCK, end)
        key = np.zeros(stop - start)
        if records.epoch is not None:
            key += _finite(records.epoch.array(start, stop)) * _EPOCH
        if counter is not None:
            key += _finite(counter.array(start, stop))
        yield key


def _finite(values: Floats) -> Floats:
    return values if np.isfinite(values).all() else np.nan_to_num(values)


def _interval(records: Records) -> int:
    if records.step is None or records.count < 2:
        return 1
    steps = records.step.array(0, min(records.count, 4096))
    rises = differences(steps)
    rises = rises[rises > 0]
    if not len(rises):
        return 1
    if rises.min() == rises.max():
        return int(rises[0])
    values, counts = np.unique(rises, return_counts=True)
    return int(values[np.argmax(counts)])


def _copies(records: Records) -> int:
    _, counts = np.unique(_sample(records), return_counts=True)
    values, how_often = np.unique(counts, return_counts=True)
    usual = int(values[np.argmax(how_often)])
    return usual if usual > 1 and how_often.max() >= 0.8 * len(counts) else 1


def _whole_runs(records: Records, starts: list[int]) -> bool:
    """Return whether the part before the first new start covers at least half the range of all parts."""
    reach, all_reach = (np.ptp(list(_extremes(records, stop))) for stop in (starts[0], records.count))
    return bool(reach >= 0.5 * all_reach)


def _extremes(records: Records, stop: int) -> Iterator[float]:
    """Yield the lowest and the highest number in each block of the records up to ``stop``."""
    for keys in _keys(records, stop):
        yield from (float(keys.min()), float(keys.max()))


class Read(NamedTuple):
    """One rank's records, their numbering, and the global batches that their lines print (None if they do not)."""

    records: Records
    counters: Counters
    batches: Batches | None
    problems: tuple[Problem, ...]
    witnesses: tuple[Witness, ...] = ()
    tagged_ranks: Callable[[], tuple[RankRecords, ...]] = tuple


class _OfRank(NamedTuple):
    """The records of one rank, and the ways to its throughput that only the format's own reader knows."""

    records: Records
    witnesses: tuple[Witness, ...] = ()


def read_records(collected: LogCollector, known: Format) -> Read:
    """Return the records of a log of a known format."""
    (records, witnesses), problems = _one_rank(collected, known)
    counters = count(records)
    lines = Records()
    if known.transform is not None and collected.counts:
        lines = _lines_of(collected.columns[_main_rank(collected)])
    # Lines of two runs in turn may be joined to the wrong record: then the records alone show that they are of two.
    of_lines = conflicting_copies(known, lines, count(lines).copies) if lines.count else ()
    problems += (*of_lines,) or conflicting_copies(known, records, counters.copies)
    if counters.copies > 1:
        records = first_of_each(records)
        problems.append(
            Problem(
                "ranks-untagged",
                f"{counters.copies} ranks without tags print the same records, or each progress bar is drawn "
                f"{counters.copies} times: the first copy of each is used",
                Severity.NOTE,
            )
        )
    batches = None
    if known.records and "batch" in known.records[collected.pattern].groupindex and records.count:
        if records.rate is not None and records.step is not None:
            averaged = known.meaning is Meaning.INTERVAL
            records, batches = apply_batches(records, counters.interval, averaged=averaged)
            problems += filter(None, [batches.problem()])
        else:
            records, batches = find_batches(records)
    if known.samples_of_step and records.samples is not None:
        records = _samples_of_records(records, counters.interval)
    return Read(
        records,
        counters,
        batches,
        tuple(problems),
        witnesses,
        _tagged_ranks(collected, known),
    )


_SPEEDS = ("rate", "step_time_s", "average_rate", "average_time_s")
_UNLIKE = 0.05
"""Difference of one rank from the mean of all from which it does not stand for them."""


def _main_rank(collected: LogCollector) -> Rank:
    """Return the rank with most records, the lowest of equals."""
    return min(collected.counts, key=lambda r: (-collected.counts[r], -1 if r is None else r))


def _one_rank(collected: LogCollector, known: Format) -> tuple[_OfRank, list[Problem]]:
    """Return the records of the rank with most records (the lowest of equals), and problems."""
    if not collected.counts:
        return _OfRank(Records()), []
    rank = _main_rank(collected)
    found = _records_of(known, collected.columns[rank], collected.counts[rank])
    problems = []
    if len(collected.counts) > 1:
        which = "the untagged lines are" if rank is None else f"rank {rank} is"
        problems.append(
            Problem(
                "several-ranks", f"{len(collected.counts)} ranks print records: {which} used", Severity.NOTE
            )
        )
        problems += _differing_ranks(collected, rank)
    return found, problems


def _differing_ranks(collected: LogCollector, main: Rank) -> Iterator[Problem]:
    """Yield a doubt if the figures of the ``main`` rank are not those of the ranks' mean."""
    own = collected.columns[main]
    name = next((name for name in _SPEEDS if name in own), None)
    if name is None:
        return
    printed = [columns[name].array(0, _BLOCK) for columns in collected.columns.values() if name in columns]
    typical = [median(values[values > 0]) for values in printed if (values > 0).any()]
    mine = own[name].array(0, _BLOCK)
    if len(typical) < 2 or not (mine > 0).any():
        return
    usual, mean = median(mine[mine > 0]), sum(typical) / len(typical)
    if abs(mean / usual - 1) > _UNLIKE:
        what = "s a step" if name.endswith("_s") else "units/s"
        sentence = (
            f"the rank whose records are used prints {usual:.6g} {what}, all {len(typical)} ranks {mean:.6g} on "
            f"average ({min(typical):.6g} to {max(typical):.6g}): the number takes that rank for all of them"
        )
        yield Problem("ranks-differ", sentence)


def _tagged_ranks(collected: LogCollector, known: Format) -> Callable[[], tuple[RankRecords, ...]]:
    """Return the assembly of the records of each rank that has a tag; of none if fewer than two do."""
    tagged = [rank for rank in collected.counts if rank is not None]
    if len(tagged) < 2:
        return tuple
    return partial(
        _assemble, known, {rank: (collected.columns[rank], collected.counts[rank]) for rank in tagged}
    )


def _assemble(
    known: Format, ranks: Mapping[int, tuple[Mapping[str, Column], int]]
) -> tuple[RankRecords, ...]:
    with np.errstate(all="ignore"):
        return tuple(
            RankRecords(rank, _records_of(known, *columns).records) for rank, columns in sorted(ranks.items())
        )


def _records_of(known: Format, found: Mapping[str, Column], size: int) -> _OfRank:
    """Return a rank's records."""
    witnesses: tuple[Witness, ...] = ()
    if known.assemble is not None:
        found, witnesses = known.assemble(found)
        size = len(next(iter(found.values()), ()))
    if known.transform is not None:
        found, size = _join_blocks(known.transform(_blocks(found)))
    columns = {name: found[name] for name in FIELDS if name in found}
    if "clock_s" in columns:
        columns["clock_s"] = _past_midnight(columns["clock_s"])
    return _OfRank(Records(count=size, **columns), witnesses)


def _past_midnight(clock: Column) -> Column:
    """Return ``clock`` itself, or a column of it that goes on where a time of day begins anew."""
    passed, last, added = Column(), np.nan, 0.0
    for values in clock.blocks():
        block = past_midnight(np.concatenate(([last], values)))[1:] + added
        last, added = values[-1], block[-1] - values[-1] if np.isfinite(values[-1]) else added
        passed.append(block)
    return passed if added else clock


def _blocks(columns: Mapping[str, Column]) -> Iterator[dict[str, Floats]]:
    """Yield the columns in aligned blocks, so that no column has to be in memory."""
    for values in in_step(list(columns.values())):
        yield dict(zip(columns, values, strict=True))


def _join_blocks(blocks: Iterator[dict[str, Floats]]) -> tuple[dict[str, Column], int]:
    columns: dict[str, Column] = {}
    size = 0
    for block in blocks:
        for name, values in block.items():
            columns.setdefault(name, Column()).append(values)
        size += len(next(iter(block.values())))
    return columns, size


def _samples_of_records(records: Records, interval: int) -> Records:
    """Return ``records`` with the samples of one step multiplied by the steps that each record covers."""
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


def conflicting_copies(known: Format, records: Records, copies: int) -> Iterator[Problem]:
    """Yield a doubt if several lines per step, taken for ranks, report different figures of steps that they share."""
    if copies < 2:
        if (difference := _alternation(records)) > 0:
            sentence = f"every second record is {difference:.0%} slower than the others: two runs seem to print in turn"
            yield Problem(SEVERAL_RUNS, sentence)
        return
    deviation = copy_deviation(records, copies)
    is_of_all = known.scope is Scope.GLOBAL and known.meaning is Meaning.INTERVAL and bool(_speeds(records))
    if deviation > (_COPY_DEVIATION if is_of_all else _SAMPLE_DEVIATION):
        alike = "that of all devices" if known.scope is Scope.GLOBAL else "about that of the others"
        sentence = (
            f"each step is printed by {copies} lines whose rates differ by {deviation:.0%}, although each should be "
            f"{alike}: they come from several runs, or each from one worker; the first line of each step is used"
        )
        yield Problem(SEVERAL_RUNS, sentence)


def _lines_of(columns: Mapping[str, Column]) -> Records:
    """Return the first lines with a speed, before any of them is merged or left out, each with the last counters."""
    found = {name: columns[name].array(0, _BLOCK) for name in FIELDS if name in columns}
    speed = next((name for name in _SPEEDS if name in found), None)
    if speed is None or "step" not in found:
        return Records()
    last = np.maximum.accumulate(np.where(np.isfinite(found["step"]), np.arange(len(found["step"])), 0))
    timed = np.isfinite(found[speed]) & np.isfinite(found["step"][last])
    lines: dict[str, Floats] = {name: found[name][last][timed] for name in ("epoch", "step") if name in found}
    lines[speed] = found[speed][timed]
    return Records(int(timed.sum()), **{name: Column.of(values) for name, values in lines.items()})


def read_arrivals(path: Path) -> list[tuple[float, int]]:
    """Return the noted (Unix time, size in bytes) of a log; empty for a missing file, and up to a damaged line."""
    noted: list[tuple[float, int]] = []
    try:
        text = path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return noted
    for line in text.splitlines():
        moment, _, size = line.partition(" ")
        try:
            noted.append((float(moment), int(size)))
        except ValueError:
            break
    return noted


_WHOLE_BAR = re.compile(rb"\|[^|\r\n]*\| [^\r\n\[]*\[[^\]\r\n]*\]$")
"""A line that is a progress bar to its end, as tqdm prints it."""
_LINE_END = re.compile(rb"[\r\n]+")


def pieces(path: Path, arrivals: list[tuple[float, int]]) -> list[tuple[float, bytes]]:
    """Return the whole lines of the log at ``path`` that arrived at each moment; the rest came with the last one.

    A progress bar begins with its line's end, so the end of a line may come long after its text: the line arrived
    with its text, also if something else is printed behind the bar then.
    """
    found: list[tuple[float, bytes]] = []
    carry, carried_at = b"", arrivals[-1][0] if arrivals else 0.0
    with path.open("rb") as file:
        for (_, before), (moment, size) in pairwise(arrivals):
            data = file.read(max(0, size - before))
            ended = len(data) - len(data.lstrip(b"\r\n"))
            if not ended and _WHOLE_BAR.search(carry) and (end := _LINE_END.search(data)):
                ended = end.end()
            if carry and ended:
                found.append((carried_at, carry + data[:ended]))
                carry, data = b"", data[ended:]
            data = carry + data
            cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
            carry, carried_at = data[cut:], moment
            if cut:
                found.append((moment, data[:cut]))
        if carry := carry + file.read():
            found.append((carried_at, carry))
    return found


def stamped(arrived: list[tuple[float, bytes]]) -> list[tuple[float, bytes]]:
    """Return the same lines, each with its arrival before it, as a program with a logger would have printed them."""
    return [(moment, begin_lines(piece, _stamp(moment))) for moment, piece in arrived]


def _stamp(moment: float) -> bytes:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3].encode() + b" "


def record_times(arrived: list[tuple[float, bytes]], log: ParsedLog, known: Format) -> Floats | None:
    """Return the Unix time at which each record of ``log``, read by ``known``, had arrived.

    None if the records cannot be told apart: a format that computes them from several lines, or ranks that
    print into one another.
    """
    if len(arrived) < 2 or not log.records.count:
        return None
    collected = LogCollector(GivenFormats((known,)))
    collected.take(b"".join(piece for _, piece in arrived))
    collected.finish()
    counter = LogCollector(GivenFormats((known,)), format=known, pattern=collected.pattern)
    if not collected.counts:
        return None
    rank, count = max(collected.counts.items(), key=lambda found: found[1])

    def counted() -> int:
        # Alone in its piece, a line with a tag, such as a warning of PyTorch's, looks like the log of that rank.
        return counter.counts.total() if len(collected.counts) == 1 else counter.counts.get(rank, 0)

    times: list[float] = []
    for moment, piece in arrived:
        counter.take(piece)
        counter.pattern = collected.pattern
        times += [moment] * (counted() - len(times))
    counter.finish()
    times += [arrived[-1][0]] * (counted() - len(times))
    if len(times) != count:
        return None
    # As their clock, the times go with the records wherever the format leaves some out.
    collected.columns[rank]["clock_s"] = Column.of(times)
    with np.errstate(all="ignore"):
        clock = read_records(collected, known).records.clock_s
    return clock.array() if clock is not None and len(clock) == log.records.count else None


def are_buffered(times: Floats, interval_s: float) -> bool:
    """Return whether the records arrived in bursts, so that their times are those of a buffer.

    Records that come faster than the log is looked at, every ``interval_s`` seconds, are none.
    """
    moments = np.unique(times)
    if len(moments) < 2:
        return len(times) > 1
    gap_s = float(np.median(np.diff(moments)))
    return len(times) > MOST_AT_ONCE * len(moments) and gap_s > _MANY_LOOKS * interval_s
