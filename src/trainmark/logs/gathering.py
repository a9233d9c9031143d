"""Collector of a streamed log: its head, its tail, and the columns of each rank."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from trainmark.logs.columns import Column, Floats
from trainmark.logs.fields import Extract, derived, extract
from trainmark.logs.format import Format, KnownFormats
from trainmark.logs.headings import drop_unheaded
from trainmark.logs.literals import VARYING, can_match
from trainmark.logs.transport import Demultiplexer, Rank, strip_colours

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
        noted = self.format.notes
        if noted is not None and len(self.notes) < NOTES_BYTES and can_match(noted, text):
            for match in noted.finditer(strip_colours(text)):
                self.notes += match[0].rstrip(b"\n") + b"\n"
        found = _fields(self.format, self.pattern, self._headed(self.format, rank, text))
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
                    if matches > most:
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
    from trainmark.logs.shapes import one_of_each

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
