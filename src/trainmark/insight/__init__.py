"""Compare, audit, explain, predict, judge: what a number means beside other numbers.

Names are loaded when they are first used: the command line imports this room on its way to one verb.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainmark.insight.choose import choose_reference
    from trainmark.insight.evidence import Effect, load_effects
    from trainmark.insight.explanation import Difference, Explanation, Run, explain
    from trainmark.insight.findings import find, judged
    from trainmark.insight.from_log import run_from_log
    from trainmark.insight.recipe import Reading, Recipe, recipe_from, recipe_of
    from trainmark.insight.render import render_text, to_document

_HOMES = {
    "Difference": "explanation",
    "Effect": "evidence",
    "Explanation": "explanation",
    "Reading": "recipe",
    "Recipe": "recipe",
    "Run": "explanation",
    "choose_reference": "choose",
    "explain": "explanation",
    "find": "findings",
    "judged": "findings",
    "load_effects": "evidence",
    "recipe_from": "recipe",
    "recipe_of": "recipe",
    "render_text": "render",
    "run_from_log": "from_log",
    "to_document": "render",
}

__all__ = [
    "Difference",
    "Effect",
    "Explanation",
    "Reading",
    "Recipe",
    "Run",
    "choose_reference",
    "explain",
    "find",
    "judged",
    "load_effects",
    "recipe_from",
    "recipe_of",
    "render_text",
    "run_from_log",
    "to_document",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
