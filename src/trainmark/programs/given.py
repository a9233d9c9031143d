"""Reading of a log by the format that its reader gives, a known name or a file that describes it, else by any."""

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, BinaryIO

from trainmark import logs
from trainmark.errors import InputError
from trainmark.logs import Facts, ParsedLog
from trainmark.logs.description import build_format, read_description
from trainmark.logs.description.document import parse_description
from trainmark.logs.format import Format, GivenFormats
from trainmark.programs.log_formats import find_format
from trainmark.programs.reading import read_log, read_stream

_BOUND_S = 60
"""CPU seconds for one log: the slowest known format reads 50 MB/s."""


class _TooSlowError(BaseException):
    """The patterns took too long; not an ``Exception``, which reading would turn into a status."""


def given_format(name: str | None) -> Format | None:
    """Return the format called ``name``, or described in the file of that path; None without a name.

    Raises ``InputError`` if there is no such format.
    """
    if name is None:
        return None
    if name.endswith((".yaml", ".yml")):
        return build_format(read_description(Path(name)))
    return find_format(name)


def described_format(document: Mapping[str, Any], where: str, name: str) -> Format:
    """Return the format that a loaded document describes, as in a card; raise ``InputError`` naming ``where``."""
    return build_format(parse_description(document, where, name))


def read_by_format(path: str | Path, known: Format | None, given: Facts | None) -> ParsedLog:
    """Return the log at ``path`` read by ``known``; without it by any known format, else by a proposed one.

    Raises ``InputError`` if the patterns of ``known`` take too long.
    """
    if known is None:
        return read_log(path, given, guess=True)
    with _bounded(str(path), known):
        return _explained(logs.read_log(path, _only(known), given), known)


def read_stream_by_format(
    stream: BinaryIO, name: str, known: Format | None, given: Facts | None
) -> ParsedLog:
    """Return the log in ``stream`` read as by ``read_by_format``; ``name`` is shown and read for hints."""
    if known is None:
        return read_stream(stream, name, given, guess=True)
    with _bounded(name, known):
        return _explained(logs.read_stream(stream, _only(known), name, given), known)


def _explained(log: ParsedLog, known: Format) -> ParsedLog:
    """Return ``log`` with the way to the reason if no line matches ``known``."""
    sentence = f"no line matches the format '{known.name}': --explain shows how far its patterns match"
    return replace(
        log,
        problems=tuple(
            replace(problem, message=sentence) if problem.code == "unknown-format" else problem
            for problem in log.problems
        ),
    )


def _only(known: Format) -> GivenFormats:
    """Return ``known`` as the only format, also of a log that lacks what tells its program from similar ones."""
    return GivenFormats((replace(known, required=None),))


@contextmanager
def _bounded(name: str, known: Format) -> Iterator[None]:
    """Raise ``InputError`` if the patterns of ``known`` take too long for the log called ``name``."""
    try:
        with _time_bound(_BOUND_S):
            yield
    except _TooSlowError:
        raise InputError(
            f"{name}: the patterns of '{known.name}' took more than {_BOUND_S} s of CPU time: one of them probably "
            "repeats a part that can match in many ways; make it more specific"
        ) from None


@contextmanager
def _time_bound(seconds: float) -> Iterator[None]:
    """Interrupt the block after ``seconds`` of CPU time; a search in a pattern can be interrupted by a signal only."""
    if current_thread() is not main_thread():
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise _TooSlowError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
