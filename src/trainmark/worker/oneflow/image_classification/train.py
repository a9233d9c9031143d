"""A rank's training of an image network in OneFlow: what is built before the first step, and what is seen of it."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from oneflow import nn

from ...core.feed import Feed
from ...core.place import Place
from ...tasks.image_classification.facts import Seen
from ...tasks.image_classification.observing import Observation
from ...tasks.image_classification.settings import ImageSettings
from ...tasks.image_classification.training import ImageTraining
from ..optimizer import sgd
from ..training import Machine, OneFlowTraining, choose_machine
from . import observing
from .feed import ToDevice
from .networks import SmoothedCrossEntropy, build_network


def open_training(settings: ImageSettings, place: Place) -> OneFlowImageTraining:
    """Return the training, ready for its first step."""
    machine = choose_machine(settings, place)
    return OneFlowImageTraining(settings, place, machine, _open_feed(settings, place, machine.device))


class OneFlowImageTraining(OneFlowTraining, ImageTraining):
    """An image network, its loss, and the hooks in it."""

    settings: ImageSettings

    def __init__(self, settings: ImageSettings, place: Place, machine: Machine, feed: Optional[Feed]) -> None:
        """Build network and optimizer, and fetch the first batch."""
        device = machine.device
        super().__init__(settings, place, machine, ToDevice(device), feed)
        network = build_network(settings.model, settings.classes).to(device)
        network.train()
        self._hooks = observing.Hooks(network, settings.model)
        self.take_over(
            network,
            SmoothedCrossEntropy(settings.recipe.label_smoothing).to(device),
            observing.named_tensors(network, settings.model),
            lambda wrapped: make_optimizer(wrapped, settings, device),
        )

    def _forward(self) -> Tuple[Any, Any]:
        """Return logits and loss of the batch at hand."""
        images, labels = self.batch
        with self.autocast:
            logits = self.network(images).float()
            return logits, self.loss(logits, labels)

    def seen(self) -> Seen:
        """Return what the first step computed with.

        The type in a graph is decided after its layers were traced: it cannot be seen.
        """
        mixed_graph = self._graph is not None and self._precision.mixed
        return self._hooks.told((*(("compute_dtype",) if mixed_graph else ()), *self.tf32_unseen()))

    def observe(self) -> Observation:
        """Pass the batch forward and backward with the step's own network and loss, eagerly."""
        return observing.observe(self._hooks, self._forward, self._tensors, self.optimizer)


def make_optimizer(network: Any, settings: ImageSettings, device: Any) -> Any:
    """Return SGD, with batch-norm weights and biases in a group that does not decay unless asked."""
    recipe = settings.recipe
    norm: List[Any] = []
    other: List[Any] = []
    for module in network.modules():
        own = list(module.parameters(recurse=False))
        (norm if isinstance(module, nn.BatchNorm2d) else other).extend(own)
    decays = [(other, recipe.weight_decay), (norm, recipe.weight_decay if recipe.bn_weight_decay else 0.0)]
    return sgd(decays, recipe, device)


def _open_feed(settings: ImageSettings, place: Place, device: Any) -> Optional[Feed]:
    if settings.synthetic:
        return None
    from .loader import open_loader

    return open_loader(settings, place, device)
