"""Weights in and out by the names that all frameworks share, and what a forward and backward pass computed."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Sequence

import jax
import numpy as np
from flax import linen as nn
from flax.traverse_util import flatten_dict
from jax.extend.core import jaxprs_in_params

from ...tasks.image_classification.architectures import ARCHITECTURES
from ...tasks.image_classification.observing import ConvolutionSeen, Observation, convolution_seen
from ...tasks.image_classification.witness import LayerSeen

# Flax's names, and how an array is turned into the shared order (outputs first) and back.
SHARED = {"kernel": "weight", "scale": "weight", "bias": "bias", "mean": "running_mean", "var": "running_var"}
TO_SHARED = {4: (3, 2, 0, 1), 2: (1, 0), 1: (0,)}
FROM_SHARED = {4: (2, 3, 1, 0), 2: (1, 0), 1: (0,)}


def to_shared(tree: Any) -> Dict[str, Any]:
    """Return the leaves of a parameter or statistics tree as numpy arrays, by the names of ``Architecture.shapes``."""
    named = {}
    for path, leaf in flatten_dict(tree).items():
        array = np.asarray(leaf, np.float32)
        named[_name(path)] = np.ascontiguousarray(array.transpose(TO_SHARED[array.ndim]))
    return named


def from_shared(tree: Any, arrays: Mapping[str, Any]) -> Any:
    """Return a tree like ``tree`` with the values of ``arrays``, each in the type of the leaf before."""

    def replaced(path: Any, leaf: Any) -> Any:
        array = arrays[_name([part.key for part in path])]
        return np.ascontiguousarray(array.transpose(FROM_SHARED[array.ndim])).astype(leaf.dtype)

    return jax.tree_util.tree_map_with_path(replaced, tree)


def _name(path: Any) -> str:
    *layer, last = path
    return ".".join([*layer, SHARED[last]])


def observe(
    loss_of: Callable[..., Any], model: str, params: Any, batch_stats: Any, batch: Any
) -> Observation:
    """Pass the batch forward and backward by the function that the step differentiates; return what was computed."""

    def collecting(params: Any, batch_stats: Any, batch: Any) -> Any:
        collections = ("batch_stats", "intermediates")
        return loss_of(params, batch_stats, batch, mutable=collections, capture_intermediates=_of_convolution)

    passes = jax.value_and_grad(collecting, has_aux=True)
    (loss, (logits, changed)), gradients = passes(params, batch_stats, batch)
    operations = convolutions_of(jax.make_jaxpr(collecting)(params, batch_stats, batch).jaxpr)
    outputs = {
        ".".join(path[: path.index("conv")]): value[0]
        for path, value in flatten_dict(changed["intermediates"]).items()
    }
    layers = ARCHITECTURES[model].convolutions
    assert len(operations) == len(layers)
    seen = [_seen(layer.name, operation, outputs[layer.name]) for layer, operation in zip(layers, operations)]
    return Observation(np.asarray(logits), float(loss), to_shared(gradients), seen)


def _of_convolution(module: nn.Module, method: str) -> bool:
    return isinstance(module, nn.Conv) and method == "__call__"


CONVOLUTION, PRODUCT = "conv_general_dilated", "dot_general"


def convolutions_of(jaxpr: Any, kinds: Sequence[str] = (CONVOLUTION,)) -> List[Any]:
    """Return the convolution operations of a traced program, those of its inner programs too, in their order."""
    found: List[Any] = []
    for operation in jaxpr.eqns:
        if operation.primitive.name in kinds:
            found.append(operation)
        for inner in jaxprs_in_params(operation.params):
            found += convolutions_of(inner, kinds)
    return found


def layers_of(jaxpr: Any, model: str) -> List[LayerSeen]:
    """Return the convolutions and products of a traced step, also of its backward pass, by their inputs' type."""
    names = iter([layer.name for layer in ARCHITECTURES[model].convolutions])
    seen: List[LayerSeen] = []
    for operation in convolutions_of(jaxpr, (CONVOLUTION, PRODUCT)):
        kind = operation.primitive.name
        name = next(names, "backward") if kind == CONVOLUTION else "classifier"
        seen.append(LayerSeen(name, operation.invars[0].aval.dtype.name))
    return seen


def _seen(name: str, operation: Any, output: Any) -> ConvolutionSeen:
    """Return the facts of a convolution operation; its dimension numbers say which axis is which."""
    facts = operation.params
    numbers = facts["dimension_numbers"]
    kernel, result = operation.invars[1].aval.shape, operation.outvars[0].aval.shape
    assert tuple(output.shape) == tuple(result)
    (top, bottom), (left, right) = facts["padding"]
    return convolution_seen(
        name,
        (kernel[numbers.rhs_spec[2]], kernel[numbers.rhs_spec[3]]),
        facts["window_strides"],
        ((top, bottom), (left, right)),
        facts["feature_group_count"],
        np.asarray(output).transpose(numbers.out_spec),
    )
