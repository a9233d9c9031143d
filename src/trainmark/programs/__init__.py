"""Training programs: launch commands, log formats and the meaning of their options.

``cards/`` has a card for each program that can be run, ``log_formats/`` each log format and ``options/`` the dialects
of the options that programs print. Each is also found in the ``programs`` of extensions.
"""

from typing import TYPE_CHECKING

from trainmark.documents import NamedText, documents_of
from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.programs.log_formats import find_format, format_of, formats, samples, synthetic_log
    from trainmark.programs.options import (
        Dialect,
        Parameters,
        RecipeSetting,
        dialects,
        settings_of_axes,
        stated_settings,
    )
    from trainmark.programs.reading import follow_log, read_log, read_stream


__all__ = [
    "Dialect",
    "Parameters",
    "RecipeSetting",
    "card_documents",
    "dialects",
    "find_format",
    "follow_log",
    "format_of",
    "formats",
    "read_log",
    "read_stream",
    "samples",
    "settings_of_axes",
    "stated_settings",
    "synthetic_log",
]

__getattr__ = attach(
    __name__,
    {
        ".log_formats": ("find_format", "format_of", "formats", "samples", "synthetic_log"),
        ".options": (
            "Dialect",
            "Parameters",
            "RecipeSetting",
            "dialects",
            "settings_of_axes",
            "stated_settings",
        ),
        ".reading": ("follow_log", "read_log", "read_stream"),
    },
)


def card_documents() -> tuple[NamedText, ...]:
    """Return the cards of all programs, sorted by name."""
    return documents_of("programs/cards")
