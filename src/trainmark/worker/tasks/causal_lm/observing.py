"""What a pass of a language model computed, as the check of equal work and the look after the window want it."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ...core.equivalence import sketch
from ...core.facts import Expected
from ..language import LanguageSettings


class ProductSeen(NamedTuple):
    """What the framework's own objects say of a matrix product with weights, and what came out of it.

    ``output`` is (batch, length, outputs); ``norm`` and ``signed_sum`` are its sketch.
    """

    name: str
    inputs: int
    outputs: int
    bias: bool
    output: Tuple[int, int, int]
    norm: float
    signed_sum: float


class Observation(NamedTuple):
    """One forward and backward pass of the whole batch, without an update; arrays are numpy's, float32.

    ``logits`` is (batch, length, vocabulary); ``gradients`` are by the names and in the shapes of ``Decoder.shapes``.
    """

    logits: Any
    loss: float
    gradients: Mapping[str, Any]
    products: Sequence[ProductSeen]


def product_seen(name: str, inputs: int, outputs: int, bias: bool, output: Any) -> ProductSeen:
    """Return what a product is and did; ``output`` is numpy, (batch, length, outputs)."""
    batch, length, width = output.shape
    return ProductSeen(name, inputs, outputs, bias, (batch, length, width), **sketch(name, output))


def products_told(seen: Observation) -> Dict[str, Any]:
    """Return the products, ready for JSON."""
    return {"products": [product._asdict() for product in seen.products]}


def logits_told(seen: Observation) -> Dict[str, Any]:
    """Return the sketch of the logits, ready for JSON: of a vocabulary of 50 000 they are millions."""
    return {"logits": sketch("logits", seen.logits)}


class LayersSeen(NamedTuple):
    """A step's products: the type of each one's result by name, and how many tokens of a sequence the first one got."""

    types: Mapping[str, str]
    sequence_length: Optional[int]


def looked(
    settings: LanguageSettings, expected: Expected, seen: Optional[LayersSeen], alone: Any
) -> Tuple[Dict[str, Any], List[Tuple[str, str]]]:
    """Return what the events say of the step after the window, and the doubts."""
    if seen is None:
        products = alone.products if isinstance(alone, Observation) else ()
        length = products[0].output[1] if products else None
        types: Optional[Mapping[str, str]] = None
    else:
        types, length = seen.types, seen.sequence_length
    doubts: List[Tuple[str, str]] = []
    others = {name: kind for name, kind in (types or {}).items() if kind != expected.compute_dtype}
    for name, kind in list(others.items())[:1]:
        sentence = (
            f"After the window {len(others)} of {len(types or ())} products compute in another type than "
            f"{expected.compute_dtype}: {name} in {kind}."
        )
        doubts.append(("layer-type-differs", sentence))
    if length not in (None, settings.sequence_length):
        sentence = f"The model got sequences of {length} tokens, not {settings.sequence_length}."
        doubts.append(("sequence-length-differs", sentence))
    counted = None if types is None else dict(Counter(types.values()))
    return {"layer_types": counted, "seen_sequence_length": length}, doubts
