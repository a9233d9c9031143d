"""Changes of the JAX worker; what is in its program is traced and compiled again."""

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

models: Any = importlib.import_module("trainmark_worker.models.jax_image_classification")
states: Any = importlib.import_module("trainmark_worker.backends.jax.backend")
RANKS = "ranks"


class Layers:
    """Flax's layers with some of them replaced."""

    def __init__(self, real: Any, **others: Any) -> None:
        self._real, self._others = real, others

    def __getattr__(self, name: str) -> Any:
        return self._others[name] if name in self._others else getattr(self._real, name)


linen = models.nn


def layers(**others: Any) -> None:
    models.nn = Layers(linen, **others)


def step_again(training: Any) -> None:
    axis = None if training.ranks.alone else RANKS
    training._step = states.make_step(training.loss_of, training._update, training.rates, axis)
    training._run = training._prepare()


def with_layers(**others: Callable[..., Any]) -> Callable[[Any], None]:
    def changed(training: Any) -> None:
        layers(**others)
        step_again(training)

    return changed


def evaluating(**options: Any) -> Any:
    return linen.BatchNorm(**{**options, "use_running_average": True})


def in_bf16(kind: Any) -> Callable[..., Any]:
    return lambda *words, **options: kind(*words, **{**options, "dtype": jnp.bfloat16})


class TurnedBack(linen.Conv):  # type: ignore[misc, name-defined]
    """A convolution whose output is of the type of its input."""

    def __call__(self, inputs: Any) -> Any:
        return super().__call__(inputs).astype(inputs.dtype)


def one_layer(training: Any, kind: Any = linen.Conv) -> None:
    """One convolution, in the middle, in BF16."""
    made: list[int] = []
    convolutions = len(models.ARCHITECTURES["mobilenet_v1"].convolutions)

    def conv(*words: Any, **options: Any) -> Any:
        made.append(1)
        tenth = len(made) % convolutions == 10
        return kind(*words, **{**options, "dtype": jnp.bfloat16}) if tenth else linen.Conv(*words, **options)

    layers(Conv=conv)
    step_again(training)


def forward_only(training: Any) -> None:
    """A loss, and nothing else."""

    def step(state: Any, batch: Any) -> Any:
        loss, _ = training.loss_of(state.params, state.batch_stats, batch)
        return state.replace(step=state.step + 1), loss

    training._step = step
    training._run = training._prepare()


def frozen_stem(training: Any) -> None:
    """As in fine-tuning: its updates are nothing."""
    update = training._update

    def without(gradients: Any, state: Any, params: Any) -> Any:
        direction, state = update.update(gradients, state, params)
        still = jax.tree.map(jnp.zeros_like, direction["stem"]["conv"])
        return {**direction, "stem": {**direction["stem"], "conv": still}}, state

    training._update = optax.GradientTransformation(update.init, without)
    step_again(training)


def other_recipe(**changes: Any) -> Callable[[Any], None]:
    def changed(training: Any) -> None:
        recipe = dataclasses.replace(training.settings.recipe, **changes)
        decays = None if recipe.bn_weight_decay else models.all_but_batch_norm
        training._update = states.optimizer(recipe, decays)
        step_again(training)

    return changed


def gradients_summed(training: Any) -> None:
    """The sum of gradients that nobody divided."""
    mean = jax.lax.pmean
    jax.lax.pmean = jax.lax.psum
    step_again(training)
    jax.lax.pmean = mean


def no_all_reduce(training: Any) -> None:
    """Each rank on its own; JAX proves that weights which are declared equal stay so."""
    mean = jax.lax.pmean
    jax.lax.pmean = lambda values, _axis: values
    try:
        step_again(training)
    finally:
        jax.lax.pmean = mean


def no_all_reduce_unproven(training: Any) -> None:
    """The same, with JAX told not to look."""
    mapped = jax.shard_map

    def unproven(*words: Any, **named: Any) -> Any:
        return mapped(*words, **named, check_vma=False)

    jax.shard_map = unproven
    pcast = jax.lax.pcast
    jax.lax.pcast = lambda values, *_words, **_named: values
    try:
        no_all_reduce(training)
    finally:
        jax.shard_map, jax.lax.pcast = mapped, pcast


def relu6() -> None:
    """An activation with a bound."""
    layers(relu=linen.relu6)


LATER = {
    "batch-norm-evaluates": with_layers(BatchNorm=evaluating),
    "forward-only": forward_only,
    "frozen-stem": frozen_stem,
    "another-type": with_layers(
        Conv=in_bf16(linen.Conv), BatchNorm=in_bf16(linen.BatchNorm), Dense=in_bf16(linen.Dense)
    ),
    "one-layer": one_layer,
    "one-layer-within": lambda training: one_layer(training, TurnedBack),
    "gradients-summed": gradients_summed,
    "no-all-reduce": no_all_reduce_unproven,
    "no-all-reduce-proven": no_all_reduce,
    "momentum": other_recipe(momentum=0.5),
    "decay": other_recipe(weight_decay=0.1, bn_weight_decay=True),
}
BEFORE = {"relu6": relu6}
