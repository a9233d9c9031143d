"""What a pass of a recommender computed, as the check of equal work and the look after the window want it."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...core.equivalence import sketch
from ...core.facts import Expected
from ...core.place import place_from
from .facts import SPARSE_GRADIENTS
from .settings import ClickSettings

LEFT = 0.05
"""The published Adam leaves hardly a row where it is; a lazy one all of those that no rank looks up."""


class LayerSeen(NamedTuple):
    """What the framework's own objects say of a product, and what came out of it.

    ``output`` is (batch, outputs); ``norm`` and ``signed_sum`` are its sketch.
    """

    name: str
    inputs: int
    outputs: int
    bias: bool
    output: Tuple[int, int]
    norm: float
    signed_sum: float


class Observation(NamedTuple):
    """One forward and backward pass of the whole batch, without an update; arrays are numpy's, float32.

    ``logits`` is (batch,); ``gradients`` are by the names and in the shapes of ``WideDeep.shapes``.
    """

    logits: Any
    loss: float
    gradients: Mapping[str, Any]
    products: Sequence[LayerSeen]


def layer_seen(name: str, inputs: int, outputs: int, bias: bool, output: Any) -> LayerSeen:
    """Return what a product is and did; ``output`` is numpy, (batch, outputs)."""
    batch, width = output.shape
    return LayerSeen(name, inputs, outputs, bias, (batch, width), **sketch(name, output))


def layers_told(seen: Observation) -> Dict[str, Any]:
    """Return the products, ready for JSON."""
    return {"products": [product._asdict() for product in seen.products]}


def logits_told(seen: Observation) -> Dict[str, Any]:
    """Return the sketch of the logits, ready for JSON."""
    return {"logits": sketch("logits", seen.logits)}


def rows_told(
    settings: ClickSettings,
    first: Mapping[str, Any],
    second: Mapping[str, Any],
    weights: Sequence[Mapping[str, Any]],
) -> Tuple[Dict[str, Any], List[Tuple[str, str]]]:
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
            f"{still} of {rows} rows of the tables that only the step before looked up stand still: "
            "a lazy Adam, where the published one was asked for."
        )
        doubts.append(("rows-left-alone", sentence))
    elif settings.table_gradients == SPARSE_GRADIENTS and part < 1 - LEFT and place_from().world_size == 1:
        sentence = (
            f"{rows - still} of {rows} rows of the tables that only the step before looked up move: "
            "an Adam of all rows, where sparse gradients were asked for."
        )
        doubts.append(("rows-move", sentence))
    return {"rows_left": part}, doubts


def looked(
    expected: Expected, types: Optional[Mapping[str, str]]
) -> Tuple[Dict[str, Any], List[Tuple[str, str]]]:
    """Return what the events say of the types that products gave in the step after the window, and the doubts."""
    if types is None:
        return {"layer_types": None}, []
    others = {name: kind for name, kind in types.items() if kind != expected.compute_dtype}
    doubts = [
        (
            "layer-type-differs",
            f"After the window {len(others)} of {len(types)} products compute in another type than "
            f"{expected.compute_dtype}: {name} in {kind}.",
        )
        for name, kind in list(others.items())[:1]
    ]
    return {"layer_types": dict(Counter(types.values()))}, doubts
