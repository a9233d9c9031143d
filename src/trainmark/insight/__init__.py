"""Comparing, explaining and judging results: the meaning of a number relative to other numbers.

Names are loaded at first use, because the command line imports this package for each verb.
"""

from typing import TYPE_CHECKING

from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.insight.axis_pairs import compare_axis
    from trainmark.insight.compared import recipe_differences
    from trainmark.insight.comparison import compare, history_of
    from trainmark.insight.evidence import load_effects
    from trainmark.insight.explanation import Explanation, explain
    from trainmark.insight.findings import find, judged
    from trainmark.insight.from_log import run_from_log
    from trainmark.insight.published import choose_reference
    from trainmark.insight.recipe import StatedRecipe, recipe_from
    from trainmark.insight.render import render_text, to_document
    from trainmark.insight.sides import ExplainedRun


__all__ = [
    "ExplainedRun",
    "Explanation",
    "StatedRecipe",
    "choose_reference",
    "compare",
    "compare_axis",
    "explain",
    "find",
    "history_of",
    "judged",
    "load_effects",
    "recipe_differences",
    "recipe_from",
    "render_text",
    "run_from_log",
    "to_document",
]

__getattr__ = attach(
    __name__,
    {
        ".axis_pairs": ("compare_axis",),
        ".compared": ("recipe_differences",),
        ".comparison": ("compare", "history_of"),
        ".evidence": ("load_effects",),
        ".explanation": ("Explanation", "explain"),
        ".findings": ("find", "judged"),
        ".from_log": ("run_from_log",),
        ".recipe": ("StatedRecipe", "recipe_from"),
        ".render": ("render_text", "to_document"),
        ".published": ("choose_reference",),
        ".sides": ("ExplainedRun",),
    },
)
