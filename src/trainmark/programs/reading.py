"""Log reading with the formats of all known programs."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, cast

from trainmark import logs
from trainmark.logs import Facts, ParsedLog, Problem, Status
from trainmark.logs.opening import Recording
from trainmark.logs.transport import PIECE_BYTES
from trainmark.programs.log_formats import known_formats
from trainmark.schema.names import LOG, OUTCOME


def read_log(path: str | Path, given: Facts | None = None, *, guess: bool = False) -> ParsedLog:
    """Read the log at ``path`` (text or gzip; any known format), with facts ``given`` by its reader.

    With ``guess`` a log of an unknown program is read by a proposed format; its status is then ``guessed``. Never
    raises for the content of a file: a file that cannot be opened, is not text, or has no known format is returned with
    that status. If the log of a failed trainmark run does not show the failure, the result has the outcome recorded in
    the run's folder.
    """
    parsed = logs.read_log(path, known_formats(), given)
    silent = parsed.status in (Status.UNKNOWN, Status.EMPTY) and Path(path).name == LOG
    if silent:
        parsed = _as_recorded(parsed, Path(path).parent / OUTCOME)
    if guess and parsed.status is Status.UNKNOWN:
        return _guessed(parsed, path, given)
    return parsed


def _guessed(parsed: ParsedLog, path: str | Path, given: Facts | None) -> ParsedLog:
    """Return the log of an unknown program by a proposed format; unchanged if it can be read only once."""
    from trainmark.logs.guess.reading import read_guessed

    if not Path(path).is_file():
        return parsed
    try:
        with Path(path).open("rb") as file:
            return read_guessed(parsed, file, given) or parsed
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
    until a known format is recognised.
    """
    if not guess:
        return logs.read_stream(stream, known_formats(), name, given)
    recording = Recording(stream)
    try:
        buffered = cast(BinaryIO, BufferedReader(recording, PIECE_BYTES))
        parsed = logs.read_stream(buffered, known_formats(), name, given, recording.discard)
        copy = recording.replay()
        if copy is None or parsed.status is not Status.UNKNOWN:
            return parsed
        from trainmark.logs.guess.reading import read_guessed

        return read_guessed(parsed, copy, given) or parsed
    finally:
        recording.discard()


def follow_log(path: str | Path, given: Facts | None, wait: Callable[[], bool]) -> Iterator[ParsedLog]:
    """Yield the parsed log at ``path`` while a run writes it (``trainmark.logs.following``)."""
    from trainmark.logs.following import follow_log

    return follow_log(path, known_formats(), given, wait)
