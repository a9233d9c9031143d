"""Reading logs, of the formats of ``trainmark.programs``: ranks, colours, cuts and archives are handled once, for all.

Names are loaded when they are first used, so that ``trainmark.logs.events`` alone stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainmark.logs.discover import find_logs
    from trainmark.logs.format import Context, Format
    from trainmark.logs.hints import Hints, read_hints
    from trainmark.logs.model import (
        Ending,
        Facts,
        Meaning,
        ParsedLog,
        Problem,
        Record,
        Records,
        Scope,
        Severity,
        Status,
    )
    from trainmark.logs.read import read_log, read_stream

_HOMES = {
    "Context": "format",
    "Ending": "model",
    "Facts": "model",
    "Format": "format",
    "Hints": "hints",
    "Meaning": "model",
    "ParsedLog": "model",
    "Problem": "model",
    "Record": "model",
    "Records": "model",
    "Scope": "model",
    "Severity": "model",
    "Status": "model",
    "find_logs": "discover",
    "read_hints": "hints",
    "read_log": "read",
    "read_stream": "read",
}

__all__ = [
    "Context",
    "Ending",
    "Facts",
    "Format",
    "Hints",
    "Meaning",
    "ParsedLog",
    "Problem",
    "Record",
    "Records",
    "Scope",
    "Severity",
    "Status",
    "find_logs",
    "read_hints",
    "read_log",
    "read_stream",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
