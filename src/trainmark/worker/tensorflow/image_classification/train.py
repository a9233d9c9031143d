"""A rank's training in TensorFlow: builds everything before the first step, then does one step after another."""

from __future__ import annotations

import logging
from typing import Any, Dict, List, Mapping, Optional, Tuple

import keras
import tensorflow as tf

from ...core.choices import require_version
from ...core.facts import Expected, Facts
from ...core.feed import Feed
from ...core.outcomes import UNSUPPORTED, RunError
from ...core.place import Place
from ...core.window import HostMarks, slots_for
from ...tasks.image_classification.architectures import is_batch_norm
from ...tasks.image_classification.facts import Seen
from ...tasks.image_classification.observing import Observation
from ...tasks.image_classification.settings import ImageSettings
from ...tasks.image_classification.training import ImageTraining
from ..compilers import Compiler, choose_compiler
from ..device import (
    Device,
    choose_device,
    compute_threads,
    device_name,
    limit_threads,
    peak_memory_bytes,
    peak_memory_of,
    wait_for,
)
from ..optimizer import LossScale, Momentum
from ..precision import Precision, choose_precision
from ..ranks import Group
from . import observing
from .feed import ToDevice, as_input
from .loaders import find_source, open_loader
from .network import build_network, count_parameters
from .witness import Witness


def open_training(settings: ImageSettings, place: Place) -> TensorFlowTraining:
    """Return the training, ready for its first step.

    What the device or this TensorFlow cannot do raises ``RunError`` (unsupported) before the ranks meet, so that no
    rank waits for one that has left.
    """
    require_version("TensorFlow", tf.__version__, (2, 16))
    # Its warnings (eager collectives are slow) would come once a step; what matters is raised.
    tf.get_logger().setLevel(logging.ERROR)
    device = choose_device(settings.device, place)
    limit_threads(settings.threads, device)
    precision = choose_precision(settings.precision, device)
    check_layout(settings, precision, device)
    compiler = choose_compiler(settings.compiler)
    source = None if settings.synthetic else find_source(settings)
    group = Group(place, device)
    # Before the loader: its order is drawn from this seed too.
    keras.utils.set_random_seed(settings.seed)
    feed = None if source is None else open_loader(source, settings, place, device)
    return TensorFlowTraining(settings, group, device, precision, compiler, feed)


def check_layout(settings: ImageSettings, precision: Precision, device: Device) -> None:
    """Raise ``RunError`` for a layout in which TensorFlow has no convolutions of the precision."""
    through_onednn = device.gpu is None and settings.layout == "nchw" and settings.compiler != "xla"
    if through_onednn and precision.compute == "float16":
        # IsDataTypeSupportedByOneDNNOnThisCPU in tensorflow/core/util/util.cc says which; seen to fail without them.
        raise RunError(
            UNSUPPORTED,
            "without XLA, TensorFlow computes nchw on a CPU through oneDNN, whose FP16 few of them have",
        )


class TensorFlowTraining(ImageTraining):
    """Network, optimizer, batches and marks of one rank."""

    ranks: Group

    def __init__(
        self,
        settings: ImageSettings,
        group: Group,
        device: Device,
        precision: Precision,
        compiler: Compiler,
        feed: Optional[Feed],
    ) -> None:
        """Build network and optimizer, and fetch the first batch."""
        marks = HostMarks(slots_for(settings.steps))
        super().__init__(settings, group, marks, ToDevice(settings, device, precision.compute), feed)
        self._device, self._precision, self._compiler = device, precision, compiler

        with group.scope():
            self.network = build_network(settings)
            self._variables = self.network.model.trainable_variables
            self.tensors = observing.named_variables(self.network.model, settings.model)
            names = {id(self.tensors[name].variable): name for name in self.tensors}
            decays = [
                settings.recipe.bn_weight_decay or not is_batch_norm(names[id(variable)])
                for variable in self._variables
            ]
            self._optimizer = Momentum(self._variables, decays, settings.recipe)
            self._scale = LossScale(precision.scaled, settings.recipe)

        # Seen as an output of the trained network, and dropped by the step.
        second = list(self.network.outputs.values())[1]
        self._watched = keras.Model(self.network.model.inputs, [*self.network.model.outputs, second])
        self._witness = Witness(settings.model)

        self._pass = compiler.part(self._forward_and_backward)
        self._update = compiler.part(self._apply)
        self._train = compiler.whole(self._all_ranks)

        # Made beforehand: a scalar that is made in the step would have to be copied to the device in it.
        with tf.device(device.path):
            self._rates = [tf.constant(rate, tf.float32) for rate in self.rates]
        self._losses: List[Any] = []

    def train(self, index: int) -> None:
        """Train on the batch at hand."""
        images, labels = self.batch
        self._losses.append(self._train(images, labels, self._rates[index]))

    def _all_ranks(self, images: Any, labels: Any, rate: Any) -> Any:
        return self.ranks.run(self._one_rank, images, labels, rate)

    def _one_rank(self, images: Any, labels: Any, rate: Any) -> Any:
        """Do one step as this rank's replica; return the loss of its own batch."""
        loss, _, gradients = self._pass(images, labels)
        self._update(self.ranks.total(gradients, self._compiler.pack_bytes), rate)
        return loss

    def _forward_and_backward(self, images: Any, labels: Any) -> Tuple[Any, Any, List[Any]]:
        """Return loss, logits, and the gradients of this rank's part of the global loss, times the loss scale."""
        images = as_input(images, self.settings.layout, self._precision.compute)
        with tf.GradientTape() as tape:
            logits, second = self._watched(images, training=True)
            # In FP32: a logarithm of FP16 sums is what loss scaling cannot mend.
            logits = tf.cast(logits, tf.float32)
            loss = self._loss(logits, labels)
            part = self._scale.scaled(loss / self.ranks.place.world_size)
        self._witness.see(second)
        return loss, logits, tape.gradient(part, [variable.value for variable in self._variables])

    def _loss(self, logits: Any, labels: Any) -> Any:
        """Return the mean over the batch of the cross entropy with smoothed labels."""
        smoothing, classes = self.settings.recipe.label_smoothing, self.settings.classes
        rest = smoothing / classes
        targets = tf.one_hot(labels, classes, on_value=1.0 - smoothing + rest, off_value=rest)
        return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(targets, logits))

    def _apply(self, gradients: List[Any], rate: Any) -> None:
        self._scale.update(gradients, lambda unscaled: self._optimizer.apply(unscaled, rate))

    def synchronize(self) -> None:
        """Wait for all that was handed over."""
        wait_for(self._device)

    def facts(self) -> Facts:
        """Return what the run is made of."""
        build = tf.sysconfig.get_build_info() if self._device.gpu is not None else {}
        return Facts(
            framework_version=tf.__version__,
            device=self._device.type,
            device_name=device_name(self._device),
            parameters=count_parameters(self.network.model),
            threads=compute_threads(),
            implementation="ResourceApplyMomentum",
            loss_scaled=self._scale.enabled,
            compiler_mode=self._compiler.mode,
            peak_memory_of=peak_memory_of(self._device),
            others={
                "keras_version": keras.__version__,
                # TensorFlow has no events to record in a GPU's stream.
                "step_marks": "done" if self._device.gpu is None else "handed over",
                "cuda": build.get("cuda_version"),
                "cudnn": build.get("cudnn_version"),
            },
        )

    def seen(self) -> Seen:
        """Return what the witness saw."""
        return self._witness.told(self._variables[0])

    def expected(self) -> Expected:
        """Return the precision in words."""
        return Expected(self._precision.compute, tf32=self._precision.tf32)

    def compilations(self) -> int:
        """Return how often the step was traced: shapes are static, so that XLA compiles for a new trace alone."""
        return self._compiler.traces(self._train)

    def own_losses(self) -> List[float]:
        """Return the losses of this rank."""
        return [float(loss) for loss in self._losses]

    def peak_memory_bytes(self) -> int:
        """Return the most memory that this rank held."""
        return peak_memory_bytes(self._device)

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Take over parameters and running statistics."""
        for name, tensor in self.tensors.items():
            tensor.load(weights[name])

    def read_weights(self) -> Dict[str, Any]:
        """Return parameters and running statistics."""
        return {name: tensor.read() for name, tensor in self.tensors.items()}

    def observe(self) -> Observation:
        """Pass the batch forward and backward by the very function that ``train`` calls."""
        images, labels = self.batch
        loss, logits, gradients = self.ranks.run(self._pass, images, labels)
        gradients = dict(zip((id(variable) for variable in self._variables), self._scale.unscaled(gradients)))
        by_name = {
            name: tensor.to_exchange(gradients[id(tensor.variable)].numpy())
            for name, tensor in self.tensors.items()
            if id(tensor.variable) in gradients
        }
        images = as_input(images, self.settings.layout, self._precision.compute)
        convolutions = observing.see_convolutions(self.network, self.settings.model, images)
        return Observation(logits.numpy(), float(loss), by_name, convolutions)
