"""What a pass of a recommender computed, as the check of equal work and the look after the window want it."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...core.equivalence import sketch
from ...core.facts import Expected


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
