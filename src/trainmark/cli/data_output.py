"""How the commands about data sets print: lines of names that may be no text, JSON, and progress."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from trainmark.dataset import ProgressListener


def print_line(line: str) -> None:
    """Print one line, whatever a file's name holds: terminal codes, or bytes that are no text."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    encoding = sys.stdout.encoding or "utf-8"
    typer.echo(shown.encode(encoding, "backslashreplace").decode(encoding))


def print_json(value: object) -> None:
    """Print one value as JSON, on one line."""
    # ASCII, since a file's name may hold bytes that are no text; JSON's escapes carry them.
    typer.echo(json.dumps(value, ensure_ascii=True, allow_nan=False))


@contextmanager
def progress(word: str) -> Iterator["ProgressListener"]:
    """Show progress on stderr: a bar on a terminal; else a line now and then, none for what is quick."""
    if sys.stderr.isatty():
        with _bar() as bar:
            task = bar.add_task(word, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
        return
    last = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= 10:
            last = time.monotonic()
            sys.stderr.write(f"{word}: {done} of {total}\n")

    yield show


@contextmanager
def resumable(word: str) -> Iterator["ProgressListener"]:
    """Show progress on what the same command takes up again; an interruption says so and ends with code 130."""
    try:
        with progress(word) as told:
            yield told
    except KeyboardInterrupt:
        sys.stderr.write("trainmark data: interrupted; the same command goes on from here\n")
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
    return rich.Progress(*columns, console=Console(stderr=True), transient=True)
