"""Recipe differences between the logs of one table, for the programs that the table compares."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from trainmark.insight.from_log import stated_recipe
from trainmark.insight.recipe import Reading, StatedRecipe
from trainmark.logs import Facts
from trainmark.schema.recipe import AxisName, Condition
from trainmark.tasks import model_word

_Cell = tuple[str, str | None, int | None, int | None]


def recipe_differences(logs: Iterable[tuple[Path, Facts]]) -> list[str]:
    """Return a line for each axis on which the programs of a table have different recipes.

    Logs are compared within a model, precision, batch and number of devices. If two programs' logs have different
    values, the comparison shows more than the programs' speeds. An axis that only one of them prints is no difference.
    """
    cells: dict[_Cell, dict[str, StatedRecipe]] = {}
    for path, facts in logs:
        recipe = stated_recipe(path)
        if recipe.program is not None and facts.model is not None:
            cells.setdefault(_cell(facts), {}).setdefault(recipe.program, recipe)
    differing: dict[AxisName, tuple[_Cell, dict[str, Reading]]] = {}
    for cell, recipes in cells.items():
        for axis, readings in _differences(recipes):
            differing.setdefault(axis, (cell, readings))
    return [_line(axis, cell, readings) for axis, (cell, readings) in differing.items()]


def _cell(facts: Facts) -> _Cell:
    family = model_word(facts.model or "").split("_v")[0].split("-")[0].split("_")[0]
    return family, facts.precision, facts.batch_per_device, facts.gpus


def _differences(recipes: dict[str, StatedRecipe]) -> Iterator[tuple[AxisName, dict[str, Reading]]]:
    for axis in dict.fromkeys(axis for recipe in recipes.values() for axis in recipe.readings):
        readings = {
            program: recipe.readings[axis] for program, recipe in recipes.items() if axis in recipe.readings
        }
        if axis not in set(Condition) and len({reading.value for reading in readings.values()}) > 1:
            yield axis, readings


def _line(axis: AxisName, cell: _Cell, readings: dict[str, Reading]) -> str:
    model, precision, batch, gpus = cell
    values = ", ".join(f"{reading.value} ({program})" for program, reading in readings.items())
    where = f"{model}, {gpus or '?'} devices, batch {batch or '?'}, {precision or 'precision unknown'}"
    return f"the table compares recipes with different {axis}: {values} (at {where})"
