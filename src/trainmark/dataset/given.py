"""Data in a form that only other programs read: it can be given, and is neither made, converted nor checked."""

from pathlib import Path

from trainmark.errors import InputError


def require_given(location: Path) -> None:
    """Raise ``InputError`` unless there is something in the folder."""
    try:
        if not any(location.iterdir()):
            raise InputError(f"{location}: is empty")
    except OSError as error:
        raise InputError(f"{location}: cannot be read ({error.strerror})") from None
