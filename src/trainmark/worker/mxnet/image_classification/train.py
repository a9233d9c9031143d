"""A rank's training of an image network in MXNet: what is built before the first step, and what is seen of it."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Dict, Mapping, Optional, Tuple

import mxnet as mx

from ...core.feed import Feed
from ...core.place import Place
from ...core.training import OwnPass
from ...tasks.image_classification.facts import Seen
from ...tasks.image_classification.known_data import RECORDIO
from ...tasks.image_classification.observing import Observation
from ...tasks.image_classification.settings import ImageSettings
from ...tasks.image_classification.training import ImageTraining
from ...tasks.image_classification.witness import LayersSeen
from ..training import Machine, MXNetTraining, choose_machine
from . import observing
from .feed import ToDevice
from .loaders import open_loader
from .network import CrossEntropy, build_model
from .witness import Witness


def open_training(settings: ImageSettings, place: Place) -> MXNetImageTraining:
    """Return the training, ready for its first step."""
    machine = choose_machine(settings, place)
    feed = None if settings.synthetic else open_loader(settings, place, machine.context)
    return MXNetImageTraining(settings, place, machine, feed)


class MXNetImageTraining(MXNetTraining, ImageTraining):
    """An image network, its loss, and the witness in it."""

    settings: ImageSettings
    forms = MappingProxyType({"native": RECORDIO})

    def __init__(self, settings: ImageSettings, place: Place, machine: Machine, feed: Optional[Feed]) -> None:
        """Build the model, meet the other ranks, and fetch the first batch."""
        mx.random.seed(settings.seed)
        model = build_model(settings.model, settings.classes, settings.layout.upper(), machine.context)
        self._witness = Witness(model, settings.model)
        if not settings.recipe.bn_weight_decay:
            model.collect_params(".*_gamma|.*_beta").setattr("wd_mult", 0.0)
        loss = CrossEntropy(settings.recipe.label_smoothing)
        to_batch = ToDevice(settings, machine.context)
        super().__init__(settings, place, machine, model, loss, to_batch, feed)

    def _forward(self) -> Tuple[Any, Any]:
        """Return logits and loss of the batch at hand."""
        images, labels = self.batch
        logits = self.model(images)
        return logits, self.loss(logits, labels)

    def seen(self) -> Seen:
        """Return what the witness saw."""
        return self._witness.told(self.batch[0])

    def compilations(self) -> Optional[int]:
        """Return how often the network was traced so far; nothing is without ``hybridize``."""
        return self._witness.traces

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Take over parameters and running statistics."""
        observing.load(
            observing.named_parameters(self.model, self.settings.model), weights, self.settings.layout
        )

    def read_weights(self) -> Dict[str, Any]:
        """Return parameters and running statistics."""
        return observing.read(
            observing.named_parameters(self.model, self.settings.model), self.settings.layout
        )

    def observe(self) -> Observation:
        """Pass the batch forward and backward with the step's own model and loss, operator by operator."""
        return observing.observe(self.model, self.settings.model, self._forward, self.settings.layout)

    def watched_step(self, index: int) -> LayersSeen:
        """Do the step, and look at its layers in the graph of the network."""
        return observing.watched(
            self.model, self.settings.model, self.settings.layout, lambda: self.step(index)
        )

    def own_pass(self) -> OwnPass:
        """Pass the batch forward and backward operator by operator, as the step's layers are written."""
        with observing.operator_by_operator(self.model, self.loss):
            return OwnPass(
                observing.gradients(self.model, self.settings.model, self._forward, self.settings.layout)
            )

    def open_feed(self, settings: ImageSettings) -> Optional[Feed]:
        """Return a new feed of the run's loader."""
        return open_loader(settings, self.ranks.place, self._context)

    def network_input(self, batch: Any) -> Any:
        """Return the images of a batch, which its loader has normalised."""
        images = batch[0].astype("float32").asnumpy()
        return images.transpose(0, 3, 1, 2) if self.settings.layout == "nhwc" else images
