"""The published figure for a run or a measured case (the fastest of the same case), and the deviation from it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trainmark.errors import InputError, nearest
from trainmark.insight.from_results import run_from_case, stated_recipe
from trainmark.insight.recipe import FLAGS, StatedRecipe, recipe_of
from trainmark.insight.sides import ExplainedRun
from trainmark.reference import Reference, Statistic, load_references
from trainmark.schema.recipe import AxisValue, Condition
from trainmark.schema.results import CaseResult, Results
from trainmark.tasks import same_model, same_unit

MUST_AGREE = (Condition.FRAMEWORK, Condition.PRECISION, Condition.DEVICES, Condition.DEVICE)
_OPTIONAL = (Condition.DEVICE_MEMORY_GB, Condition.BATCH_PER_DEVICE, Condition.NODES)


def choose_reference(run: ExplainedRun, references: Iterable[Reference]) -> Reference:
    """Return the fastest figure with the run's framework, model, precision, device and number of devices.

    Memory, batch and nodes must agree if both sides state them. Raises ``InputError`` if there is no figure of
    that case, or the run does not state its case.
    """
    references = tuple(references)
    model, unstated = run.recipe.value(Condition.MODEL), _unstated(run.recipe)
    if model is None or unstated:
        missing = ", ".join([*(["model"] if model is None else []), *unstated])
        lacking = [*([Condition.MODEL] if model is None else []), *unstated]
        flags = [FLAGS[one] for one in lacking if one in FLAGS]
        cure = "choose a published figure with --reference, or another run, log or result with --against"
        if flags:
            cure = (
                f"add {', '.join(flags)}, {'or' if len(flags) == len(lacking) else 'and for the rest'} {cure}"
            )
        raise InputError(f"{run.name} does not state its {missing}: {cure}{_closest(run, model, references)}")
    found = [figure for figure in _of_model(run, model, references) if _agrees(run, figure)]
    if not found:
        raise InputError(
            f"there is no published figure for the case of {run.name}: choose one with --reference"
            f"{_closest(run, model, references)}; trainmark reference list shows all"
        )
    return max(found, key=lambda reference: reference.value or 0.0)


def _of_model(run: ExplainedRun, model: AxisValue, references: Iterable[Reference]) -> Iterator[Reference]:
    """Yield the measured figures of a model in the run's unit."""
    for figure in references:
        if (
            figure.value is not None
            and figure.statistic not in (Statistic.EXAMPLE, Statistic.SINGLE_RUN)
            and same_model(model, figure.model)
            and (run.unit is None or same_unit(run.unit, figure.unit))
        ):
            yield figure


_MOST_NAMES = 3
"""The figures that an error names."""


def _closest(run: ExplainedRun, model: AxisValue | None, references: Sequence[Reference]) -> str:
    """Return the names of the model's figures that agree most with the run, in brackets; empty without a model.

    For a model without figures it is the nearest name of one that has some.
    """
    if model is None:
        return ""

    def agreements(figure: Reference) -> int:
        there = recipe_of(figure)
        stated = ((run.recipe.value(axis), there.value(axis)) for axis in (*MUST_AGREE, *_OPTIONAL))
        return sum(here is not None and here == other for here, other in stated)

    ranked = sorted(_of_model(run, model, references), key=agreements, reverse=True)
    names = ", ".join(figure.id for figure in ranked[:_MOST_NAMES])
    if names:
        return f" (the closest of its model: {names})"
    return f" (no figure is of the model '{model}'{nearest(str(model), {one.model for one in references})})"


def _agrees(run: ExplainedRun, reference: Reference) -> bool:
    there = recipe_of(reference)
    if any(run.recipe.value(axis) != there.value(axis) for axis in MUST_AGREE):
        return False
    pairs = ((run.recipe.value(axis), there.value(axis)) for axis in _OPTIONAL)
    return all(here is None or other is None or here == other for here, other in pairs)


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
    measured = (case for case in results.cases if case.estimate is not None)
    stated = [case for case in measured if not _unstated(stated_recipe(results, case))]
    by_key: dict[tuple[object, ...], list[Reference]] = {}
    for reference in load_references() if stated else ():
        if reference.value is not None:
            by_key.setdefault(_key(recipe_of(reference)), []).append(reference)
    for case in stated:
        run = run_from_case(results, case, case.id)
        try:
            found = choose_reference(run, by_key.get(_key(run.recipe), ()))
        except InputError:
            continue
        if found.value is not None and case.estimate is not None:
            yield PublishedFigure(case, found, case.estimate.median / found.value - 1)


def _unstated(recipe: StatedRecipe) -> list[Condition]:
    return [axis for axis in MUST_AGREE if recipe.value(axis) is None]


def _key(recipe: StatedRecipe) -> tuple[object, ...]:
    return tuple(recipe.value(axis) for axis in MUST_AGREE)
