"""What a program's printed options mean on the axes of a recipe, and by which option one axis is changed."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from trainmark.logs.parameters import Parameter
from trainmark.schema.recipe import AxisName, AxisValue, Condition, RecipeAxis
from trainmark.schema.task_catalogue import task_choices

Parameters = Mapping[str, Parameter]
Said = tuple[AxisName, AxisValue, Parameter]

NONE = {"none", "null", ""}
"""Words by which programs print that an option is not set."""

_TRUE = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class Dialect:
    """One program's options.

    ``name`` is the program's for a reader. A log whose settings have all of any of ``marks`` is the program's, and
    ``read`` turns its settings into axes. ``flags`` say by axis how to change it, ``{value}`` being the value wanted;
    ``values`` are the program's own words for some of trainmark's.
    """

    name: str
    marks: tuple[tuple[str, ...], ...]
    read: Callable[[Parameters], Iterator[Said]]
    flags: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def speaks(self, parameters: Parameters) -> bool:
        """Tell whether these settings are this program's."""
        return any(all(mark in parameters for mark in marks) for marks in self.marks)


def words(parameters: Parameters, names: Mapping[str, AxisName]) -> Iterator[Said]:
    """Yield the axes that are printed under ``names``, each as a number, a truth or a word that the axis can have."""
    for name, axis in names.items():
        parameter = parameters.get(name)
        if parameter is None or parameter.value.lower() in NONE:
            continue
        # What every training has (an optimizer) may have values that no task of ours trains with.
        choices = frozenset() if axis in set(RecipeAxis) else task_choices(axis)
        if not choices or parameter.value.lower() in choices:
            # A version such as 2.10 is a word; as a number it would lose its end.
            value = parameter.value if isinstance(axis, Condition) else typed(parameter.value)
            yield axis, value, parameter


def typed(word: str) -> AxisValue:
    """Return a printed word as a truth or a number where it is one, else in lower case."""
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    for number in (int, float):
        try:
            value = number(word)
        except ValueError:
            continue
        return value if math.isfinite(value) else word.lower()
    return word.lower()


def flag(parameters: Parameters, name: str) -> bool | None:
    """Return whether the option ``name`` is printed as on; none where it is not printed or is no switch."""
    return _TRUE.get(parameters[name].value.lower()) if name in parameters else None


def backend(parameters: Parameters, name: str, data: str) -> Iterator[Said]:
    """Yield loader and data of NVIDIA's option that says both; ``data`` is what its real data are."""
    if name not in parameters:
        return
    said = parameters[name]
    word = said.value.lower()
    if word in ("synthetic", "syntetic"):
        yield RecipeAxis.DATA, "synthetic", said
        return
    yield RecipeAxis.LOADER, word if word.startswith("dali") else "native", said
    yield RecipeAxis.DATA, data, said
