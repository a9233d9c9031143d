"""Reading one log: recognise its format, collect its records in bulk, and conclude; nothing in a file raises."""

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from trainmark.logs.concluding import conclude_log
from trainmark.logs.format import Format
from trainmark.logs.gathering import Gathering
from trainmark.logs.hints import read_hints
from trainmark.logs.model import Facts, ParsedLog, Problem, Status
from trainmark.logs.opening import binary_kind, plain
from trainmark.logs.plausibility import checked
from trainmark.logs.transport import pieces

_LARGEST_BLOCK_BYTES = 30 << 20


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
            log = conclude_log(
                seen, name, read_hints(name), given or Facts(), damage, in_progress=in_progress
            )
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
