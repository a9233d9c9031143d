"""Wide & Deep and DLRM as pure functions of their parameters, a flat dictionary by the names of ``shapes``."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Tuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ...tasks.recommendation.architectures import (
    DEEP,
    TABLE_LIMIT,
    TABLES,
    WIDE,
    Dlrm,
    Recommender,
    WideDeep,
    glorot_limit,
    pairs,
)
from ...tasks.recommendation.clicks import column_sizes
from ..precision import Precision, biased

Params = Dict[str, Any]
Tap = Callable[[str, Any, Any], None]
"""Gets the name, the weight and the result of each product."""

KEY = "dropout"
"""What is kept beside the parameters: the key of the random numbers of the next pass."""


def init(model: Recommender, seed: int, dtype: Any) -> Params:
    """Return fresh parameters; their number is asserted. May be traced."""
    shapes = model.shapes()
    keys = jax.random.split(jax.random.key(seed, impl="rbg"), len(shapes))
    draw = _drawn_dlrm if isinstance(model, Dlrm) else _drawn_wide_deep
    params = {name: draw(key, name, shape).astype(dtype) for key, (name, shape) in zip(keys, shapes.items())}
    found, expected = sum(leaf.size for leaf in params.values()), model.parameters()
    assert found == expected, f"the model has {found} parameters instead of {expected}"
    return params


def _drawn_wide_deep(key: Any, name: str, shape: Tuple[int, ...]) -> Any:
    limit = glorot_limit(shape) if name.endswith("weight") else TABLE_LIMIT
    if name.endswith("bias"):
        return jnp.zeros(shape)
    return jax.random.uniform(key, shape, minval=-limit, maxval=limit)


def _drawn_dlrm(key: Any, name: str, shape: Tuple[int, ...]) -> Any:
    """Return weights as the authors' program draws them."""
    if name == TABLES:
        sizes = np.array(column_sizes(shape[0]))
        limits = jnp.repeat(1 / np.sqrt(sizes), sizes, total_repeat_length=shape[0])[:, None]
        return jax.random.uniform(key, shape, minval=-1) * limits.astype(jnp.float32)
    share = 2 / sum(shape) if name.endswith("weight") else 1 / shape[0]
    return jax.random.normal(key, shape) * math.sqrt(share)


def make_loss(model: Recommender, precision: Precision, share: float, seen: Tap) -> Callable[..., Any]:
    """Return ``loss(params, kept, batch, tap)``, which gives (loss, (logits, what is kept)).

    The loss is the mean binary cross entropy, in FP32; ``share`` of the values is dropped behind each hidden layer.
    """
    compute = precision.compute
    logits_of = _interacting(model, compute) if isinstance(model, Dlrm) else _both(model, compute, share)

    def loss_of(params: Params, kept: Dict[str, Any], batch: Tuple[Any, ...], tap: Tap = seen) -> Any:
        *fields, labels = batch

        def product(name: str, x: Any) -> Any:
            weight = params[f"{name}.weight"]
            x = biased(jnp.einsum("bi,oi->bo", x, weight.astype(compute)), params[f"{name}.bias"])
            tap(name, weight, x)
            return x

        logits, key = logits_of(params, jax.random.wrap_key_data(kept[KEY]), product, *fields)
        loss = optax.sigmoid_binary_cross_entropy(logits, labels).mean()
        return loss, (logits, {"batch_stats": {KEY: jax.random.key_data(key)}})

    return loss_of


def _both(model: WideDeep, compute: Any, share: float) -> Callable[..., Any]:
    """Return what gives Wide & Deep's logits, and the key of the next pass."""
    products = list(model.products())

    def logits_of(params: Params, key: Any, product: Any, dense: Any, categories: Any, crossed: Any) -> Any:
        embedded = params[DEEP][categories].reshape(dense.shape[0], -1)
        x = jnp.concatenate([embedded.astype(compute), dense.astype(compute)], axis=1)
        for name in products:
            x = product(name, x)
            if name != products[-1]:
                x = jax.nn.relu(x)
                if share:
                    key, own = jax.random.split(key)
                    remains = jax.random.bernoulli(own, 1 - share, x.shape)
                    x = jnp.where(remains, x / (1 - share), 0).astype(compute)
        wide = params[WIDE][crossed].sum(1)
        return (x.astype(jnp.float32) + wide.astype(jnp.float32))[:, 0], key

    return logits_of


def _interacting(model: Dlrm, compute: Any) -> Callable[..., Any]:
    """Return what gives DLRM's logits, and the key as it was: nothing is dropped."""
    products, (first, second) = list(model.products()), map(np.array, pairs())

    def logits_of(params: Params, key: Any, product: Any, dense: Any, categories: Any, _crossed: Any) -> Any:
        x = dense.astype(compute)
        for name in products:
            if name == "top1":
                rows = params[TABLES][categories].astype(compute)
                vectors = jnp.concatenate([x[:, None], rows], axis=1)
                squares = jnp.einsum("bid,bjd->bij", vectors, vectors)
                x = jnp.concatenate([x, squares[:, first, second]], axis=1)
            x = product(name, x)
            if name != products[-1]:
                x = jax.nn.relu(x)
        return x[:, 0].astype(jnp.float32), key

    return logits_of
