"""trainmark measures how fast deep-learning programs train.

The library (docs/reference/library.md): ``parse`` reads a log, ``load`` results, ``run`` measures a suite or a command,
``compare`` and ``explain`` relate two results, ``audit`` checks a published table, and ``measure`` measures a training
loop in its own script. Names are imported on first use: ``import trainmark`` and ``measure`` need the standard library.
"""

import sys
from typing import TYPE_CHECKING

if sys.version_info < (3, 11):  # noqa: UP036  # Pip refuses older ones, but PYTHONPATH does not.
    raise ImportError(
        "trainmark needs Python 3.11 or later; with an older one, print a line per step, or write trainmark's "
        "events yourself (docs/reference/events.md)"
    )

from trainmark.imports import attach
from trainmark.version import __version__ as __version__

if TYPE_CHECKING:
    from trainmark.api.comparing import audit, compare, explain
    from trainmark.api.log_reading import parse
    from trainmark.api.results import Results, load
    from trainmark.api.running import run
    from trainmark.api.suites import Suite
    from trainmark.schema.case import Case
    from trainmark.training_loop import measure

__all__ = [
    "Case",
    "Results",
    "Suite",
    "audit",
    "compare",
    "explain",
    "load",
    "measure",
    "parse",
    "run",
]

__getattr__ = attach(
    __name__,
    {
        ".api.comparing": ("audit", "compare", "explain"),
        ".api.log_reading": ("parse",),
        ".api.results": ("Results", "load"),
        ".api.running": ("run",),
        ".api.suites": ("Suite",),
        ".schema.case": ("Case",),
        ".training_loop": ("measure",),
    },
)


def __dir__() -> list[str]:
    # A loaded subpackage is an attribute, but none of the library's names.
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
