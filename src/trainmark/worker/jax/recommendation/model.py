"""Wide & Deep as a pure function of its parameters, a flat dictionary by the names of ``WideDeep.shapes``."""

from __future__ import annotations

from typing import Any, Callable, Dict, Tuple

import jax
import jax.numpy as jnp
import optax

from ...tasks.recommendation.architectures import DEEP, TABLE_LIMIT, WIDE, WideDeep, glorot_limit
from ..precision import Precision, biased

Params = Dict[str, Any]
Tap = Callable[[str, Any, Any], None]
"""Gets the name, the weight and the result of each product."""

KEY = "dropout"
"""What is kept beside the parameters: the key of the random numbers of the next pass."""


def init(model: WideDeep, seed: int, dtype: Any) -> Params:
    """Return fresh parameters; their number is asserted. May be traced."""
    shapes = model.shapes()
    keys = jax.random.split(jax.random.key(seed, impl="rbg"), len(shapes))
    params = {}
    for key, (name, shape) in zip(keys, shapes.items()):
        limit = glorot_limit(shape) if name.endswith("weight") else TABLE_LIMIT
        if name.endswith("bias"):
            params[name] = jnp.zeros(shape, dtype)
        else:
            params[name] = jax.random.uniform(key, shape, minval=-limit, maxval=limit).astype(dtype)
    found, expected = sum(leaf.size for leaf in params.values()), model.parameters()
    assert found == expected, f"the model has {found} parameters instead of {expected}"
    return params


def make_loss(model: WideDeep, precision: Precision, share: float, seen: Tap) -> Callable[..., Any]:
    """Return ``loss(params, kept, batch, tap)``, which gives (loss, (logits, what is kept)).

    The loss is the mean binary cross entropy, in FP32; ``share`` of the values is dropped behind each hidden layer.
    """
    compute, products = precision.compute, list(model.products())

    def loss_of(params: Params, kept: Dict[str, Any], batch: Tuple[Any, ...], tap: Tap = seen) -> Any:
        dense, categories, crossed, labels = batch
        key = jax.random.wrap_key_data(kept[KEY])
        embedded = params[DEEP][categories].reshape(dense.shape[0], -1)
        x = jnp.concatenate([embedded.astype(compute), dense.astype(compute)], axis=1)
        for name in products:
            weight = params[f"{name}.weight"]
            x = biased(jnp.einsum("bi,oi->bo", x, weight.astype(compute)), params[f"{name}.bias"])
            tap(name, weight, x)
            if name != products[-1]:
                x = jax.nn.relu(x)
                if share:
                    key, own = jax.random.split(key)
                    remains = jax.random.bernoulli(own, 1 - share, x.shape)
                    x = jnp.where(remains, x / (1 - share), 0).astype(compute)
        wide = params[WIDE][crossed].sum(1)
        logits = (x.astype(jnp.float32) + wide.astype(jnp.float32))[:, 0]
        loss = optax.sigmoid_binary_cross_entropy(logits, labels).mean()
        return loss, (logits, {"batch_stats": {KEY: jax.random.key_data(key)}})

    return loss_of
