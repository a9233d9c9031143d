"""A rank's training of an image network in MindSpore: what is built before the first step, and what is seen of it."""

from __future__ import annotations

from typing import Any, Optional

import mindspore as ms
import numpy as np

from ...core.feed import Feed
from ...core.place import Place
from ...core.training import OwnPass
from ...tasks.image_classification.architectures import ARCHITECTURES
from ...tasks.image_classification.facts import Seen, layout_by_axes
from ...tasks.image_classification.observing import Observation
from ...tasks.image_classification.settings import ImageSettings
from ...tasks.image_classification.training import ImageTraining
from ...tasks.image_classification.witness import LayersSeen
from ..precision import with_precision
from ..training import Machine, MindSporeTraining, open_machine
from . import observing
from .models import build_model
from .step import NetworkWithLoss, make_optimizer
from .witness import HookWitness, in_graph


def open_training(settings: ImageSettings, place: Place) -> MindSporeImageTraining:
    """Return the training, ready for its first step."""
    machine = open_machine(settings, place, lambda: _open_feed(settings, place))
    return MindSporeImageTraining(settings, machine)


def to_batch(images: Any, labels: Any) -> Any:
    """Return images (batch, 3, size, size) in float32 and labels (batch,) in int32 as tensors."""
    return ms.Tensor(images.astype(np.float32)), ms.Tensor(labels.astype(np.int32))


class MindSporeImageTraining(MindSporeTraining, ImageTraining):
    """An image network, its loss, and the witness in it."""

    settings: ImageSettings

    def __init__(self, settings: ImageSettings, machine: Machine) -> None:
        """Build model and optimizer, and fetch the first batch."""
        super().__init__(settings, machine, to_batch)
        recipe = settings.recipe
        model = build_model(settings.model, settings.classes)
        self._hook = None if self._compiled else HookWitness(model)
        self.take_over(
            model,
            NetworkWithLoss(with_precision(model, machine.precision), recipe.label_smoothing),
            make_optimizer(model, recipe, self.rates),
            observing.named_parameters(model, settings.model),
        )

    def seen(self) -> Seen:
        """Return what the second convolution gave, and how its weights are kept."""
        second = ARCHITECTURES[self.settings.model].convolutions[1]
        output = in_graph(self.train_step) if self._hook is None else self._hook.look()
        weight = self._shared[second.name + ".conv.weight"]
        return Seen(
            compute_dtype=output.dtype,
            weight_dtype=str(weight.dtype).lower(),
            activation_layout=layout_by_axes(output.shape, second.outputs),
            weight_layout=layout_by_axes(tuple(weight.shape), second.weight_shape[1]),
            batch_per_device=output.shape[0],
        )

    def observe(self) -> Observation:
        """Pass the batch forward and backward with the step's own network, loss and batch."""
        return observing.observe(
            self.model, self.settings.model, self.train_step.forward, self.batch, self._shared
        )

    def watched_step(self, index: int) -> LayersSeen:
        """Do the step, and look at its layers: by hooks, or in MindSpore's own graph of it."""
        step = self.train_step if self._compiled else None
        return observing.watched(self.model, self.settings.model, self.batch, lambda: self.step(index), step)

    def own_pass(self) -> OwnPass:
        """Pass the batch forward and backward with the step's own network and loss, operator by operator."""
        forward = self.train_step.forward
        return OwnPass(observing.gradients(self.model, forward, self.batch, self._shared))

    def open_feed(self, settings: ImageSettings) -> Optional[Feed]:
        """Return a new feed of the run's loader."""
        return _open_feed(settings, self.ranks.place)

    def network_input(self, batch: Any) -> Any:
        """Return the images of a batch, which its loader has normalised."""
        return batch[0].asnumpy()


def _open_feed(settings: ImageSettings, place: Place) -> Optional[Feed]:
    if settings.synthetic:
        return None
    from .loader import open_loader

    return open_loader(settings, place)
