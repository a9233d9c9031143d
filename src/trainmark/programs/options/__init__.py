"""Mapping of a program's printed options to the axes of a recipe, and of axes to the options that change them.

Modules of this folder, and of ``programs/options`` of extensions, have ``DIALECTS``: dialects by the program's name.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from trainmark.extensions import folders
from trainmark.logs.parameters import Parameter
from trainmark.schema.recipe import AxisName, AxisValue, Condition, RecipeAxis
from trainmark.schema.task_catalogue import task_choices

__path__ = [*__path__, *map(str, folders("programs/options"))]

Parameters = Mapping[str, Parameter]
RecipeSetting = tuple[AxisName, AxisValue, Parameter]

NONE = {"none", "null", ""}
"""Values that programs print for an option that is not set."""

_TRUE = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class Dialect:
    """One program's options.

    ``name`` is the program's name for display. A log belongs to the program if its settings have all names of one of
    ``marks``; ``read`` converts its settings to axes. ``flags`` are the options that change an axis, with ``{value}``
    for the new value; ``values`` translate trainmark's values to the program's.
    """

    name: str
    marks: tuple[tuple[str, ...], ...]
    read: Callable[[Parameters], Iterator[RecipeSetting]]
    flags: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def recognises(self, parameters: Parameters) -> bool:
        """Return whether these settings are this program's."""
        return any(all(mark in parameters for mark in marks) for marks in self.marks)


@cache
def dialects() -> Mapping[str, Dialect]:
    """Return the dialect of each program that prints its options, by the program's name."""
    modules = sorted(module.name for module in iter_modules(__path__, f"{__name__}."))
    found = [import_module(name).DIALECTS for name in modules]
    return {name: dialect for known in found for name, dialect in known.items()}


def words(parameters: Parameters, names: Mapping[str, AxisName]) -> Iterator[RecipeSetting]:
    """Yield the axes printed under ``names``, each as a number, a boolean or a valid value of the axis."""
    for name, axis in names.items():
        parameter = parameters.get(name)
        if parameter is None or parameter.value.lower() in NONE:
            continue
        # Axes of every training (such as the optimizer) may have values that none of our tasks supports.
        choices = frozenset() if axis in set(RecipeAxis) else task_choices(axis)
        if not choices or parameter.value.lower() in choices:
            # A version such as 2.10 stays a string; as a number it would lose its last digit.
            value = parameter.value if isinstance(axis, Condition) else typed(parameter.value)
            yield axis, value, parameter


def typed(word: str) -> AxisValue:
    """Return a printed word as a boolean or a number if it is one, else in lower case."""
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
    """Return whether the option ``name`` is printed as on; ``None`` if it is not printed or not a switch."""
    return _TRUE.get(parameters[name].value.lower()) if name in parameters else None


def backend(parameters: Parameters, name: str, data: str) -> Iterator[RecipeSetting]:
    """Yield loader and data of NVIDIA's option that sets both; ``data`` is the kind of its real data."""
    if name not in parameters:
        return
    parameter = parameters[name]
    word = parameter.value.lower()
    if word in ("synthetic", "syntetic"):
        yield RecipeAxis.DATA, "synthetic", parameter
        return
    yield RecipeAxis.LOADER, word if word.startswith("dali") else "native", parameter
    yield RecipeAxis.DATA, data, parameter
