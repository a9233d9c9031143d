"""Wide & Deep and DLRM in JAX, as pure functions of their parameters, a flat dictionary by the names of ``shapes``."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ..backends.jax import backend
from ..backends.jax.backend import KEY, NamedTraining, Params, Tap, products
from ..core.precision import Precision
from ..core.settings import AdamRecipe
from ..tasks.recommendation.architectures import (
    DEEP,
    TABLE_LIMIT,
    TABLES,
    WIDE,
    Dlrm,
    Recommender,
    glorot_limit,
    pairs,
)
from ..tasks.recommendation.records import column_sizes
from ..tasks.recommendation.settings import DENSE_GRADIENTS, ClickSettings
from ..tasks.recommendation.training import ClickTraining, ObservedConfig


def init(model: Recommender, seed: int, dtype: Any) -> Params:
    """Return fresh parameters. May be traced."""
    drawn = _init_dlrm if isinstance(model, Dlrm) else _init_wide_deep
    return backend.draw_weights(model, seed, dtype, drawn)


def _init_wide_deep(key: Any, name: str, shape: tuple[int, ...]) -> Any:
    limit = glorot_limit(shape) if name.endswith("weight") else TABLE_LIMIT
    if name.endswith("bias"):
        return jnp.zeros(shape)
    return jax.random.uniform(key, shape, minval=-limit, maxval=limit)


def _init_dlrm(key: Any, name: str, shape: tuple[int, ...]) -> Any:
    """Return weights as the authors' program draws them."""
    if name == TABLES:
        sizes = np.array(column_sizes(shape[0]))
        limits = jnp.repeat(1 / np.sqrt(sizes), sizes, total_repeat_length=shape[0])[:, None]
        return jax.random.uniform(key, shape, minval=-1) * limits.astype(jnp.float32)
    share = 2 / sum(shape) if name.endswith("weight") else 1 / shape[0]
    return jax.random.normal(key, shape) * math.sqrt(share)


def make_loss(model: Recommender, precision: Precision, share: float, observed: Tap) -> Callable[..., Any]:
    """Return ``loss(params, kept, batch, tap)``, which gives (loss, (logits, what is kept)).

    The loss is the mean binary cross entropy, in FP32; ``share`` of the values is dropped behind each hidden layer.
    """
    compute = precision.compute
    logits_of = _interacting(model, compute) if isinstance(model, Dlrm) else _both(model, compute, share)

    def loss_of(params: Params, retained: dict[str, Any], batch: tuple[Any, ...], tap: Tap = observed) -> Any:
        *fields, labels = batch
        product = products(params, compute, tap, "bi,oi->bo")
        logits, key = logits_of(params, jax.random.wrap_key_data(retained[KEY]), product, *fields)
        loss = optax.sigmoid_binary_cross_entropy(logits, labels).mean()
        return loss, (logits, {"batch_stats": {KEY: jax.random.key_data(key)}})

    return loss_of


def _both(model: Recommender, compute: Any, share: float) -> Callable[..., Any]:
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


class JaxClickTraining(NamedTraining, ClickTraining):
    """A recommender, its loss, and the observation of its products; the key of its dropout is part of the state."""

    settings: ClickSettings

    @property
    def description(self) -> Any:
        return self.settings.description

    def build(self) -> None:
        recipe, decays = self.settings.recipe, self.settings.recipe.weight_decay > 0
        self.take_over(
            lambda: (init(self.description, self.settings.seed, self.precision.weights), self.first_key()),
            make_loss(self.description, self.precision, recipe.dropout, self._trace),
            backend.adaptive(recipe, lambda params: dict.fromkeys(params, decays))
            if isinstance(recipe, AdamRecipe)
            else backend.optimizer(recipe),
        )

    def observed_config(self) -> ObservedConfig:
        """Return the trace of the first product; a compiled step was made from it."""
        compute, _, (rows, _) = next(iter(self.traced.values()))
        table = self.state.params[self.description.tables[0]]
        return ObservedConfig(
            compute_dtype=compute,
            weight_dtype=str(table.dtype),
            batch_per_device=rows,
            **backend.tf32_switches(),
            vocabulary=table.shape[0],
            embedding_width=table.shape[1],
            # A gradient has the shape of its parameter: JAX has no other kind.
            table_gradients=DENSE_GRADIENTS,
            others={"compile_cache_hits": self._clock.cache_hits},
        )


open_training = JaxClickTraining
