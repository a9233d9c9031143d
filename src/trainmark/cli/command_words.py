"""The words after ``--`` of a verb's command line."""

from typing import Any

import typer.core

_WORDS = "trainmark.command"
"""The key in the context's ``meta`` of the words after ``--``."""


class WithCommand(typer.core.TyperCommand):
    """A command that keeps everything after ``--`` as it is."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words before ``--``, and store those after it."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_WORDS], args = tuple(args[at + 1 :]), args[:at]
        return super().parse_args(ctx, args)


def words_of(context: Any) -> tuple[str, ...] | None:
    """Return the words after ``--``; None without ``--``."""
    words: tuple[str, ...] | None = context.meta.get(_WORDS)
    return words
