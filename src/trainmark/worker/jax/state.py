"""What training changes, and the one function that changes it: a pure step from state and batch to the next state."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Tuple

import jax
import jax.numpy as jnp
import optax
from flax import struct
from flax.training.dynamic_scale import DynamicScale
from jax.sharding import PartitionSpec as P

from ..core.settings import LAMB, AdamRecipe, Recipe
from .ranks import RANKS

Batch = Tuple[Any, ...]
"""This rank's part of global arrays."""


class TrainState(struct.PyTreeNode):
    """Everything that a step reads and replaces; its memory is donated, so that the new one is written over it."""

    step: Any
    params: Any
    batch_stats: Any
    opt_state: Any
    scale: Optional[DynamicScale]
    taken: Any = 0
    """Steps that changed the weights: one that overflowed counts in ``step`` alone."""


def optimizer(recipe: Recipe, decays: Optional[Callable[[Any], Any]] = None) -> optax.GradientTransformation:
    """Return SGD with momentum without its learning rate: from gradients to ``v = m v + (g + d w)``.

    The rate is multiplied in afterwards, so that the momentum holds none, as in torch: with a rate that changes,
    that is another optimizer than one that keeps ``rate * gradient``. ``decays`` maps a tree of parameters to one of
    truths; without it all of them decay.
    """
    if not recipe.momentum and not recipe.weight_decay:
        # Without a velocity beside each weight, which would be the gradient of the last step.
        return optax.identity()
    return optax.chain(optax.add_decayed_weights(recipe.weight_decay, decays), optax.trace(recipe.momentum))


def adaptive(recipe: AdamRecipe, decays: Callable[[Any], Any]) -> optax.GradientTransformation:
    """Return AdamW or LAMB without its learning rate: from gradients to ``a + d w``; ``decays`` is as for SGD.

    LAMB scales what moves a parameter by ``norm(w) / norm(r)``, where that parameter decays.
    """
    rules = [] if recipe.clip_norm is None else [optax.clip_by_global_norm(recipe.clip_norm)]
    rules += [
        optax.scale_by_adam(recipe.momentum, recipe.second_momentum, recipe.epsilon),
        optax.add_decayed_weights(recipe.weight_decay, decays),
    ]
    if recipe.optimizer == LAMB:
        rules.append(optax.masked(optax.scale_by_trust_ratio(), decays))
    return optax.chain(*rules)


def moments_of(opt_state: Any) -> Any:
    """Return what Adam keeps, of the state of ``adaptive``."""
    return next(kept for kept in opt_state if isinstance(kept, optax.ScaleByAdamState))


def in_parts(grad: Callable[..., Any], parts: int) -> Callable[..., Any]:
    """Return a function like ``grad`` that passes the batch in equal parts, one after another.

    ``grad(params, batch_stats, batch)`` gives ((loss, (outputs, changed)), gradients); loss and gradients are their
    means over the parts, and of outputs there are none.
    """
    if parts == 1:
        return grad

    def accumulated(params: Any, batch_stats: Any, batch: Batch) -> Any:
        def one(kept: Any, part: Batch) -> Any:
            total, summed, stats = kept
            (loss, (_, changed)), gradients = grad(params, stats, part)
            return (total + loss, jax.tree.map(jnp.add, summed, gradients), changed["batch_stats"]), None

        cut = jax.tree.map(lambda array: array.reshape(parts, -1, *array.shape[1:]), batch)
        # Of the parameters' own, so that over several ranks these zeros vary as the gradients do.
        zeros = jax.tree.map(lambda leaf: leaf * 0, params)
        nothing = sum(jnp.sum(leaf.reshape(-1)[:1]) for leaf in jax.tree.leaves(zeros)).astype(jnp.float32)
        (total, summed, stats), _ = jax.lax.scan(one, (nothing, zeros, batch_stats), cut)
        gradients = jax.tree.map(lambda leaf: leaf / parts, summed)
        return (total / parts, (None, {"batch_stats": stats})), gradients

    return accumulated


def make_step(
    loss_of: Callable[..., Any],
    update: optax.GradientTransformation,
    rates: List[float],
    axis: Optional[str],
    parts: int = 1,
    prepared: Callable[[Batch, int, Optional[str]], Batch] = lambda batch, _parts, _axis: batch,
) -> Callable[[TrainState, Batch], Tuple[TrainState, Any]]:
    """Return the training step: (state, batch) to (next state, this rank's loss).

    With an ``axis`` it is one rank's part, and gradients are averaged over that axis. ``rates`` is looked up on the
    device by the step's number, so that the host sends nothing. The batch is passed in ``parts``, which a scaled loss
    has not; before, ``prepared`` gets it with that number and the axis.
    """
    table = jnp.asarray(rates, jnp.float32)

    def step(state: TrainState, batch: Batch) -> Tuple[TrainState, Any]:
        params, batch = state.params, prepared(batch, parts, axis)
        if axis is not None:
            # As this rank's own: gradients with respect to shared ones would be summed over the ranks unasked.
            params = jax.lax.pcast(params, axis, to="varying")
        scale, finite = state.scale, None
        if scale is None:
            grad = in_parts(jax.value_and_grad(loss_of, has_aux=True), parts)
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
            taken=state.taken + (1 if finite is None else finite.astype(jnp.int32)),
        ), loss

    return step


def over_ranks(step: Callable[[TrainState, Batch], Any], mesh: Any) -> Callable[[TrainState, Batch], Any]:
    """Return the step over all ranks' devices, each with its part of the batch and its own running statistics.

    Weights are declared equal on all ranks, and JAX proves at tracing time that the step leaves them so.
    """

    def own_part(state: TrainState, batch: Batch) -> Any:
        batch_stats = jax.tree.map(lambda s: s[0], state.batch_stats)
        state, loss = step(state.replace(batch_stats=batch_stats), batch)
        return state.replace(batch_stats=jax.tree.map(lambda s: s[None], state.batch_stats)), loss[None]

    whole, part = P(), P(RANKS)
    specs = TrainState(step=whole, params=whole, batch_stats=part, opt_state=whole, scale=whole, taken=whole)
    return jax.shard_map(own_part, mesh=mesh, in_specs=(specs, part), out_specs=(specs, part))
