"""Finding the first bad one of ordered candidates by noisy runs: commits, package versions or values.

Names are loaded at first use, because the command line imports this package for each verb.
"""

from typing import TYPE_CHECKING

from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.bisection.candidates import commits_between, listed
    from trainmark.bisection.noisy_search import Search
    from trainmark.bisection.render import render_bisection
    from trainmark.bisection.running import Workshop

__all__ = [
    "Search",
    "Workshop",
    "commits_between",
    "listed",
    "render_bisection",
]

__getattr__ = attach(
    __name__,
    {
        ".candidates": ("commits_between", "listed"),
        ".noisy_search": ("Search",),
        ".render": ("render_bisection",),
        ".running": ("Workshop",),
    },
)
