"""The forward pass of Llama; what its layers are stands in ``architectures.py``."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...tasks.causal_lm.architectures import NORM_EPSILON, Llama
from ...tasks.causal_lm.facts import STREAM
from ..precision import Precision
from .layers import Params, Tap, products


def logits_of(model: Llama, precision: Precision, kernel: str, params: Params, tokens: Any, tap: Tap) -> Any:
    """Map tokens (batch, length) to logits (batch, length, vocabulary) in the compute type.

    ``kernel`` is JAX's word for who computes attention, which shares heads itself. Norms and the turning of queries
    and keys are in FP32.
    """
    compute = precision.compute
    product = products(params, compute, tap)

    def norm(name: str, given: Any) -> Any:
        wide = given.astype(jnp.float32)
        scale = jax.lax.rsqrt(jnp.mean(wide**2, -1, keepdims=True) + NORM_EPSILON)
        return (wide * scale * params[f"{name}.weight"].astype(jnp.float32)).astype(compute)

    batch, length = tokens.shape
    turns = np.outer(np.arange(length), model.rotation.frequencies(model.head // 2))[:, None]
    cosines, sines = np.cos(turns).astype(np.float32), np.sin(turns).astype(np.float32)

    def turned(given: Any) -> Any:
        first, second = jnp.split(given.astype(jnp.float32), 2, axis=-1)
        pairs = (first * cosines - second * sines, second * cosines + first * sines)
        return jnp.concatenate(pairs, -1).astype(compute)

    ends = (model.attended_width, model.attended_width + model.shared_width)
    embedding = params["embedding.tokens"]
    x = embedding[tokens].astype(compute)
    for block in range(model.layers):
        name = f"block{block}.attention"
        qkv = jnp.split(product(f"{name}.qkv", norm(f"{name}.norm", x)), ends, axis=-1)
        queries, keys, values = (part.reshape(batch, length, -1, model.head) for part in qkv)
        attended = jax.nn.dot_product_attention(
            turned(queries), turned(keys), values, is_causal=True, implementation=kernel
        )
        x = x + product(f"{name}.output", attended.reshape(batch, length, -1))
        name = f"block{block}.mlp"
        given = norm(f"{name}.norm", x)
        inner = jax.nn.silu(product(f"{name}.gate", given)) * product(f"{name}.up", given)
        x = x + product(f"{name}.down", inner)
        if block == 0:
            tap(STREAM, x, x)
    return jnp.einsum("bti,oi->bto", norm("norm", x), embedding.astype(compute))
