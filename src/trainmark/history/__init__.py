"""Results of one case over time: changes of level, their causes, and the noise.

Names are loaded at first use, because the command line imports this package for each verb.
"""

from typing import TYPE_CHECKING

from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.history.analysis import analyse, analyse_case
    from trainmark.history.change_points import find_changes
    from trainmark.history.points import Fact, Point, in_order, point_of, points_of_results, points_of_store
    from trainmark.history.render import render_history

__all__ = [
    "Fact",
    "Point",
    "analyse",
    "analyse_case",
    "find_changes",
    "in_order",
    "point_of",
    "points_of_results",
    "points_of_store",
    "render_history",
]

__getattr__ = attach(
    __name__,
    {
        ".analysis": ("analyse", "analyse_case"),
        ".change_points": ("find_changes",),
        ".points": ("Fact", "Point", "in_order", "point_of", "points_of_results", "points_of_store"),
        ".render": ("render_history",),
    },
)
