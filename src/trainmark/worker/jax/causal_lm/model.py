"""Language models as pure functions of their parameters; what their layers are stands in ``architectures.py``.

Parameters are a flat dictionary by the names and in the shapes of ``Decoder.shapes``: XLA takes products of
(outputs, inputs) as well as of the transposed order.
"""

from __future__ import annotations

from typing import Any, Callable, Tuple

import jax
import jax.numpy as jnp
import optax

from ...tasks.causal_lm.architectures import DEVIATION, Decoder, Llama, is_norm
from ..precision import Precision
from . import gpt, llama
from .layers import Params, Tap


def init(model: Decoder, seed: int, dtype: Any) -> Params:
    """Return fresh parameters; their number is asserted. May be traced."""
    shapes = model.shapes()
    keys = jax.random.split(jax.random.key(seed, impl="rbg"), len(shapes))
    params = {}
    for key, (parameter, shape) in zip(keys, shapes.items()):
        if is_norm(parameter):
            params[parameter] = jnp.ones(shape, dtype)
        else:
            added = parameter.endswith(("output.weight", "down.weight"))
            deviation = model.added_deviation if added else DEVIATION
            params[parameter] = (jax.random.normal(key, shape) * deviation).astype(dtype)
    found, expected = sum(leaf.size for leaf in params.values()), model.parameters()
    assert found == expected, f"the model has {found} parameters instead of {expected}"
    return params


def attention_kernel(platform: str, precision: Precision) -> str:
    """Return who computes attention: cuDNN's fused kernel on a GPU in 16 bits, else XLA."""
    return "cudnn" if platform != "cpu" and precision.compute != jnp.float32 else "xla"


def make_loss(model: Decoder, precision: Precision, kernel: str, seen: Tap) -> Callable[..., Any]:
    """Return ``loss(params, batch_stats, batch, tap)``, which gives (loss, (logits, what the layers changed)).

    A batch is tokens (batch, length + 1); the loss is in FP32. ``seen`` gets the products where no ``tap`` does.
    """

    logits_of = llama.logits_of if isinstance(model, Llama) else gpt.logits_of

    def loss_of(params: Params, batch_stats: Any, batch: Tuple[Any], tap: Tap = seen) -> Any:
        (tokens,) = batch
        logits = logits_of(model, precision, kernel, params, tokens[:, :-1], tap)  # type: ignore[arg-type]
        logits = logits.astype(jnp.float32)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:])
        return losses.mean(), (logits, {"batch_stats": batch_stats})

    return loss_of
