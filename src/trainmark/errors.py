"""The errors that trainmark raises on purpose; the command line shows each as one line.

Every package may import this module. Any other exception that reaches the command line is a bug in trainmark.
"""

from collections.abc import Iterable


class TrainmarkError(Exception):
    """An error that the user can fix: the message says what, where and what to do, in one line."""

    exit_code = 1


class InputError(TrainmarkError):
    """The input (a file, a flag, a name) cannot be used; the program stops with exit code 2."""

    exit_code = 2


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the known word nearest to ``word``, or an empty string."""
    from difflib import get_close_matches  # needed for an error only

    matches = get_close_matches(word.lower(), {k.lower(): k for k in known}, n=1, cutoff=0.5)
    by_lower = {k.lower(): k for k in known}
    return f"; did you mean '{by_lower[matches[0]]}'?" if matches else ""


def plain_message(text: str) -> str:
    """Return pydantic's message without the name of the exception that a validator raised."""
    return text.removeprefix("Value error, ").removeprefix("Assertion failed, ")
