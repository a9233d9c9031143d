"""A rank's training of a recommender in JAX: what is built before the first step, and what is seen of it."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple

import jax

from ...core.arguments import NATIVE
from ...core.feed import Feed
from ...core.place import Place
from ...core.settings import AdamRecipe
from ...tasks.products import Observation
from ...tasks.recommendation.facts import DENSE_GRADIENTS, Seen
from ...tasks.recommendation.records import ClickFile, open_feed
from ...tasks.recommendation.settings import ClickSettings
from ...tasks.recommendation.training import ClickTraining
from ..named import NamedTraining
from ..ranks import Group
from ..state import adaptive, optimizer
from ..training import Machine, batches_of, choose_machine, meet_ranks
from .model import KEY, init, make_loss


def open_training(settings: ClickSettings, place: Place) -> JaxClickTraining:
    """Return the training, ready for its first step."""
    machine = choose_machine(settings, place)
    group = meet_ranks(settings, place, machine)
    to_batch = batches_of(group)
    if settings.synthetic or settings.loader != NATIVE:
        feed: Optional[Feed] = open_feed(settings, place, to_batch)
    else:
        from ..loading import open_native

        file = ClickFile(settings.data, settings.vocabulary)
        feed = open_native(file.samples, file.batch, settings, place, lambda batch: to_batch(*batch))
    return JaxClickTraining(settings, group, machine, to_batch, feed)


class JaxClickTraining(NamedTraining, ClickTraining):
    """A recommender, its loss, and what was seen of it while the step was traced; its dropout's key is kept beside."""

    settings: ClickSettings

    def __init__(
        self,
        settings: ClickSettings,
        group: Group,
        machine: Machine,
        to_batch: Callable[..., Tuple[Any, ...]],
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

    @property
    def description(self) -> Any:
        """Return the description of the model."""
        return self.settings.description

    def _fresh(self) -> Tuple[Any, Any]:
        """Return fresh parameters, and the key of the first pass."""
        params = init(self.description, self.settings.seed, self._precision.weights)
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
        table = self.state.params[self.description.tables[0]]
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

    def own_pass(self) -> Optional[Observation]:
        """Pass the batch forward and backward; not with dropout, nor what several ranks hold together."""
        return self.observe() if self.ranks.alone and not self.settings.recipe.dropout else None
