"""Reading a log of whichever known program: the machinery of ``logs`` with every program's format."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from trainmark import logs
from trainmark.logs import Facts, ParsedLog, Problem, Status
from trainmark.programs.registry import formats
from trainmark.schema.names import LOG, OUTCOME


def read_log(path: str | Path, given: Facts | None = None) -> ParsedLog:
    """Read the log at ``path`` (text or gzip; any known format), with facts ``given`` by its reader.

    Never raises for what is in the file: a file that cannot be opened, is no text, or has no known format
    comes back with that status; but the log of a run of ours that did not end well has the outcome that is recorded
    beside it, where nothing in it says as much.
    """
    parsed = logs.read_log(path, formats(), given)
    silent = parsed.status in (Status.UNKNOWN, Status.EMPTY) and Path(path).name == LOG
    return _as_recorded(parsed, Path(path).parent / OUTCOME) if silent else parsed


def _as_recorded(parsed: ParsedLog, record: Path) -> ParsedLog:
    from trainmark.schema.outcome import Outcome, OutcomeRecord

    try:
        ended = OutcomeRecord.model_validate_json(record.read_bytes())
    except (OSError, ValueError):
        # Most logs have none beside them, and a damaged one says nothing.
        return parsed
    if ended.outcome is Outcome.OK:
        return parsed
    status = Status.OOM if ended.outcome is Outcome.OOM else Status.FAILED
    problem = Problem(
        "failed", f"the run is recorded as {ended.outcome}: {ended.reason or 'no reason is kept'}"
    )
    return replace(parsed, status=status, problems=(problem, *parsed.problems))


def read_stream(stream: BinaryIO, name: str = "-", given: Facts | None = None) -> ParsedLog:
    """Read a log from ``stream`` (binary, not necessarily seekable); ``name`` is shown and read for hints."""
    return logs.read_stream(stream, formats(), name, given)


def follow_log(path: str | Path, given: Facts | None, wait: Callable[[], bool]) -> Iterator[ParsedLog]:
    """Yield what the log at ``path`` says while a run writes it (``trainmark.logs.following``)."""
    from trainmark.logs.following import follow_log

    return follow_log(path, formats(), given, wait)
