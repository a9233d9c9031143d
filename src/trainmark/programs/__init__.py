"""Training programs, a folder each: how they are started, how their logs read, what their options mean.

A folder holds what there is of ``card*.yaml``, ``log.py`` (``FORMAT``, with the rules that its figures are published
by), ``dialect.py`` (``DIALECT``) and ``sample.py`` (``sample``: a made-up log). Nothing names it elsewhere: folders are
found by looking, here and in the ``programs`` of extensions, and a module is imported when it is first asked for.
"""

from typing import TYPE_CHECKING

from trainmark.extensions import folders
from trainmark.lazy import attach

__path__ = [*__path__, *map(str, folders("programs"))]

if TYPE_CHECKING:
    from trainmark.programs.options import Dialect, Parameters, Said
    from trainmark.programs.reading import follow_log, read_log, read_stream
    from trainmark.programs.registry import cards, dialects, find_format, formats, samples, synthetic_log


__all__ = [
    "Dialect",
    "Parameters",
    "Said",
    "cards",
    "dialects",
    "find_format",
    "follow_log",
    "formats",
    "read_log",
    "read_stream",
    "samples",
    "synthetic_log",
]

__getattr__ = attach(
    __name__,
    {
        ".options": ("Dialect", "Parameters", "Said"),
        ".reading": ("follow_log", "read_log", "read_stream"),
        ".registry": ("cards", "dialects", "find_format", "formats", "samples", "synthetic_log"),
    },
)
