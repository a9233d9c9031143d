"""Reading a log while a run still writes it: the same machinery, asked again and again what it has seen so far."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from trainmark.errors import InputError
from trainmark.logs.format import Format
from trainmark.logs.gathering import Gathering
from trainmark.logs.model import Ending, Facts, ParsedLog, Problem, Severity, Status
from trainmark.logs.read import conclude
from trainmark.logs.transport import PIECE_BYTES

_OVER = (Status.OOM, Status.FAILED)


def follow_log(
    path: str | Path, formats: Sequence[Format], given: Facts | None, wait: Callable[[], bool]
) -> Iterator[ParsedLog]:
    """Yield what the log at ``path`` says, each time that it has grown by records or has come to its end.

    Each is to be looked at before the next is asked for: they share their columns. ``wait`` is called when there is
    nothing new; it returns whether to go on. The last that is yielded is the log as a whole: its end was seen, its
    program died, or ``wait`` said to stop. A file that becomes shorter was begun anew, and so is the reading. Raises
    ``InputError`` where the file cannot be opened."""
    name, position, going = str(path), 0, True
    gathering, carry, shown = Gathering(formats), b"", -1
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}") from None
    with os.fdopen(descriptor, "rb") as file:
        while going:
            if os.fstat(file.fileno()).st_size < position:
                file.seek(0)
                gathering, carry, shown, position = Gathering(formats), b"", -1, 0
            data = file.read(PIECE_BYTES)
            position += len(data)
            cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
            if cut:
                gathering.take(carry + data[:cut])
            carry = data[cut:] if cut else carry + data
            if len(data) == PIECE_BYTES:
                continue
            count = max(gathering.counts.values(), default=0)
            if (cut and count != shown) or not data:
                log = conclude(gathering, name, given, in_progress=True)
                if log.ending is Ending.SEEN or log.status in _OVER:
                    break
                if count != shown and count:
                    shown = count
                    yield _so_far(log)
            going = data != b"" or wait()
        if carry:
            gathering.take(carry)
        gathering.finish()
        yield conclude(gathering, name, given)


def _so_far(log: ParsedLog) -> ParsedLog:
    """Return ``log`` with the word that it is not over."""
    from dataclasses import replace

    return replace(log, problems=(*log.problems, Problem("in-progress", "the run goes on", Severity.NOTE)))
