"""Log reading for the formats of ``trainmark.programs``: rank tags, colour codes, truncation and gzip handled once.

Names are loaded on first use, so importing ``trainmark.logs.events`` alone stays light.
"""

from typing import TYPE_CHECKING

from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.logs.facts import Hints, read_hints
    from trainmark.logs.lines.transport import find_logs
    from trainmark.logs.model import EndState, Facts, Meaning, ParsedLog, Problem, Scope, Severity, Status
    from trainmark.logs.read import read_log, read_stream


__all__ = [
    "EndState",
    "Facts",
    "Hints",
    "Meaning",
    "ParsedLog",
    "Problem",
    "Scope",
    "Severity",
    "Status",
    "find_logs",
    "read_hints",
    "read_log",
    "read_stream",
]

__getattr__ = attach(
    __name__,
    {
        ".model": (
            "EndState",
            "Facts",
            "Meaning",
            "ParsedLog",
            "Problem",
            "Scope",
            "Severity",
            "Status",
        ),
        ".facts": ("Hints", "read_hints"),
        ".read": ("read_log", "read_stream"),
        ".lines.transport": ("find_logs",),
    },
)
