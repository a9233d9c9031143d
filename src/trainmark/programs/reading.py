"""Reading a log of whichever known program: the machinery of ``logs`` with every program's format."""

from pathlib import Path
from typing import BinaryIO

from trainmark import logs
from trainmark.logs import Facts, ParsedLog
from trainmark.programs.registry import formats


def read_log(path: str | Path, given: Facts | None = None) -> ParsedLog:
    """Read the log at ``path`` (text or gzip; any known format), with facts ``given`` by its reader.

    Never raises for what is in the file: a file that cannot be opened, is no text, or has no known format
    comes back with that status.
    """
    return logs.read_log(path, formats(), given)


def read_stream(stream: BinaryIO, name: str = "-", given: Facts | None = None) -> ParsedLog:
    """Read a log from ``stream`` (binary, not necessarily seekable); ``name`` is shown and read for hints."""
    return logs.read_stream(stream, formats(), name, given)
