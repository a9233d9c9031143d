"""Standard output and error of the command line, through which no text can control the terminal."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from trainmark.printable import printable


class PrintableStream:
    """A text stream that writes ``printable`` text; all else is that of the ``unfiltered`` stream.

    Progress bars, which control the terminal, are written to the ``unfiltered`` stream.
    """

    def __init__(self, unfiltered: TextIO) -> None:
        self.unfiltered = unfiltered

    def write(self, text: str) -> int:
        """Write the text, and return its length."""
        self.unfiltered.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write the lines."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the unfiltered stream."""
        return getattr(self.unfiltered, name)


def unfiltered(stream: TextIO) -> TextIO:
    """Return the stream behind a ``PrintableStream``, or the stream itself."""
    return cast("TextIO", getattr(stream, "unfiltered", stream))


@contextmanager
def printable_output() -> Iterator[None]:
    """Make standard output and error printable while the context lasts."""
    out, error = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = cast("TextIO", PrintableStream(out)), cast("TextIO", PrintableStream(error))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, error
