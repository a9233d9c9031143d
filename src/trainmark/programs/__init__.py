"""Training programs, a folder each: how they are started, how their logs read, what their options mean.

A folder holds what there is of ``card*.yaml``, ``log.py`` (``FORMAT``, with the rules that its figures are published
by), ``dialect.py`` (``DIALECT``) and ``sample.py`` (``sample``: a made-up log). Nothing names it elsewhere: folders are
found by looking, here and in the ``programs`` of extensions, and a module is imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from trainmark.extensions import folders

__path__ = [*__path__, *map(str, folders("programs"))]

if TYPE_CHECKING:
    from trainmark.programs.options import Dialect, Parameters, Said
    from trainmark.programs.reading import read_log, read_stream
    from trainmark.programs.registry import cards, dialects, find_format, formats, samples, synthetic_log

_HOMES = {
    "Dialect": "options",
    "Parameters": "options",
    "Said": "options",
    "cards": "registry",
    "dialects": "registry",
    "find_format": "registry",
    "formats": "registry",
    "read_log": "reading",
    "read_stream": "reading",
    "samples": "registry",
    "synthetic_log": "registry",
}

__all__ = [
    "Dialect",
    "Parameters",
    "Said",
    "cards",
    "dialects",
    "find_format",
    "formats",
    "read_log",
    "read_stream",
    "samples",
    "synthetic_log",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
