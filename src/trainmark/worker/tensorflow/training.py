"""A rank's training in TensorFlow, whatever it trains: one step after another, and what the run is made of."""

from __future__ import annotations

import logging
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

import keras
import tensorflow as tf

from ..core.choices import require_version
from ..core.facts import Expected, Facts
from ..core.feed import Feed
from ..core.gaps import refuse_gaps
from ..core.optimizers import Moments
from ..core.place import Place
from ..core.settings import Settings
from ..core.training import Training
from ..core.window import HostMarks, slots_for
from .compilers import Compiler, choose_compiler
from .device import (
    Device,
    choose_device,
    compute_threads,
    device_name,
    limit_threads,
    peak_memory_bytes,
    peak_memory_of,
    wait_for,
)
from .optimizer import AdamW, LossScale, make_optimizer
from .precision import Precision, choose_precision
from .ranks import Group
from .weights import NamedVariable, count_parameters


class Machine(NamedTuple):
    """What a rank computes on, in which types, and how its step is compiled."""

    device: Device
    precision: Precision
    compiler: Compiler


def choose_machine(settings: Settings, place: Place) -> Machine:
    """Return this rank's device, the precision and the compiler.

    What the device or this TensorFlow cannot do raises ``RunError`` (unsupported): before the ranks meet, so that no
    rank waits for one that has left.
    """
    require_version("TensorFlow", tf.__version__, (2, 16))
    # Its warnings (eager collectives are slow) would come once a step; what matters is raised.
    tf.get_logger().setLevel(logging.ERROR)
    device = choose_device(settings.device, place)
    refuse_gaps(settings, place, device.type)
    limit_threads(settings.threads, device)
    return Machine(device, choose_precision(settings.precision, device), choose_compiler(settings.compiler))


def batches_of(device: Device) -> Callable[..., Tuple[Any, ...]]:
    """Return what copies numpy's arrays to the device, whole numbers in 32 bits."""

    def to_batch(*arrays: Any) -> Tuple[Any, ...]:
        with tf.device(device.path):
            return tuple(
                tf.constant(array, tf.int32 if array.dtype.kind == "i" else tf.float32) for array in arrays
            )

    return to_batch


class TensorFlowTraining(Training):
    """Model, optimizer, batches and marks of one rank.

    A task's subclass builds the Keras model in ``ranks.scope()`` and gives it to ``take_over`` there; it writes
    ``forward`` and what only its own models have to tell.
    """

    ranks: Group

    parts = 1
    """How often the model is passed in one step."""

    def __init__(
        self,
        settings: Settings,
        group: Group,
        machine: Machine,
        to_batch: Callable[..., Any],
        feed: Optional[Feed],
    ) -> None:
        """Fetch the first batch."""
        super().__init__(settings, group, HostMarks(slots_for(settings.steps)), to_batch, feed)
        self._device, self._precision, self._compiler = machine

    def take_over(self, model: Any, tensors: Dict[str, NamedVariable], decays: Callable[[str], bool]) -> None:
        """Train this model; ``tensors`` are its variables by the shared names, ``decays`` says which of them decay."""
        self.model, self.tensors = model, tensors
        self._variables = model.trainable_variables
        names = {id(tensors[name].variable): name for name in tensors}
        decaying = [decays(names[id(variable)]) for variable in self._variables]
        self.optimizer = make_optimizer(self._variables, decaying, self.settings.recipe)
        self._scale = LossScale(self._precision.scaled, self.settings.recipe)

        compiler = self._compiler
        self._pass = compiler.part(self._forward_and_backward)
        self._update = compiler.part(self._apply)
        self._train = compiler.whole(self._all_ranks)

        # Made beforehand: a scalar that is made in the step would have to be copied to the device in it.
        with tf.device(self._device.path):
            self._rates = [tf.constant(rate, tf.float32) for rate in self.rates]
        self._losses: List[Any] = []

    def forward(self, *batch: Any) -> Tuple[Any, Any]:
        """Return the loss of a batch, the mean over its samples, and the outputs; in training mode."""
        raise NotImplementedError

    def train(self, index: int) -> None:
        """Train on the batch at hand."""
        self._losses.append(self._train(self._rates[index], *self.batch))

    def _all_ranks(self, rate: Any, *batch: Any) -> Any:
        return self.ranks.run(self._one_rank, rate, *batch)

    def _one_rank(self, rate: Any, *batch: Any) -> Any:
        """Do one step as this rank's replica; return the loss of its own batch."""
        loss, _, gradients = self._pass(*self.prepared(batch, self.parts, alone=False))
        self._update(self.ranks.total(gradients, self._compiler.pack_bytes), rate)
        return loss

    def prepared(self, batch: Tuple[Any, ...], _parts: int, alone: bool) -> Tuple[Any, ...]:  # noqa: ARG002
        """Return a batch as ``forward`` takes it, to be cut into so many parts; ``alone``: the other ranks do not."""
        return batch

    def _forward_and_backward(self, *batch: Any) -> Tuple[Any, Any, List[Any]]:
        """Return loss, outputs, and the gradients of this rank's part of the global loss, times the loss scale."""
        with tf.GradientTape() as tape:
            loss, outputs = self.forward(*batch)
            part = self._scale.scaled(loss / self.ranks.place.world_size)
        return loss, outputs, tape.gradient(part, [variable.value for variable in self._variables])

    def _apply(self, gradients: List[Any], rate: Any) -> None:
        self._scale.update(gradients, lambda unscaled: self.optimizer.apply(unscaled, rate))

    def observed_pass(self) -> Tuple[Any, Any, Dict[str, Any]]:
        """Return loss, outputs and gradients by name of the batch at hand, by the function that ``train`` calls.

        They are this rank's own: what the ranks sum is done elsewhere in ``train``.
        """
        ranks = self.ranks.place.world_size

        def passed(*batch: Any) -> Any:
            return self.ranks.run(self._pass, *batch)

        # Eager replicas would wait for each other.
        whole = passed if ranks == 1 else tf.function(passed, autograph=False)
        loss, outputs, gradients = whole(*self.batch)
        return loss, outputs, self.by_name([gradient * ranks for gradient in self._scale.unscaled(gradients)])

    def by_name(self, arrays: List[Any]) -> Dict[str, Any]:
        """Return what is like the trained variables, in their order, as numpy arrays by the shared names."""
        found = dict(zip((id(variable) for variable in self._variables), arrays))
        return {
            name: tensor.to_exchange(found[id(tensor.variable)].numpy())
            for name, tensor in self.tensors.items()
            if id(tensor.variable) in found
        }

    def graph(self, index: int, batch: Tuple[Any, ...]) -> Any:
        """Return the graph of the step that is run, with the functions in it."""
        whole: Any = self._train
        return whole.get_concrete_function(self._rates[index], *batch).graph.as_graph_def()

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
            parameters=count_parameters(self.model),
            threads=compute_threads(),
            optimizer=self.optimizer.name,
            implementation=self.optimizer.kernel,
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

    def expected(self) -> Expected:
        """Return the precision in words."""
        return Expected(self._precision.compute, tf32=self._precision.tf32)

    def compilations(self) -> int:
        """Return how often the step was traced: shapes are static, so that XLA compiles for a new trace alone."""
        return self._compiler.traces(self._train)

    def own_losses(self) -> List[float]:
        """Return the losses of this rank."""
        return [float(loss) for loss in self._losses]

    def steps_taken(self) -> Optional[int]:
        """Return how many steps the optimizer has counted; SGD counts none."""
        return int(self.optimizer.steps.numpy()) if isinstance(self.optimizer, AdamW) else None

    def read_moments(self) -> Optional[Moments]:
        """Return what the optimizer keeps; SGD keeps nothing of this kind."""
        adam = self.optimizer
        if not isinstance(adam, AdamW):
            return None
        return Moments(int(adam.steps.numpy()), self.by_name(adam.first), self.by_name(adam.second))

    def products(self, size: int) -> Callable[[int], None]:
        """Return products by ``tf.matmul``."""
        with tf.device(self._device.path):
            one, other = (tf.cast(tf.random.normal((size, size)), self._precision.compute) for _ in range(2))

        def times(count: int) -> None:
            with tf.device(self._device.path):
                for _ in range(count):
                    tf.matmul(one, other)
            self.synchronize()

        return times

    def sums(self, values: int) -> Callable[[int], None]:
        """Return sums by ``assign_add``."""
        with tf.device(self._device.path):
            one, other = tf.Variable(tf.zeros(values), trainable=False), tf.zeros(values)

        def times(count: int) -> None:
            with tf.device(self._device.path):
                for _ in range(count):
                    one.assign_add(other)
            self.synchronize()

        return times

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
