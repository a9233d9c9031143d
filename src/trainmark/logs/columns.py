"""Columns of float64 values with bounded memory (past a limit in a temporary file), and rounding of printed ones."""

import os
import re
import weakref
from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

BUFFERED_VALUES = 1 << 17
"""Values of one column that are buffered in memory (1 MiB) before they are written to the file."""
BLOCK_VALUES = 1 << 15
_BYTES = 8
_FIGURES = (
    "rate",
    "step_time_s",
    "step_time_ms",
    "step_time_us",
    "steps_per_s",
    "average_rate",
    "average_time_s",
    "average_time_ms",
    "average_steps_per_s",
)
_COMPOSED = ("rate_thousands", "rate_millions", "step_time_m", "extra_time_s", "seconds", "bar_s")
_LAST_BYTES = 1 << 13
_MOST_VALUES = 2
"""Most different values of a steady run; of more the rounding averages out."""
_NUMBER = re.compile(rb"\d+(?:\.(\d*))?")


class Column:
    """Values in the order of the log; appended in bulk, read in blocks. Not thread-safe."""

    def __init__(self) -> None:
        self._buffered: list[Floats] = []
        self._buffered_count = 0
        self._file: IO[bytes] | None = None
        self._written_count = 0

    @classmethod
    def of(cls, values: Floats | list[float]) -> "Column":
        """Return a column of ``values``."""
        column = cls()
        column.append(np.asarray(values, dtype=np.float64))
        return column

    def __len__(self) -> int:
        """Return the number of values."""
        return self._written_count + self._buffered_count

    def append(self, values: Floats) -> None:
        """Add ``values`` at the end."""
        if not len(values):
            return
        self._buffered.append(values)
        self._buffered_count += len(values)
        if self._buffered_count > BUFFERED_VALUES:
            if self._file is None:
                import tempfile

                self._file = tempfile.TemporaryFile(prefix="trainmark-column-")  # noqa: SIM115 (lives with us)
                weakref.finalize(self, self._file.close)
            for block in self._buffered:
                self._file.write(np.ascontiguousarray(block, dtype=np.float64).data)
            self._file.flush()
            self._written_count += self._buffered_count
            self._buffered, self._buffered_count = [], 0

    def blocks(self, start: int = 0, stop: int | None = None) -> Iterator[Floats]:
        """Yield the values ``start`` … ``stop`` (as in a slice, not negative) in blocks, in order."""
        if self._is_short():
            if len(block := self._short(start, stop)):
                yield block
            return
        stop = len(self) if stop is None else min(stop, len(self))
        position = max(start, 0)
        while position < min(stop, self._written_count) and self._file is not None:
            block = np.empty(min(BLOCK_VALUES, stop - position, self._written_count - position))
            self._read(position, block)
            yield block
            position += len(block)
        offset = self._written_count
        for held in self._buffered:
            first, last = max(position - offset, 0), min(stop - offset, len(held))
            if first < last:
                yield held[first:last]
            offset += len(held)

    def array(self, start: int = 0, stop: int | None = None) -> Floats:
        """Return the values ``start`` … ``stop`` as one array, in memory; it may be read only."""
        if self._is_short():
            return self._short(start, stop)
        start, stop = max(start, 0), len(self) if stop is None else min(stop, len(self))
        found = np.empty(max(stop - start, 0))
        done = max(min(stop, self._written_count) - start, 0)
        self._read(start, found[:done])
        for block in self.blocks(start + done, stop):
            found[done : done + len(block)] = block
            done += len(block)
        return found

    def _is_short(self) -> bool:
        """Return whether all values are in one array, as those of a small log are."""
        return self._file is None and len(self._buffered) == 1

    def _short(self, start: int, stop: int | None) -> Floats:
        view = self._buffered[0][max(start, 0) : stop]
        view.flags.writeable = False
        return view

    def _read(self, start: int, into: Floats) -> None:
        """Fill ``into`` with the values from ``start`` on, all of which are in the file; raise ``OSError``."""
        rest, at = into.data.cast("B"), start * _BYTES
        while len(rest) and self._file is not None:
            size = os.preadv(self._file.fileno(), [rest], at)
            if not size:
                raise OSError(
                    "the temporary file of a log's records was truncated: is the disk of TMPDIR full?"
                )
            rest, at = rest[size:], at + size

    def __iter__(self) -> Iterator[float]:
        """Yield the values one by one."""
        for block in self.blocks():
            yield from block.tolist()


def median(values: NDArray[Any] | Sequence[float]) -> float:
    """Return what ``numpy.median`` does; NumPy's own loads its masked arrays, which takes longer than a small log."""
    ordered = np.sort(np.asarray(values, dtype=np.float64), axis=None)
    size = len(ordered)
    if not size or np.isnan(ordered[-1]):
        return float("nan")
    return float(ordered[(size - 1) // 2 : size // 2 + 1].mean())


def differences(values: Floats) -> Floats:
    """Return the difference of each value to the one before; ``numpy.diff`` takes ten times as long for a few."""
    return values[1:] - values[:-1]


def in_step(columns: Sequence[Column]) -> Iterator[tuple[Floats, ...]]:
    """Yield columns of one length in aligned blocks."""
    for start in range(0, len(columns[0]) if columns else 0, BLOCK_VALUES):
        yield tuple(column.array(start, start + BLOCK_VALUES) for column in columns)


def rounding_of(pattern: re.Pattern[bytes], tail: bytes) -> float:
    """Return by how much rounding may change the figures of ``pattern`` in the last lines, as a share of them.

    0 if they have many values, or consist of several numbers. Of several figures in a line the finest counts.
    """
    names = [name for name in _FIGURES if name in pattern.groupindex]
    if not names:
        return 0.0
    matches = [match.groupdict() for match in pattern.finditer(tail[-_LAST_BYTES:])]
    if any(match.get(name) is not None for match in matches for name in _COMPOSED):
        return 0.0
    return min((share for name in names for share in _shares(name, matches)), default=0.0)


def _shares(name: str, matches: list[dict[str, bytes | None]]) -> Iterator[float]:
    """Yield the rounding of one figure, as a share of its smallest value."""
    words = {word for match in matches if (word := match[name])}
    numbers = [(float(word), number) for word in words if (number := _NUMBER.fullmatch(word))]
    if not numbers or len(numbers) < len(words) or min(value for value, _ in numbers) <= 0:
        return
    if len(words) > _MOST_VALUES:
        yield 0.0
        return
    places = max(len(number[1] or b"") for _, number in numbers)
    yield 0.5 * 10.0**-places / min(value for value, _ in numbers)
