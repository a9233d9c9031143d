"""A rank's training of a recommender in JAX: what is built before the first step, and what is seen of it."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional, Tuple

import jax
import numpy as np

from ...core.feed import Feed
from ...core.optimizers import Moments
from ...core.place import Place
from ...core.settings import AdamRecipe
from ...tasks.recommendation.facts import DENSE_GRADIENTS, Seen
from ...tasks.recommendation.observing import Observation, layer_seen
from ...tasks.recommendation.records import open_feed
from ...tasks.recommendation.settings import ClickSettings
from ...tasks.recommendation.training import ClickTraining
from ..ranks import Group
from ..state import adaptive, optimizer
from ..training import JaxTraining, Machine, choose_machine, meet_ranks
from .model import KEY, init, make_loss

ToBatch = Callable[..., Tuple[Any, ...]]


def open_training(settings: ClickSettings, place: Place) -> JaxClickTraining:
    """Return the training, ready for its first step."""
    machine = choose_machine(settings, place)
    group = meet_ranks(settings, place, machine)
    to_batch = batches_of(group)
    return JaxClickTraining(settings, group, machine, to_batch, open_feed(settings, place, to_batch))


def batches_of(group: Group) -> ToBatch:
    """Return what makes global batches of this rank's arrays, whole numbers in 32 bits."""
    return lambda *arrays: tuple(
        group.part(array.astype(np.int32) if array.dtype.kind == "i" else array) for array in arrays
    )


class JaxClickTraining(JaxTraining, ClickTraining):
    """A recommender, its loss, and what was seen of it while the step was traced; its dropout's key is kept beside."""

    settings: ClickSettings

    def __init__(
        self,
        settings: ClickSettings,
        group: Group,
        machine: Machine,
        to_batch: ToBatch,
        feed: Optional[Feed],
    ) -> None:
        """Make the state on the device, and fetch the first batch."""
        super().__init__(settings, group, machine.precision, to_batch, feed)
        self._traced_products: Dict[str, Tuple[str, Tuple[int, ...]]] = {}
        recipe, decays = settings.recipe, settings.recipe.weight_decay > 0
        self.take_over(
            self._fresh,
            make_loss(settings.description, machine.precision, settings.recipe.dropout, self._trace),
            adaptive(recipe, lambda params: dict.fromkeys(params, decays))
            if isinstance(recipe, AdamRecipe)
            else optimizer(recipe),
        )

    def _fresh(self) -> Tuple[Any, Any]:
        """Return fresh parameters, and the key of the first pass."""
        params = init(self.settings.description, self.settings.seed, self._precision.weights)
        return params, {KEY: jax.random.key_data(jax.random.key(self.settings.seed))}

    def of_ranks(self, kept: Any, world_size: int) -> Any:
        """Return a key of its own for each rank, so that they drop different places."""
        key = jax.random.wrap_key_data(kept[KEY])
        return {KEY: jax.random.key_data(jax.random.split(key, world_size))}

    def _trace(self, name: str, _weight: Any, result: Any) -> None:
        self._traced_products.setdefault(name, (str(result.dtype), tuple(result.shape)))

    def seen(self) -> Seen:
        """Return what was traced of the first product; for a compiled step, that is what the program says."""
        compute, (rows, _) = next(iter(self._traced_products.values()))
        table = self.state.params[self.settings.description.tables[0]]
        tf32 = jax.config.jax_default_matmul_precision == "tensorfloat32"
        return Seen(
            compute_dtype=compute,
            weight_dtype=str(table.dtype),
            batch_per_device=rows,
            tf32_matmul=tf32,
            tf32_convolution=tf32,
            vocabulary=table.shape[0],
            embedding_width=table.shape[1],
            # A gradient is like what it is taken of: JAX has no other kind.
            table_gradients=DENSE_GRADIENTS,
            others={"compile_cache_hits": self._clock.cache_hits},
        )

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Take over the parameters."""
        kept = self.state.params
        params = {name: np.asarray(weights[name]).astype(kept[name].dtype) for name in kept}
        self.state = self.state.replace(params=self.ranks.whole(params))

    def read_weights(self) -> Dict[str, Any]:
        """Return the parameters."""
        return self._read(self.state.params)

    def _read(self, tree: Any) -> Dict[str, Any]:
        own = self.ranks.own_whole(tree)
        return {name: np.asarray(own[name], np.float32) for name in self.settings.description.shapes()}

    def read_moments(self) -> Optional[Moments]:
        """Return what the optimizer keeps; SGD keeps nothing."""
        if not isinstance(self.settings.recipe, AdamRecipe):
            return None
        adam = self.state.opt_state[0]
        return Moments(int(self.ranks.own_whole(adam.count)), self._read(adam.mu), self._read(adam.nu))

    def own_pass(self) -> Optional[Observation]:
        """Pass the batch forward and backward; not with dropout, nor what several ranks hold together."""
        return self.observe() if self.ranks.alone and not self.settings.recipe.dropout else None

    def observe(self) -> Observation:
        """Pass the whole batch forward and backward by the function that the step differentiates, as one program."""

        def collecting(params: Any, kept: Any, batch: Any) -> Any:
            results: Dict[str, Any] = {}
            loss, (logits, _) = self._loss_of(
                params, kept, batch, lambda name, _weight, result: results.setdefault(name, result)
            )
            return loss, (logits, results)

        passes = jax.jit(jax.value_and_grad(collecting, has_aux=True))
        state = self.state
        (loss, (logits, results)), gradients = passes(state.params, state.batch_stats, self.batch)
        products = []
        for name in self.settings.description.products():
            outputs, inputs = state.params[f"{name}.weight"].shape
            biased = f"{name}.bias" in state.params
            products.append(layer_seen(name, inputs, outputs, biased, np.asarray(results[name], np.float32)))
        return Observation(np.asarray(logits), float(loss), self._read(gradients), products)
