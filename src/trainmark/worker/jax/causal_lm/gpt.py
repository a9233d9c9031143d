"""The forward pass of GPT-2; what its layers are stands in ``architectures.py``."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from ...tasks.causal_lm.architectures import NORM_EPSILON, Gpt
from ...tasks.causal_lm.facts import STREAM
from ..precision import Precision
from .layers import Params, Tap, products


def logits_of(model: Gpt, precision: Precision, kernel: str, params: Params, tokens: Any, tap: Tap) -> Any:
    """Map tokens (batch, length) to logits (batch, length, vocabulary) in the compute type.

    ``kernel`` is JAX's word for who computes attention. Norms are in FP32.
    """
    compute = precision.compute
    product = products(params, compute, tap)

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
        if block == 0:
            tap(STREAM, x, x)
    return jnp.einsum("bti,oi->bto", norm("norm", x), embedding.astype(compute))
