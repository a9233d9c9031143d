"""Log reading with the formats of all known programs, or with the one that the reader gives, by name or by a file."""

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from io import BufferedReader
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, BinaryIO, cast

from trainmark import logs
from trainmark.errors import InputError
from trainmark.logs import Facts, ParsedLog, Problem, Status
from trainmark.logs.description import build_format, read_description
from trainmark.logs.description.build import parse_description
from trainmark.logs.format import Format, GivenFormats
from trainmark.logs.transport import PIECE_BYTES, Recording
from trainmark.programs.log_formats import find_format, known_formats
from trainmark.schema.names import LOG, OUTCOME

_BOUND_S = 60
"""CPU seconds for one log: the slowest known format reads 50 MB/s."""


def read_log(path: str | Path, given: Facts | None = None, *, guess: bool = False) -> ParsedLog:
    """Read the log at ``path`` (text or gzip; any known format), with facts ``given`` by its reader.

    With ``guess`` a log of an unknown program, or of a version whose records have another form, is read by a proposed
    format; its status is then ``guessed``. Never raises for the content of a file: a file that cannot be opened, is not
    text, or has no known format is returned with that status. If the log of a failed trainmark run does not show the
    failure, the result has the outcome recorded in the run's folder.
    """
    parsed = logs.read_log(path, known_formats(), given)
    silent = parsed.status in (Status.UNKNOWN, Status.EMPTY) and Path(path).name == LOG
    if silent:
        parsed = _as_recorded(parsed, Path(path).parent / OUTCOME)
    return _guessed(parsed, path, given) if guess and _may_be_guessed(parsed) else parsed


def _may_be_guessed(parsed: ParsedLog) -> bool:
    """Return whether no known format reads a record of the log, and the run neither failed nor printed a result."""
    if parsed.status is Status.INCOMPLETE:
        return parsed.own_run is None and any(problem.code == "no-records" for problem in parsed.problems)
    return parsed.status is Status.UNKNOWN


def _guessed(parsed: ParsedLog, path: str | Path, given: Facts | None) -> ParsedLog:
    """Return the log of an unknown program by a proposed format; unchanged if it can be read only once."""
    from trainmark.logs.guess.reading import explain_unknown, read_guessed

    if not Path(path).is_file():
        return parsed
    try:
        with Path(path).open("rb") as file:
            return read_guessed(parsed, file, given) or explain_unknown(parsed, file)
    except OSError:
        return parsed


def _as_recorded(parsed: ParsedLog, record: Path) -> ParsedLog:
    from trainmark.schema.outcome import Outcome, OutcomeRecord

    try:
        ended = OutcomeRecord.model_validate_json(record.read_bytes())
    except (OSError, ValueError):
        # Most logs have no record in their folder, and a damaged one is ignored.
        return parsed
    if ended.outcome is Outcome.OK:
        return parsed
    status = Status.OOM if ended.outcome is Outcome.OOM else Status.FAILED
    reason = ended.reason or "no reason was recorded"
    problem = Problem("failed", f"the recorded outcome of the run is {ended.outcome}: {reason}")
    return replace(parsed, status=status, problems=(problem, *parsed.problems))


def read_stream(
    stream: BinaryIO, name: str = "-", given: Facts | None = None, *, guess: bool = False
) -> ParsedLog:
    """Read a log from ``stream`` (binary, not necessarily seekable); ``name`` is shown and read for hints.

    With ``guess`` a log of an unknown program is read by a proposed format, as by ``read_log``: the stream is copied
    until a known format has a record.
    """
    if not guess:
        return logs.read_stream(stream, known_formats(), name, given)
    recording = Recording(stream)
    try:
        buffered = cast(BinaryIO, BufferedReader(recording, PIECE_BYTES))
        parsed = logs.read_stream(buffered, known_formats(), name, given, recording.discard)
        copy = recording.replay()
        if copy is None or not _may_be_guessed(parsed):
            return parsed
        from trainmark.logs.guess.reading import explain_unknown, read_guessed

        return read_guessed(parsed, copy, given) or explain_unknown(parsed, copy)
    finally:
        recording.discard()


def follow_log(path: str | Path, given: Facts | None, wait: Callable[[], bool]) -> Iterator[ParsedLog]:
    """Yield the parsed log at ``path`` while a run writes it (``trainmark.logs.following``)."""
    from trainmark.logs.following import follow_log

    return follow_log(path, known_formats(), given, wait)


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
