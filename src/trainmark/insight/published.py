"""The published figures of the measured cases, and the deviation from them."""

from collections.abc import Iterator
from dataclasses import dataclass

from trainmark.errors import InputError
from trainmark.insight.choose import MUST_AGREE, choose_reference
from trainmark.insight.from_results import run_from_case
from trainmark.insight.recipe import StatedRecipe, recipe_of
from trainmark.reference import Reference, load_references
from trainmark.schema.results import CaseResult, Results


@dataclass(frozen=True, slots=True)
class PublishedFigure:
    """A measured case with the published figure of the same case that ``explain`` chooses, the fastest one.

    ``deviation`` is the case's throughput over the published one, minus 1.
    """

    case: CaseResult
    figure: Reference
    deviation: float


def published_figures(results: Results) -> Iterator[PublishedFigure]:
    """Yield each measured case that has a published figure."""
    by_key: dict[tuple[object, ...], list[Reference]] = {}
    for reference in load_references():
        if reference.value is not None:
            by_key.setdefault(_key(recipe_of(reference)), []).append(reference)
    for case in results.cases:
        if case.estimate is None:
            continue
        run = run_from_case(results, case, case.id)
        try:
            found = choose_reference(run, by_key.get(_key(run.recipe), ()))
        except InputError:
            continue
        if found.value is not None:
            yield PublishedFigure(case, found, case.estimate.median / found.value - 1)


def _key(recipe: StatedRecipe) -> tuple[object, ...]:
    return tuple(recipe.value(axis) for axis in MUST_AGREE)
