"""Output of the data commands: lines with arbitrary file names, JSON, and progress."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from trainmark.printable import printable_line, unfiltered

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from trainmark.dataset import ProgressListener


def print_line(line: str) -> None:
    """Print one line, with control characters and undecodable bytes in file names escaped."""
    encoding = sys.stdout.encoding or "utf-8"
    typer.echo(printable_line(line).encode(encoding, "backslashreplace").decode(encoding))


def print_json(value: object) -> None:
    """Print one value as JSON, on one line."""
    # ASCII, because file names may contain undecodable bytes, which JSON escapes can represent.
    typer.echo(json.dumps(value, ensure_ascii=True, allow_nan=False))


@contextmanager
def progress(label: str) -> Iterator["ProgressListener"]:
    """Show progress on stderr: a bar on a terminal, else a line every 10 seconds."""
    if sys.stderr.isatty():
        with _bar() as bar:
            task = bar.add_task(label, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
        return
    last = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= 10:
            last = time.monotonic()
            sys.stderr.write(f"{label}: {done} of {total}\n")

    yield show


@contextmanager
def resumable(label: str) -> Iterator["ProgressListener"]:
    """Show progress of resumable work; on Ctrl-C, print how to resume and exit with code 130."""
    try:
        with progress(label) as listener:
            yield listener
    except KeyboardInterrupt:
        sys.stderr.write("trainmark data: interrupted; run the same command again to continue\n")
        raise typer.Exit(130) from None


def _bar() -> "Bar":
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TimeRemainingColumn(),
    )
    return rich.Progress(*columns, console=Console(file=unfiltered(sys.stderr)), transient=True)
