"""Reader of one log: recognise its format, collect its records in bulk, report the result; never raise for content."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import BinaryIO

import numpy as np

from trainmark.logs.concluding import conclude_log
from trainmark.logs.gathering import LogCollector
from trainmark.logs.hints import read_hints
from trainmark.logs.known_formats import GivenFormats, KnownFormats, ProgramFormats
from trainmark.logs.model import Facts, ParsedLog, Problem, Status
from trainmark.logs.opening import DamagedError, UnusableFileError, binary_kind, open_log, unpack
from trainmark.logs.plausibility import check_plausibility
from trainmark.logs.transport import read_pieces

_LARGEST_BLOCK_BYTES = 30 << 20


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

    ``recognised`` is called after each piece from the one on that shows the log's format.
    """
    collected, harness = LogCollector(formats), None
    _keep_freed_memory()
    damage: str | None = None
    try:
        with unpack(stream) as unpacked, np.errstate(all="ignore"):
            try:
                for piece in read_pieces(unpacked):
                    if collected.total_bytes == 0 and (sign := binary_kind(piece)):
                        return unreadable_log(name, f"is not text ({sign})")
                    start = len(collected.head)
                    collected.take(piece)
                    harness = _continue_harness(harness, collected, piece, start)
                    if recognised is not None and collected.format is not None:
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
            return check_plausibility(log)
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
