"""The types of flags, for ``type=`` of argparse: each turns a word into a value or says what is wrong with it."""

import argparse


def truth(text: str) -> bool:
    """Return whether the word is ``true``; it must be that or ``false``."""
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither 'true' nor 'false'")
    return text == "true"


def positive(text: str) -> int:
    """Return a whole number of at least 1."""
    value = count(text)
    if value == 0:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def count(text: str) -> int:
    """Return a whole number of at least 0."""
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return value


def norm(text: str) -> float | None:
    """Return a length to which gradients are clipped, None for 0: they are not."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError("must not be negative, nor infinite")
    return value or None


def loss_scale(text: str) -> float | None:
    """Return a fixed scale, None for ``dynamic``."""
    if text == "dynamic":
        return None
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither 'dynamic' nor a number") from None
    if not value >= 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value
