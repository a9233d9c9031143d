"""Doubts about a number that was read from a log, as suspicions of the run."""

from collections.abc import Iterable, Iterator

from trainmark.logs import Problem, Severity
from trainmark.schema.measurement import About, Suspicion

_OF_THE_WINDOW = frozenset(
    {
        "stall",
        "uneven-steps",
        "pace-changes",
        "few-records",
        "short-log",
        "few-steps",
        "few-digits",
        "between-epochs",
    }
)
"""Codes of doubts about how even and how long the measured window is; the others are about the work in it."""


def log_suspicions(problems: Iterable[Problem]) -> Iterator[Suspicion]:
    """Yield the doubts among the problems of a log: about the measured window, or about its work."""
    for problem in problems:
        if problem.severity is Severity.DOUBT:
            about = About.WINDOW if problem.code in _OF_THE_WINDOW else About.WORK
            yield Suspicion(code=problem.code, sentence=problem.message, about=about)
