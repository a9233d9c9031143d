"""Which rows of the tables the steps after the window move, and which a lazy optimizer leaves alone."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.place import place_from
from .facts import SPARSE_GRADIENTS
from .settings import ClickSettings

LEFT = 0.05
"""The published Adam leaves hardly a row where it is; a lazy one all of those that no rank looks up."""


def rows_told(
    settings: ClickSettings,
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    weights: Sequence[Mapping[str, Any]],
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return which part of rows that Adam moved, and that the next step does not look up, stood still; and doubts.

    ``first`` and ``second`` are the rows that the steps look up, by table, ``weights`` before, between and after them.
    """
    import numpy as np

    before, between, after = weights
    rows = still = 0
    for name, numbers in first.items():
        only = np.setdiff1d(numbers, second[name])
        only = only[(before[name][only] != between[name][only]).any(axis=1)]
        rows += len(only)
        still += int((between[name][only] == after[name][only]).all(axis=1).sum())
    if not rows:
        return {"rows_left": None}, []
    part, doubts = still / rows, []
    if settings.table_gradients != SPARSE_GRADIENTS and part > LEFT:
        sentence = (
            f"{still} of {rows} rows of the tables that only the previous step looked up do not change: "
            "a lazy Adam instead of the published one."
        )
        doubts.append(("rows-left-alone", sentence))
    elif settings.table_gradients == SPARSE_GRADIENTS and part < 1 - LEFT and place_from().world_size == 1:
        sentence = (
            f"{rows - still} of {rows} rows of the tables that only the previous step looked up change: "
            "an Adam of all rows instead of sparse gradients."
        )
        doubts.append(("rows-move", sentence))
    return {"rows_left": part}, doubts
