"""Training programs: launch commands, log formats and the meaning of their options.

``cards/`` has a card for each program that can be run, ``log_formats/`` each log format and ``options/`` the dialects
of the options that programs print. Each is also found in the ``programs`` of extensions.
"""

from typing import TYPE_CHECKING

from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.programs.options import Parameters, dialects, settings_of_axes, stated_settings
    from trainmark.programs.reading import (
        find_format,
        follow_log,
        format_of,
        formats,
        read_log,
        read_stream,
        samples,
        synthetic_log,
    )


__all__ = [
    "Parameters",
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
        ".options": (
            "Parameters",
            "dialects",
            "settings_of_axes",
            "stated_settings",
        ),
        ".reading": (
            "find_format",
            "follow_log",
            "format_of",
            "formats",
            "read_log",
            "read_stream",
            "samples",
            "synthetic_log",
        ),
    },
)
