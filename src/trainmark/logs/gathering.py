"""What is kept of a log while it streams by: its head, its tail, and the columns of each rank."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from trainmark.logs.columns import Column, Floats
from trainmark.logs.fields import extract
from trainmark.logs.format import Format
from trainmark.logs.formats import FORMATS
from trainmark.logs.transport import Demultiplexer, Rank
from trainmark.logs.trouble import LOSS_NOT_FINITE

HEAD_BYTES = 1 << 19
TAIL_BYTES = 1 << 17
_RECOGNISED_BYTES = 1 << 15
_LOSS_BYTES = 1 << 13
"""The end of each piece, where the loss is looked at: a loss that is not a number stays so."""


@dataclass(slots=True)
class Gathering:
    """Takes in a log piece by piece; recognises its format from the first records."""

    total_bytes: int = 0
    head: bytearray = field(default_factory=bytearray)
    tail: bytes = b""
    tail_is_open: bool = False
    loss_not_finite: bool = False
    format: Format | None = None
    pattern: int = 0
    columns: dict[Rank, dict[str, Column]] = field(default_factory=dict)
    counts: Counter[Rank] = field(default_factory=Counter)
    streams: Demultiplexer = field(default_factory=Demultiplexer)

    def take(self, piece: bytes) -> None:
        """Take in the next piece of the log."""
        self.total_bytes += len(piece)
        self.tail_is_open = not piece.endswith((b"\n", b"\r"))
        for rank, text in self.streams.split(piece):
            self._take_text(rank, text)

    def finish(self) -> None:
        """Take in the lines that never ended."""
        for rank, text in self.streams.rest():
            self._take_text(rank, text)

    def _take_text(self, rank: Rank, text: bytes) -> None:
        if len(self.head) < HEAD_BYTES:
            self.head += text[: HEAD_BYTES - len(self.head)]
        self.tail = text[-TAIL_BYTES:] if len(text) >= TAIL_BYTES else (self.tail + text)[-TAIL_BYTES:]
        if self.format is None or not self.counts:
            self._recognise(text)
        if self.format is None:
            return
        if not self.loss_not_finite:
            self.loss_not_finite = LOSS_NOT_FINITE.search(text, max(len(text) - _LOSS_BYTES, 0)) is not None
        found = _fields(self.format, self.pattern, text)
        if found:
            self._append(rank, found)

    def _recognise(self, text: bytes) -> None:
        most = 0
        sample = text[:_RECOGNISED_BYTES]
        for known in FORMATS:
            for index, pattern in enumerate(known.records):
                matches = len(pattern.findall(sample)) or bool(pattern.search(text, _RECOGNISED_BYTES))
                if matches > most:
                    most, self.format, self.pattern = matches, known, index
            if (
                known.extract
                and known.mark.search(text)
                and len(next(iter(known.extract(text).values()), ())) > most
            ):
                most, self.format = 1 << 30, known
        if self.format is None:
            self.format = next((known for known in FORMATS if known.mark.search(text)), None)

    def _append(self, rank: Rank, found: dict[str, Floats]) -> None:
        columns = self.columns.setdefault(rank, {})
        length = len(next(iter(found.values())))
        for name, values in found.items():
            column = columns.get(name)
            if column is None:
                column = columns[name] = Column()
                column.append(np.full(self.counts[rank], np.nan))
            column.append(values)
        for name in columns.keys() - found.keys():
            columns[name].append(np.full(length, np.nan))
        self.counts[rank] += length


def _fields(known: Format, pattern: int, text: bytes) -> dict[str, Floats]:
    found = known.extract(text) if known.extract else extract(known.records[pattern], text)
    seconds = found.pop("seconds", None)
    if seconds is not None:
        found["samples"] = seconds * found["rate"]
    return found
