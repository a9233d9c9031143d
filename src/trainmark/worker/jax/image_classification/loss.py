"""The loss as the step differentiates it, and which parameters decay."""

from __future__ import annotations

from typing import Any, Callable, Tuple

import jax
import jax.numpy as jnp
import optax

from ...tasks.image_classification.settings import ImageRecipe

Batch = Tuple[Any, Any]
"""Images (batch, size, size, 3), either normalised in the compute type or bytes, and labels (batch,) in int32."""


def all_but_batch_norm(params: Any) -> Any:
    """Return a tree like ``params`` that says which of them decay."""
    return jax.tree_util.tree_map_with_path(
        lambda path, _: all(getattr(part, "key", None) != "bn" for part in path), params
    )


def make_loss(model: Any, recipe: ImageRecipe, normalise: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return ``loss(params, batch_stats, batch, **apply)``, which gives (loss, (logits, what the layers changed)).

    The logits are in FP32 before the softmax. ``apply`` goes to Flax: what else to collect from the layers.
    """

    def loss_of(
        params: Any, batch_stats: Any, batch: Batch, mutable: Tuple[str, ...] = ("batch_stats",), **apply: Any
    ) -> Tuple[Any, Tuple[Any, Any]]:
        images, labels = batch
        variables = {"params": params, "batch_stats": batch_stats}
        logits, changed = model.apply(variables, normalise(images), mutable=list(mutable), **apply)
        logits = logits.astype(jnp.float32)
        targets = optax.smooth_labels(jax.nn.one_hot(labels, logits.shape[-1]), recipe.label_smoothing)
        return optax.softmax_cross_entropy(logits, targets).mean(), (logits, changed)

    return loss_of
