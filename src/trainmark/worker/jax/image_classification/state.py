"""What training changes, and the one function that changes it: a pure step from state and batch to the next state."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Tuple

import jax
import jax.numpy as jnp
import optax
from flax import struct
from flax.training.dynamic_scale import DynamicScale

from ...tasks.image_classification.settings import ImageRecipe

Batch = Tuple[Any, Any]
"""Images (batch, size, size, 3), either normalised in the compute type or bytes, and labels (batch,) in int32."""


class TrainState(struct.PyTreeNode):
    """Everything that a step reads and replaces; its memory is donated, so that the new one is written over it."""

    step: Any
    params: Any
    batch_stats: Any
    opt_state: Any
    scale: Optional[DynamicScale]


def optimizer(recipe: ImageRecipe) -> optax.GradientTransformation:
    """Return SGD with momentum without its learning rate: from gradients to ``v = m v + (g + d w)``.

    The rate is multiplied in afterwards, so that the momentum holds none, as in torch: with a rate that changes,
    that is another optimizer than one that keeps ``rate * gradient``. Batch norm does not decay unless asked.
    """
    mask = None if recipe.bn_weight_decay else _decays
    return optax.chain(optax.add_decayed_weights(recipe.weight_decay, mask), optax.trace(recipe.momentum))


def _decays(params: Any) -> Any:
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


def make_step(
    loss_of: Callable[..., Any], update: optax.GradientTransformation, rates: List[float], axis: Optional[str]
) -> Callable[[TrainState, Batch], Tuple[TrainState, Any]]:
    """Return the training step: (state, batch) to (next state, this rank's loss).

    With an ``axis`` it is one rank's part, and gradients are averaged over that axis. ``rates`` is looked up on the
    device by the step's number, so that the host sends nothing.
    """
    table = jnp.asarray(rates, jnp.float32)

    def step(state: TrainState, batch: Batch) -> Tuple[TrainState, Any]:
        params = state.params
        if axis is not None:
            # As this rank's own: gradients with respect to shared ones would be summed over the ranks unasked.
            params = jax.lax.pcast(params, axis, to="varying")
        scale, finite = state.scale, None
        if scale is None:
            grad = jax.value_and_grad(loss_of, has_aux=True)
            (loss, (_, changed)), gradients = grad(params, state.batch_stats, batch)
            if axis is not None:
                gradients = jax.lax.pmean(gradients, axis)
        else:
            scaled = scale.value_and_grad(loss_of, has_aux=True, axis_name=axis)
            scale, finite, (loss, (_, changed)), gradients = scaled(params, state.batch_stats, batch)
        direction, opt_state = update.update(gradients, state.opt_state, state.params)
        rate = table[state.step]
        updates = jax.tree.map(lambda v: -rate * v, direction)
        params = optax.apply_updates(state.params, updates)
        if finite is not None:
            # After an overflow the step leaves weights and momentum as they were.
            params, opt_state = jax.tree.map(
                lambda new, old: jnp.where(finite, new, old),
                (params, opt_state),
                (state.params, state.opt_state),
            )
        return state.replace(
            step=state.step + 1,
            params=params,
            batch_stats=changed["batch_stats"],
            opt_state=opt_state,
            scale=scale,
        ), loss

    return step
