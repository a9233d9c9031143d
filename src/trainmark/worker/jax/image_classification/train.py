"""A rank's training of an image network in JAX: what is built before the first step, and what is seen of it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Dict, Mapping, Optional

import jax.numpy as jnp
import numpy as np

from ...core.choices import one_of
from ...core.feed import Feed
from ...core.place import Place
from ...core.training import OwnPass
from ...tasks.image_classification.facts import Seen
from ...tasks.image_classification.observing import Observation
from ...tasks.image_classification.settings import ImageSettings
from ...tasks.image_classification.training import ImageTraining
from ...tasks.image_classification.witness import LayersSeen, measured
from ..precision import Precision
from ..ranks import Group
from ..state import optimizer
from ..training import JaxTraining, choose_machine, meet_ranks
from . import observing
from .feed import ToDevice, normalise
from .loaders import LOADERS, open_loader
from .loss import all_but_batch_norm, make_loss
from .models import build_model, init
from .witness import CompiledConvolutions, Witness, compiled_convolutions


def open_training(settings: ImageSettings, place: Place) -> JaxImageTraining:
    """Return the training, ready for its first step."""
    machine = choose_machine(settings, place)
    if not settings.synthetic:
        one_of("JAX", "loader", settings.loader, LOADERS)
    group = meet_ranks(settings, place, machine)
    feed = None if settings.synthetic else open_loader(settings, group)
    return JaxImageTraining(settings, group, machine.precision, feed)


class JaxImageTraining(JaxTraining, ImageTraining):
    """An image network, its loss, and the witness of its first step."""

    settings: ImageSettings

    def __init__(
        self, settings: ImageSettings, group: Group, precision: Precision, feed: Optional[Feed]
    ) -> None:
        """Make the state on the device, and fetch the first batch."""
        super().__init__(settings, group, precision, ToDevice(group, precision.compute), feed)
        recipe, model = settings.recipe, build_model(settings.model, settings.classes, precision)
        self._witness = Witness(settings.model)
        self._compiled: Optional[CompiledConvolutions] = None
        self.take_over(
            lambda: init(model, settings.model, settings.image_size, settings.seed),
            make_loss(model, recipe, self._normalise),
            optimizer(recipe, None if recipe.bn_weight_decay else all_but_batch_norm),
        )

    def _normalise(self, images: Any) -> Any:
        return normalise(images, self._precision.compute)

    def watching(self) -> "AbstractContextManager[Any]":
        """Let the witness see the layers."""
        return self._witness.watching()

    def note_program(self, text: str) -> None:
        """Look for the convolutions in the compiled step."""
        self._compiled = compiled_convolutions(text)

    def seen(self) -> Seen:
        """Return what the witness saw in the step as it was written, and what XLA made of it."""
        compiled = self._compiled
        return self._witness.told(
            self.state.params["stem"]["conv"]["kernel"],
            compiled_dtype=compiled.dtype if compiled else None,
            compiled_layout=compiled.layout if compiled else None,
            compile_cache_hits=self._clock.cache_hits,
        )

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Take over parameters and running statistics."""
        params, batch_stats = (observing.from_shared(tree, weights) for tree in self._own_weights())
        self.state = self.state.replace(
            params=self.ranks.whole(params), batch_stats=self.ranks.parts(batch_stats)
        )

    def read_weights(self) -> Dict[str, Any]:
        """Return parameters and running statistics, those of this rank."""
        params, batch_stats = self._own_weights()
        return {**observing.to_shared(params), **observing.to_shared(batch_stats)}

    def watched_step(self, index: int) -> LayersSeen:
        """Do the step, and look at the operations that its program was made of."""
        images = self.network_input(self.batch)
        self.step(index)
        layers = observing.layers_of(self.operations(), self.settings.model)
        return LayersSeen(layers, *measured(images))

    def own_pass(self) -> OwnPass:
        """Pass this rank's batch forward and backward with the function that the step differentiates."""
        return OwnPass(observing.to_shared(self.own_gradients()[1]))

    def open_feed(self, settings: ImageSettings) -> Optional[Feed]:
        """Return a new feed of the run's loader."""
        return open_loader(settings, self.ranks)

    def network_input(self, batch: Any) -> Any:
        """Return what the step makes of the images of a batch before its network."""
        images = self._normalise(jnp.asarray(np.asarray(batch[0].addressable_data(0))))
        return np.asarray(images.astype(jnp.float32)).transpose(0, 3, 1, 2)

    def observe(self) -> Observation:
        """Pass the batch forward and backward with the function that the step differentiates."""
        return observing.observe(
            self._loss_of, self.settings.model, self.state.params, self.state.batch_stats, self.batch
        )
