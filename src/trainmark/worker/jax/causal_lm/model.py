"""GPT-2 as a pure function of its parameters; what its layers are stands in ``architectures.py``.

Parameters are a flat dictionary by the names and in the shapes of ``Gpt.shapes``: XLA takes products of
(outputs, inputs) as well as of the transposed order.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Tuple

import jax
import jax.numpy as jnp
import optax

from ...tasks.causal_lm.architectures import DEVIATION, NORM_EPSILON, Gpt, is_norm
from ..precision import Precision

Params = Dict[str, Any]
Tap = Callable[[str, Any, Any], None]
"""Gets the name, the weight and the result of each product."""


def init(model: Gpt, seed: int, dtype: Any) -> Params:
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


def logits_of(model: Gpt, precision: Precision, kernel: str, params: Params, tokens: Any, tap: Tap) -> Any:
    """Map tokens (batch, length) to logits (batch, length, vocabulary) in the compute type.

    ``kernel`` is JAX's word for who computes attention. Norms are in FP32.
    """
    compute = precision.compute

    def product(name: str, given: Any) -> Any:
        weight = params[f"{name}.weight"]
        result = jnp.einsum("bti,oi->bto", given, weight.astype(compute))
        tap(name, weight, result)
        return result

    def norm(name: str, given: Any) -> Any:
        wide = given.astype(jnp.float32)
        centred = wide - wide.mean(-1, keepdims=True)
        scale = jax.lax.rsqrt(jnp.mean(centred**2, -1, keepdims=True) + NORM_EPSILON)
        return (centred * scale * params[f"{name}.weight"].astype(jnp.float32)).astype(compute)

    batch, length = tokens.shape
    heads = (batch, length, model.heads, model.width // model.heads)
    embedding = params["embedding.tokens"]
    # Looked up in FP32: the gradient of a row is the sum over all that look it up, and 16 bits lose it.
    x = (embedding[tokens] + params["embedding.positions"][:length]).astype(compute)
    for block in range(model.layers):
        name = f"block{block}.attention"
        qkv = jnp.split(product(f"{name}.qkv", norm(f"{name}.norm", x)), 3, axis=-1)
        attended = jax.nn.dot_product_attention(
            *(part.reshape(heads) for part in qkv), is_causal=True, implementation=kernel
        )
        x = x + product(f"{name}.output", attended.reshape(x.shape))
        name = f"block{block}.mlp"
        inner = jax.nn.gelu(product(f"{name}.up", norm(f"{name}.norm", x)), approximate=False)
        x = x + product(f"{name}.down", inner)
    return jnp.einsum("bti,oi->bto", norm("norm", x), embedding.astype(compute))


def attention_kernel(platform: str, precision: Precision) -> str:
    """Return who computes attention: cuDNN's fused kernel on a GPU in 16 bits, else XLA."""
    return "cudnn" if platform != "cpu" and precision.compute != jnp.float32 else "xla"


def make_loss(model: Gpt, precision: Precision, kernel: str, seen: Tap) -> Callable[..., Any]:
    """Return ``loss(params, batch_stats, batch, tap)``, which gives (loss, (logits, what the layers changed)).

    A batch is tokens (batch, length + 1); the loss is in FP32. ``seen`` gets the products where no ``tap`` does.
    """

    def loss_of(params: Params, batch_stats: Any, batch: Tuple[Any], tap: Tap = seen) -> Any:
        (tokens,) = batch
        logits = logits_of(model, precision, kernel, params, tokens[:, :-1], tap).astype(jnp.float32)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:])
        return losses.mean(), (logits, {"batch_stats": batch_stats})

    return loss_of
