"""A rank's training of an image network in TensorFlow: what is built before the first step, and what is seen of it."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Optional, Tuple

import keras
import tensorflow as tf

from ...core.feed import Feed
from ...core.place import Place
from ...core.training import NONE, OwnPass
from ...tasks.image_classification.architectures import is_batch_norm
from ...tasks.image_classification.facts import Seen
from ...tasks.image_classification.known_data import TFRECORD
from ...tasks.image_classification.observing import Observation
from ...tasks.image_classification.settings import ImageSettings
from ...tasks.image_classification.training import ImageTraining
from ...tasks.image_classification.witness import LayersSeen, measured
from ..ranks import Group
from ..training import Machine, TensorFlowTraining, choose_machine
from . import observing
from .feed import ToDevice, as_input
from .loaders import find_source, open_loader
from .network import build_network
from .witness import Witness


def open_training(settings: ImageSettings, place: Place) -> TensorFlowImageTraining:
    """Return the training, ready for its first step."""
    machine = choose_machine(settings, place)
    # The graph's optimizer would turn a GPU's convolutions to the layout that it likes, whatever was asked.
    tf.config.optimizer.set_experimental_options({"layout_optimizer": False})
    source = None if settings.synthetic else find_source(settings)
    group = Group(place, machine.device)
    # Before the loader: its order is drawn from this seed too.
    keras.utils.set_random_seed(settings.seed)
    feed = None if source is None else open_loader(source, settings, place, machine.device)
    return TensorFlowImageTraining(settings, group, machine, feed)


class TensorFlowImageTraining(TensorFlowTraining, ImageTraining):
    """An image network, its loss, and the witness in it."""

    settings: ImageSettings
    forms = MappingProxyType({"native": TFRECORD})

    def __init__(self, settings: ImageSettings, group: Group, machine: Machine, feed: Optional[Feed]) -> None:
        """Build network and optimizer, and fetch the first batch."""
        to_batch = ToDevice(settings, machine.device, machine.precision.compute)
        super().__init__(settings, group, machine, to_batch, feed)
        with group.scope():
            self.network = build_network(settings)
            tensors = observing.named_variables(self.network.model, settings.model)
            self.take_over(
                self.network.model,
                tensors,
                lambda name: settings.recipe.bn_weight_decay or not is_batch_norm(name),
            )
        # Seen as an output of the trained network, and dropped by the step.
        second = list(self.network.outputs.values())[1]
        self._watched = keras.Model(self.model.inputs, [*self.model.outputs, second])
        self._witness = Witness(settings.model)

    def forward(self, images: Any, labels: Any) -> Tuple[Any, Any]:
        """Return loss and logits."""
        images = as_input(images, self.settings.layout, self._precision.compute)
        logits, second = self._watched(images, training=True)
        self._witness.see(second)
        # In FP32: a logarithm of FP16 sums is what loss scaling cannot mend.
        logits = tf.cast(logits, tf.float32)
        return self._loss(logits, labels), logits

    def _loss(self, logits: Any, labels: Any) -> Any:
        """Return the mean over the batch of the cross entropy with smoothed labels."""
        smoothing, classes = self.settings.recipe.label_smoothing, self.settings.classes
        rest = smoothing / classes
        targets = tf.one_hot(labels, classes, on_value=1.0 - smoothing + rest, off_value=rest)
        return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(targets, logits))

    def seen(self) -> Seen:
        """Return what the witness saw."""
        return self._witness.told(self._variables[0])

    def watched_step(self, index: int) -> LayersSeen:
        """Do the step, and look at its layers: in the graph that is run, or while they are called one by one."""
        measures = measured(self.network_input(self.batch))
        if self.settings.compiler == NONE:
            layers = observing.watched(self.model, self.settings.model, lambda: self.step(index))
        else:
            batch = self.batch
            self.step(index)
            layers = observing.layers_of(self.graph(index, batch))
        return LayersSeen(layers, *measures)

    def own_pass(self) -> OwnPass:
        """Pass this rank's batch forward and backward, by the very function that the step calls."""
        return OwnPass(self.observed_pass()[2])

    def open_feed(self, settings: ImageSettings) -> Optional[Feed]:
        """Return a new feed of the run's loader."""
        return open_loader(find_source(settings), settings, self.ranks.place, self._device)

    def network_input(self, batch: Any) -> Any:
        """Return what the step makes of the images of a batch before its network."""
        images = tf.cast(
            as_input(batch[0], self.settings.layout, self._precision.compute), tf.float32
        ).numpy()
        return images.transpose(0, 3, 1, 2) if self.settings.layout == "nhwc" else images

    def observe(self) -> Observation:
        """Pass the batch forward and backward, and run its images through the convolutions."""
        loss, logits, gradients = self.observed_pass()
        images = as_input(self.batch[0], self.settings.layout, self._precision.compute)
        convolutions = observing.see_convolutions(self.network, self.settings.model, images)
        return Observation(logits.numpy(), float(loss), gradients, convolutions)
