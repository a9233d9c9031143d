"""Wide & Deep and DLRM in JAX, as pure functions of their parameters, a flat dictionary by the names of ``shapes``."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ..backends.jax import backend
from ..backends.jax.backend import KEY, NamedTraining, Params, Tap, products
from ..core.facts import ObservedConfig
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
from ..tasks.recommendation.training import ClickTraining


def draw(model: Recommender, key: Any, name: str, shape: tuple[int, ...]) -> Any:
    """Return a fresh parameter; those of DLRM as the authors' program draws them. May be traced."""
    if name == TABLES:
        sizes = np.array(column_sizes(shape[0]))
        limits = jnp.repeat(1 / np.sqrt(sizes), sizes, total_repeat_length=shape[0])[:, None]
        return jax.random.uniform(key, shape, minval=-1) * limits.astype(jnp.float32)
    if isinstance(model, Dlrm):
        share = 2 / sum(shape) if name.endswith("weight") else 1 / shape[0]
        return jax.random.normal(key, shape) * math.sqrt(share)
    if name.endswith("bias"):
        return jnp.zeros(shape)
    limit = glorot_limit(shape) if name.endswith("weight") else TABLE_LIMIT
    return jax.random.uniform(key, shape, minval=-limit, maxval=limit)


class JaxClickTraining(NamedTraining, ClickTraining):
    """A recommender, its loss, and the observation of its products; the key of its dropout is part of the state."""

    settings: ClickSettings
    draw = staticmethod(draw)

    def build(self) -> None:
        recipe, self.description = self.settings.recipe, self.settings.description
        decays = recipe.weight_decay > 0
        if isinstance(recipe, AdamRecipe):
            self.take_over(backend.adaptive(recipe, lambda params: dict.fromkeys(params, decays)))
        else:
            self.take_over(backend.optimizer(recipe))

    def loss_of(self, params: Params, state: Any, batch: Any, tap: Tap | None = None) -> Any:
        """Return the mean binary cross entropy.

        Of Wide & Deep, a share of the values is dropped behind each hidden layer; of DLRM nothing.
        """
        model, compute, share = self.description, self.precision.compute, self.settings.recipe.dropout
        dlrm, (*hidden, last) = isinstance(model, Dlrm), model.products()
        product = products(params, compute, tap or self._trace, "bi,oi->bo")
        dense, categories, crossed, labels = batch
        x, key = dense.astype(compute), jax.random.wrap_key_data(state[KEY])
        if not dlrm:
            embedded = params[DEEP][categories].reshape(dense.shape[0], -1)
            x = jnp.concatenate([embedded.astype(compute), x], axis=1)
        for name in hidden:
            if name == "top1":
                rows = params[TABLES][categories].astype(compute)
                vectors = jnp.concatenate([x[:, None], rows], axis=1)
                first, second = map(np.array, pairs())
                squares = jnp.einsum("bid,bjd->bij", vectors, vectors)
                x = jnp.concatenate([x, squares[:, first, second]], axis=1)
            x = jax.nn.relu(product(name, x))
            if share and not dlrm:
                key, own = jax.random.split(key)
                remains = jax.random.bernoulli(own, 1 - share, x.shape)
                x = jnp.where(remains, x / (1 - share), 0).astype(compute)
        logits = product(last, x).astype(jnp.float32)
        if not dlrm:
            logits += params[WIDE][crossed].sum(1).astype(jnp.float32)
        loss = optax.sigmoid_binary_cross_entropy(logits[:, 0], labels).mean()
        return loss, (logits[:, 0], {"batch_stats": {KEY: jax.random.key_data(key)}})

    def observed_config(self) -> ObservedConfig:
        _, (rows, _) = next(iter(self.first.values()))
        table = self.state.params[self.description.tables[0]]
        # A gradient has the shape of its parameter: JAX has no other kind.
        return self.config_of(table, rows, self.axes(table.shape, DENSE_GRADIENTS))


open_training = JaxClickTraining
