"""Arrival times of a log's records, from the times at which the log's bytes arrived."""

from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import numpy as np

from trainmark.logs.columns import Column, Floats
from trainmark.logs.format import Format, GivenFormats
from trainmark.logs.gathering import LogCollector
from trainmark.logs.model import ParsedLog
from trainmark.logs.rank_records import read_records
from trainmark.logs.transport import begin_lines

STAMP_PATTERN = "{stamp}.*?"
"""The beginning of a guessed pattern for lines that are read with their arrival before them."""

MOST_AT_ONCE = 1.5
"""Above this mean number of records at one moment, the program's output may be buffered."""

_MANY_LOOKS = 5
"""The least median time between two moments of a buffered output, in looks at the log."""


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


def pieces(path: Path, arrivals: list[tuple[float, int]]) -> list[tuple[float, bytes]]:
    """Return the whole lines of the log at ``path`` that arrived at each moment; the rest came with the last one.

    A progress bar begins with its line's end, so the end of a line may come long after its text: the line arrived
    with its text.
    """
    found: list[tuple[float, bytes]] = []
    carry, carried_at = b"", arrivals[-1][0] if arrivals else 0.0
    with path.open("rb") as file:
        for (_, before), (moment, size) in pairwise(arrivals):
            data = file.read(max(0, size - before))
            if carry and data[:1] in (b"\r", b"\n"):
                ended = len(data) - len(data.lstrip(b"\r\n"))
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
