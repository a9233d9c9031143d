"""Observations of a pass of a model made of matrix products, for the check of equal work and the verification."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from ..core.backend import Observation
from ..core.equivalence import sketch
from ..core.facts import ObservedConfig, type_name
from ..core.precision import Precision
from ..core.task import Verified
from ..core.training import Training

# Among what was seen: the type in which a block's result is handed to the next one, and added to. No precision that is
# asked for decides it: autocast adds in FP32, other frameworks in the type of the products. It is told and held against
# nothing.
STREAM = "residual_dtype"


class NamedProductTraining(Training):
    """A training whose model has products by name; a backend's class of such models inherits it."""

    # Of each observed layer the type and the shape of its result in the first step.
    first: dict[str, tuple[str, Any]]

    def config_of(self, weight: Any, rows: int, axes: Mapping[str, Any], **others: Any) -> ObservedConfig:
        """Return the observed settings, of the first product and of a ``weight``; so many ``rows`` were passed."""
        kind, _ = next(iter(self.first.values()))
        return ObservedConfig(kind, type_name(weight.dtype), rows, axes=axes, others=others)


class ObservedProduct(NamedTuple):
    """The attributes of a matrix product with weights, by the framework's own objects, and a sketch of its output.

    ``output`` is its shape: (batch, outputs), of text (batch, length, outputs); ``norm`` and ``signed_sum`` are its
    sketch.
    """

    name: str
    inputs: int
    outputs: int
    bias: bool
    output: tuple[int, ...]
    norm: float
    signed_sum: float


class NamedProducts:
    """A model of products with its own loss: a base class besides a framework's class of layers."""

    def named_products(self) -> dict[str, Any]:
        """Return the products by the shared names, in forward order."""
        raise NotImplementedError

    def named_tensors(self) -> dict[str, Any]:
        """Return the parameters by the shared names."""
        raise NotImplementedError

    def batch_logits(self, *batch: Any) -> Any:
        """Return the logits of a batch."""
        raise NotImplementedError


def observe_product(name: str, inputs: int, outputs: int, bias: bool, output: Any) -> ObservedProduct:
    """Return what a product is and did; ``output`` is numpy."""
    return ObservedProduct(name, inputs, outputs, bias, tuple(output.shape), **sketch(name, output))


def describe_products(observed: Observation) -> dict[str, Any]:
    """Return the products, ready for JSON."""
    return {"products": [product._asdict() for product in observed.operations]}


def describe_logits(observed: Observation) -> dict[str, Any]:
    """Return the sketch of the logits, ready for JSON: of a vocabulary of 50 000 they are millions."""
    return {"logits": sketch("logits", observed.logits)}


class ObservedLayers(NamedTuple):
    """A step's products: the type of each one's result by name, and the shape of what the first one got."""

    types: Mapping[str, str]
    first_input: Sequence[int] | None = None


def check_types(
    expected: Precision, layers: Collection[tuple[str, str]] | None, kind: str = "products"
) -> Verified:
    """Check the types that layers of a ``kind`` gave in the step after the window: names and types, None if unknown."""
    if layers is None:
        return Verified({"layer_types": None})
    found = Verified({"layer_types": dict(Counter(dtype for _, dtype in layers))})
    others = [(name, dtype) for name, dtype in layers if dtype != expected.compute]
    if others:
        name, dtype = others[0]
        found.doubt(
            "layer-type-differs",
            f"After the window {len(others)} of {len(layers)} {kind} compute in another type than "
            f"{expected.compute}: {name} in {dtype}.",
        )
    return found
