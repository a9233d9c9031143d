"""Training programs, one folder each: launch commands, log formats and the meaning of their options.

A folder may contain ``card*.yaml``, ``dialect.py`` (``DIALECT``) and a log format: ``log.yaml``, or ``log.py``
(``FORMAT``) with ``sample.py`` (``sample``: a synthetic log). There is no other list of programs: folders are
discovered here and in the ``programs`` of extensions, and a module is imported on first use.
"""

from typing import TYPE_CHECKING

from trainmark.extensions import folders
from trainmark.lazy import attach

__path__ = [*__path__, *map(str, folders("programs"))]

if TYPE_CHECKING:
    from trainmark.programs.options import Dialect, Parameters, RecipeSetting
    from trainmark.programs.reading import follow_log, read_log, read_stream
    from trainmark.programs.registry import cards, dialects, find_format, formats, samples, synthetic_log


__all__ = [
    "Dialect",
    "Parameters",
    "RecipeSetting",
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
        ".options": ("Dialect", "Parameters", "RecipeSetting"),
        ".reading": ("follow_log", "read_log", "read_stream"),
        ".registry": ("cards", "dialects", "find_format", "formats", "samples", "synthetic_log"),
    },
)
