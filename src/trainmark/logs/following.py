"""Reading a log while a run still writes it: repeated results of the same collector."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from trainmark.errors import InputError
from trainmark.logs.format import KnownFormats
from trainmark.logs.lines.transport import PIECE_BYTES
from trainmark.logs.model import EndState, Facts, ParsedLog, Problem, Severity, Status
from trainmark.logs.read import conclude
from trainmark.logs.records import LogCollector

_OVER = (Status.OOM, Status.FAILED)


def follow_log(
    path: str | Path, formats: KnownFormats, given: Facts | None, wait: Callable[[], bool]
) -> Iterator[ParsedLog]:
    """Yield the parsed log at ``path`` each time that it has new records, and at its end.

    Use each result before requesting the next one: they share their columns. ``wait`` is called when there is nothing
    new; it returns whether to continue. The last result is that of the whole log: the end of the run was found, its
    program crashed, or ``wait`` returned False. If the file becomes shorter, reading starts again. Raises
    ``InputError`` if the file cannot be opened.
    """
    name, position, going = str(path), 0, True
    collector, carry, shown = LogCollector(formats), b"", -1
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}") from None
    with os.fdopen(descriptor, "rb") as file:
        while going:
            if os.fstat(file.fileno()).st_size < position:
                file.seek(0)
                collector, carry, shown, position = LogCollector(formats), b"", -1, 0
            data = file.read(PIECE_BYTES)
            position += len(data)
            cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
            if cut:
                collector.take(carry + data[:cut])
            carry = data[cut:] if cut else carry + data
            if len(data) == PIECE_BYTES:
                continue
            count = max(collector.counts.values(), default=0)
            if (cut and count != shown) or not data:
                log = conclude(collector, name, given, in_progress=True)
                if log.end_state is EndState.FOUND or log.status in _OVER:
                    break
                if count != shown and count:
                    shown = count
                    yield _so_far(log)
            going = data != b"" or wait()
        if carry:
            collector.take(carry)
        collector.finish()
        yield conclude(collector, name, given)


def _so_far(log: ParsedLog) -> ParsedLog:
    """Return ``log`` with a note that the run is in progress."""
    from dataclasses import replace

    note = Problem("in-progress", "the run is still in progress", Severity.NOTE)
    return replace(log, problems=(*log.problems, note))
