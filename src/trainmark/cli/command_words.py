"""The words after ``--`` of a verb's command line."""

import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
import typer.core

from trainmark.errors import InputError

_WORDS = "trainmark.command"
"""The key in the context's ``meta`` of the words after ``--``."""


_UsageError: Any = typer.BadParameter.__base__
_STARTED_BY = {".py": "python", ".sh": "bash"}
_BEFORE_A_COMMAND = "put '--' before a command: trainmark run -- python train.py"


class WithCommand(typer.core.TyperCommand):
    """A command that keeps everything after ``--`` as it is."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words before ``--``, and store those after it."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_WORDS], args = tuple(args[at + 1 :]), args[:at]
            return super().parse_args(ctx, args)
        try:
            return super().parse_args(ctx, args)
        except _UsageError as error:
            if "unexpected extra argument" in error.message:
                error.message += f"; {_BEFORE_A_COMMAND}"
            raise


def words_of(context: Any) -> tuple[str, ...] | None:
    """Return the words after ``--``; None without ``--``."""
    words: tuple[str, ...] | None = context.meta.get(_WORDS)
    return words


def check_no_command(suite: Path) -> None:
    """Raise ``InputError`` if ``suite`` is a program, or no file but a command (one word, or words in quotes)."""
    if suite.suffix in _STARTED_BY and suite.is_file():
        command = shlex.join((_STARTED_BY[suite.suffix], str(suite)))
        raise InputError(
            f"{suite}: is a program and no suite's file; measure it by: trainmark run -- {command}"
        )
    if not suite.exists() and shutil.which(str(suite).partition(" ")[0]):
        raise InputError(f"{suite}: is no suite's file; {_BEFORE_A_COMMAND}")


def check_words(words: Sequence[str]) -> None:
    """Raise ``InputError`` for words that only a shell would take apart: a command in quotes, or an assignment."""
    first, found = words[0], shutil.which(words[0])
    if found is None and " " in first and shutil.which(first.split()[0]):
        raise InputError(
            f"'{first}': give a command as words, without quotes around it: trainmark run -- {first}"
        )
    if found is None and re.fullmatch(r"[A-Za-z_]\w*=.*", first):
        raise InputError(f"'{first}': only a shell sets a variable like this; write: env {first} COMMAND")


def check_program(words: Sequence[str], folder: Path) -> None:
    """Raise ``InputError`` if this machine has no program of the first word, or Python's script is missing.

    Words with a placeholder and Python's own options are not checked.
    """
    first = words[0]
    if "{" in first:
        return
    if shutil.which(str(folder / first) if "/" in first else first) is None:
        raise InputError(_no_program(first, folder))
    script = words[1] if len(words) > 1 and re.fullmatch(r"python[\d.]*", Path(first).name) else ""
    if script.endswith(".py") and "{" not in script and not (folder / script).exists():
        raise InputError(f"{script}: no such file in {folder}")


def _no_program(first: str, folder: Path) -> str:
    """Return why the first word of a command starts nothing, and what to write instead."""
    path = folder / first
    if path.is_file():
        command = shlex.join((_STARTED_BY.get(path.suffix, "python"), first))
        return f"{first}: is no executable program; write: trainmark run -- {command}"
    return f"{first}: no such program; the words after '--' are the command as you type it in a shell"
