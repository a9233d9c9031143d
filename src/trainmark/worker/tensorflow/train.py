"""A rank's training in TensorFlow: builds everything before the first step, then does one step after another."""

from __future__ import annotations

import hashlib
import logging
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import keras
import tensorflow as tf

from ..architectures import is_batch_norm
from ..arguments import Settings
from ..feed import Feed
from ..outcomes import UNSUPPORTED, RunError, require_as_asked
from ..place import Place
from ..schedule import learning_rates
from ..training import Observation, Training
from ..window import HostMarks, slots_for
from . import observing
from .compilers import Compiler, choose_compiler
from .device import (
    Device,
    ResultMarks,
    choose_device,
    compute_threads,
    device_name,
    limit_threads,
    peak_memory_bytes,
    peak_memory_of,
)
from .feed import as_input, given_feed, synthetic_feed
from .loaders import find_source, open_loader
from .network import build_network, count_parameters
from .optimizer import LossScale, Momentum
from .precision import Precision, choose_precision
from .ranks import Group
from .witness import Witness

OLDEST = (2, 16)


def open_training(settings: Settings, place: Place) -> TensorFlowTraining:
    """Return the training, ready for its first step.

    What the device or this TensorFlow cannot do raises ``RunError`` (unsupported) before the ranks meet, so that no
    rank waits for one that has left.
    """
    _check_version()
    if settings.collective != "native":
        raise RunError(UNSUPPORTED, f"the TensorFlow worker has no collective {settings.collective!r}")
    # Its warnings (eager collectives are slow) would come once a step; what matters is raised.
    tf.get_logger().setLevel(logging.ERROR)
    limit_threads(settings.threads)
    device = choose_device(settings.device, place)
    precision = choose_precision(settings, device)
    compiler = choose_compiler(settings.compiler)
    source = None if settings.synthetic else find_source(settings)
    group = Group(place, device)
    # Before the loader: its order is drawn from this seed too.
    keras.utils.set_random_seed(settings.seed)
    if source is None:
        feed = synthetic_feed(settings, place.rank, device, precision.compute)
    else:
        feed = open_loader(source, settings, place, device)
    return TensorFlowTraining(settings, group, device, precision, compiler, feed)


class TensorFlowTraining(Training):
    """Network, optimizer, batches and marks of one rank."""

    def __init__(
        self,
        settings: Settings,
        group: Group,
        device: Device,
        precision: Precision,
        compiler: Compiler,
        feed: Feed,
    ) -> None:
        """Build network and optimizer, and fetch the first batch."""
        self._settings, self._group, self._device = settings, group, device
        self._precision, self._compiler, self._feed = precision, compiler, feed
        self.epoch_images = feed.epoch_images
        self.data_waits_s: List[float] = [0.0] * settings.steps

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
        self._parameters = count_parameters(self.network.model)

        # Seen as an output of the trained network, and dropped by the step.
        second = list(self.network.outputs.values())[1]
        self._watched = keras.Model(self.network.model.inputs, [*self.network.model.outputs, second])
        self._witness = Witness(settings.model)

        self._pass = compiler.part(self._forward_and_backward)
        self._update = compiler.part(self._apply)
        self._train = compiler.whole(self._all_ranks)

        global_batch = settings.batch_per_device * group.place.world_size
        rates = learning_rates(settings.recipe, settings.steps, self.epoch_images, global_batch)
        # Made beforehand: a scalar that is made in the step would have to be copied to the device in it.
        with tf.device(device.path):
            self._rates = [tf.constant(rate, tf.float32) for rate in rates]
        self._losses: List[Any] = [float("nan")] * settings.steps
        self._last: Any = None
        slots = slots_for(settings.steps)
        self._host_marks = HostMarks(slots)
        self._result_marks = None if device.gpu is None else ResultMarks(slots)
        self.batch = feed.next()

    def step(self, index: int) -> None:
        """Train on the batch at hand, then fetch the next one."""
        images, labels = self.batch
        self._last = self._losses[index] = self._train(images, labels, self._rates[index])
        self.batch = self._feed.next()
        self.data_waits_s[index] = self._feed.wait_s

    def _all_ranks(self, images: Any, labels: Any, rate: Any) -> Any:
        return self._group.run(self._step, images, labels, rate)

    def _step(self, images: Any, labels: Any, rate: Any) -> Any:
        """Do one step as this rank's replica; return the loss of its own batch."""
        loss, _, gradients = self._pass(images, labels)
        self._update(self._group.total(gradients), rate)
        return loss

    def _forward_and_backward(self, images: Any, labels: Any) -> Tuple[Any, Any, List[Any]]:
        """Return loss, logits, and the gradients of this rank's part of the global loss, times the loss scale."""
        settings = self._settings
        images = as_input(images, settings.layout, self._precision.compute)
        with tf.GradientTape() as tape:
            logits, second = self._watched(images, training=True)
            # In FP32: a logarithm of FP16 sums is what loss scaling cannot mend.
            logits = tf.cast(logits, tf.float32)
            loss = self._loss(logits, labels)
            part = self._scale.scaled(loss / self._group.place.world_size)
        self._witness.see(second)
        return loss, logits, tape.gradient(part, [variable.value for variable in self._variables])

    def _loss(self, logits: Any, labels: Any) -> Any:
        """Return the mean over the batch of the cross entropy with smoothed labels."""
        smoothing, classes = self._settings.recipe.label_smoothing, self._settings.classes
        rest = smoothing / classes
        targets = tf.one_hot(labels, classes, on_value=1.0 - smoothing + rest, off_value=rest)
        return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(targets, logits))

    def _apply(self, gradients: List[Any], rate: Any) -> None:
        self._scale.update(gradients, lambda unscaled: self._optimizer.apply(unscaled, rate))

    def mark(self, slot: int) -> None:
        """Note the time; on a GPU, when the step's loss can be read."""
        if self._result_marks is None:
            self._host_marks.mark(slot)
        else:
            self._result_marks.mark(slot, self._last)

    def seconds_between(self, earlier: int, later: int) -> float:
        """Return the seconds between two marks."""
        return (self._result_marks or self._host_marks).seconds_between(earlier, later)

    def synchronize(self) -> None:
        """Wait for a GPU: its work is done when the last loss can be read. A CPU is never behind."""
        if self._result_marks is not None:
            self._result_marks.finish()
            if self._last is not None:
                self._last.numpy()
        self._last = None

    def barrier(self) -> None:
        """Wait for every rank."""
        self._group.barrier()

    def describe(self) -> Dict[str, Any]:
        """Return what the run is made of."""
        recipe = self._settings.recipe
        build = tf.sysconfig.get_build_info() if self._device.gpu is not None else {}
        return {
            "framework_version": tf.__version__,
            "keras_version": keras.__version__,
            "device": self._device.type,
            "device_name": device_name(self._device),
            "parameters": self._parameters,
            "threads": compute_threads(),
            "decoder": self._feed.decoder,
            "epoch_images": self.epoch_images,
            "backend": self._group.backend,
            "compiler_mode": self._compiler.mode,
            "cuda": build.get("cuda_version"),
            "cudnn": build.get("cudnn_version"),
            "optimizer": {
                "name": "SGD",
                "implementation": "ResourceApplyMomentum",
                "loss_scale": (recipe.loss_scale or "dynamic") if self._scale.enabled else None,
            },
            "peak_memory_of": peak_memory_of(self._device),
        }

    def actual(self) -> Dict[str, Any]:
        """Compare what the first step computed with to what was asked for, and return it."""
        seen = self._witness.told(self._variables[0])
        asked = {
            "compute_dtype": self._precision.compute,
            "weight_dtype": "float32",
            "tf32_matmul": self._precision.tf32,
            "tf32_convolution": self._precision.tf32,
            "activation_layout": self._settings.layout,
            "batch_per_device": self._settings.batch_per_device,
        }
        require_as_asked(seen, asked)
        return {**seen, "parameters": self._parameters, "world_size": self._group.place.world_size}

    def compile_s(self) -> Optional[float]:
        """Return None: TensorFlow does not say how long it traced and compiled; the first step holds it."""
        return None

    def losses(self) -> List[float]:
        """Return the losses of the global batch."""
        return self._group.mean([float(loss) for loss in self._losses])

    def digest(self) -> int:
        """Return 63 bits of a BLAKE2 hash over the bytes of all parameters."""
        digest = hashlib.blake2b(digest_size=8)
        for variable in self._variables:
            digest.update(variable.numpy().tobytes())
        return int.from_bytes(digest.digest(), "little") >> 1

    def peak_memory_bytes(self) -> int:
        """Return the most memory that this rank held."""
        return peak_memory_bytes(self._device)

    def gather(self, values: Sequence[int]) -> List[List[int]]:
        """Return every rank's values."""
        return self._group.gather(values)

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Take over parameters and running statistics."""
        for name, tensor in self.tensors.items():
            tensor.load(weights[name])

    def read_weights(self) -> Dict[str, Any]:
        """Return parameters and running statistics."""
        return {name: tensor.read() for name, tensor in self.tensors.items()}

    def set_batch(self, images: Any, labels: Any) -> None:
        """Train on this batch from now on."""
        self._feed = given_feed(images, labels, self._settings, self._device, self._precision.compute)
        self.batch = self._feed.next()

    def observe(self) -> Observation:
        """Pass the batch forward and backward by the very function that ``step`` calls."""
        images, labels = self.batch
        loss, logits, gradients = self._group.run(self._pass, images, labels)
        gradients = dict(zip((id(variable) for variable in self._variables), self._scale.unscaled(gradients)))
        by_name = {
            name: tensor.to_exchange(gradients[id(tensor.variable)].numpy())
            for name, tensor in self.tensors.items()
            if id(tensor.variable) in gradients
        }
        convolutions = observing.see_convolutions(
            self.network,
            self._settings.model,
            as_input(images, self._settings.layout, self._precision.compute),
        )
        return Observation(logits.numpy(), float(loss), by_name, convolutions)

    def close(self) -> None:
        """Leave together with the others: a rank that is gone early would look lost to them."""
        self._group.barrier()


def _check_version() -> None:
    version = tuple(int(part) for part in tf.__version__.split(".")[:2])
    if version < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise RunError(UNSUPPORTED, f"TensorFlow {oldest} or later is needed; this is {tf.__version__}")
