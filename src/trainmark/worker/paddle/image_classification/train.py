"""A rank's training of an image network in PaddlePaddle: what is built before the first step, and what is seen."""

from __future__ import annotations

from typing import Any, Dict, Optional

from ...core.choices import one_of
from ...core.feed import Feed
from ...core.place import Place
from ...core.training import OwnPass
from ...tasks.image_classification.facts import Seen
from ...tasks.image_classification.observing import Observation
from ...tasks.image_classification.settings import ImageSettings
from ...tasks.image_classification.training import ImageTraining
from ...tasks.image_classification.witness import LayersSeen
from ..compilers import NONE, operator_by_operator
from ..distributed import Group
from ..precision import Precision
from ..training import PaddleTraining, choose_machine, meet_ranks
from . import observing
from .feed import ToDevice
from .learner import Learner, specification
from .networks import Options, build_network, trainable
from .witness import Witness


def open_training(settings: ImageSettings, place: Place) -> PaddleImageTraining:
    """Return the training, ready for its first step."""
    device, precision = choose_machine(settings, place)
    feed = _open_feed(settings, place)
    return PaddleImageTraining(settings, meet_ranks(settings, place, device), device, precision, feed)


class PaddleImageTraining(PaddleTraining, ImageTraining):
    """An image network, its loss, and the witness in it."""

    settings: ImageSettings

    def __init__(
        self, settings: ImageSettings, group: Group, device: str, precision: Precision, feed: Optional[Feed]
    ) -> None:
        """Build learner and optimizer, and fetch the first batch."""
        super().__init__(settings, group, device, precision, ToDevice(settings.layout), feed)
        options = Options(settings.layout, settings.recipe.bn_weight_decay)
        self.network = build_network(settings.model, settings.classes, options)
        self._witness = Witness(self.network)
        learner = Learner(self.network, settings.recipe.label_smoothing)
        self.take_over(learner, trainable(self.network), specification(settings))

    def seen(self) -> Seen:
        """Return what the witness saw."""
        return self._witness.told(compiled_programs=self.compiled_programs())

    def named_tensors(self) -> Dict[str, Any]:
        """Return parameters and running statistics by the shared names."""
        return observing.named_tensors(self.network, self.settings.model)

    def observe(self) -> Observation:
        """Pass the batch forward and backward with the step's own network and loss."""
        return observing.observe(self.network, self._forward, self.named_tensors())

    def watched_step(self, index: int) -> LayersSeen:
        """Do the step, and look at its layers; those of a compiled program are asked of the program."""
        program = None if self.settings.compiler == NONE else self.compiled_program()
        return observing.watched(self._learner, self.settings.layout, lambda: self.step(index), program)

    def own_pass(self) -> Optional[OwnPass]:
        """Pass the batch forward and backward operator by operator, as the step's layers are written.

        With NCCL DataParallel averages in any backward pass: what it does to a rank's own gradients is not seen.
        """
        if self.ranks.backend == "nccl":
            return None
        with operator_by_operator():
            return OwnPass(observing.gradients(self._forward, self.named_tensors()))

    def open_feed(self, settings: ImageSettings) -> Optional[Feed]:
        """Return a new feed of the run's loader."""
        return _open_feed(settings, self.ranks.place)

    def network_input(self, batch: Any) -> Any:
        """Return the images of a batch, which its feed has normalised."""
        images = batch[0].numpy()
        return images.transpose(0, 3, 1, 2) if self.settings.layout == "nhwc" else images


def _open_feed(settings: ImageSettings, place: Place) -> Optional[Feed]:
    if settings.synthetic:
        return None
    one_of("PaddlePaddle", "loader", settings.loader, ("native",))
    from .loader import open_native

    return open_native(settings, place)
