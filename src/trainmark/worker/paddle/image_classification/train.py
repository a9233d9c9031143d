"""A rank's training in PaddlePaddle: builds everything before the first step, then does one step after another."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

import paddle

from ...core.choices import one_of, require_version
from ...core.facts import Expected, Facts
from ...core.feed import Feed
from ...core.outcomes import INVALID, UNSUPPORTED, RunError
from ...core.place import Place
from ...core.window import EventMarks, HostMarks, Marks, slots_for
from ...tasks.image_classification.facts import Seen
from ...tasks.image_classification.observing import Observation
from ...tasks.image_classification.settings import ImageSettings
from ...tasks.image_classification.training import ImageTraining
from ..device import (
    algorithm_search,
    choose_device,
    device_name,
    limit_threads,
    math_threads,
    peak_memory_bytes,
    peak_memory_of,
)
from ..distributed import Group
from ..optimizer import make_optimizer, make_schedule
from ..precision import FP32, Precision, auto_cast, choose_precision, loss_scaler
from . import observing
from .feed import ToDevice
from .learner import BACKENDS, NONE, Learner, check_compiler, compile_learner, programs, trace
from .networks import Options, build_network, trainable
from .witness import Witness


def open_training(settings: ImageSettings, place: Place) -> PaddleTraining:
    """Return the training, ready for its first step.

    What the device or this PaddlePaddle cannot do raises ``RunError`` (unsupported) before the ranks meet, so that no
    rank waits for one that has left.
    """
    require_version("PaddlePaddle", paddle.version.full_version, (3, 0))
    device = choose_device(settings.device, place)
    precision = choose_precision(settings.precision, device)
    check_compiler(settings.compiler)
    check_layout(settings.layout, precision, device)
    feed = _open_feed(settings, place)
    group = Group(place, device)
    if settings.threads:
        limit_threads(settings.threads)
    return PaddleTraining(settings, group, device, precision, feed)


class PaddleTraining(ImageTraining):
    """Learner, optimizer, batches and marks of one rank."""

    def __init__(
        self, settings: ImageSettings, group: Group, device: str, precision: Precision, feed: Optional[Feed]
    ) -> None:
        """Build learner and optimizer, and fetch the first batch."""
        slots = slots_for(settings.steps)
        marks: Marks = HostMarks(slots)
        if device == "cuda":
            marks = EventMarks(slots, lambda: paddle.device.cuda.Event(enable_timing=True))
        super().__init__(settings, group, marks, ToDevice(settings.layout), feed)
        self._group, self._device, self._precision = group, device, precision

        paddle.seed(settings.seed)
        options = Options(settings.layout, settings.recipe.bn_weight_decay)
        self.network = build_network(settings.model, settings.classes, options)
        self._parameters = trainable(self.network)
        self._witness = Witness(self.network)
        self._learner = Learner(self.network, settings.recipe.label_smoothing)
        compile_learner(self._learner, settings)
        self._compile_s: Optional[float] = None if settings.compiler == NONE else 0.0
        self.learner = group.wrap(self._learner)
        self._schedule = make_schedule(self.rates)
        self.optimizer = make_optimizer(self._parameters, self._schedule, settings.recipe)
        self.scaler = loss_scaler(precision, settings.recipe)
        # One number a step, which stays on the device until the window is over.
        self._losses: List[Any] = []

    def train(self, index: int) -> None:
        """Train on the batch at hand."""
        self._schedule.step(index)
        if index == 0 and self._compile_s is not None:
            with auto_cast(self._precision):
                self._compile_s = trace(self._learner, self.batch)
        _, loss = self._forward()
        if self.scaler is None:
            loss.backward()
            self._group.average(self._parameters)
            self.optimizer.step()
        else:
            self.scaler.scale(loss).backward()
            self._group.average(self._parameters)
            self.scaler.step(self.optimizer)
            self.scaler.update()
        # Released, and not filled with zeros to which the next step would have to add.
        self.optimizer.clear_grad(set_to_zero=False)
        self._losses.append(loss.detach())

    def _forward(self) -> Tuple[Any, Any]:
        """Return logits and loss of the batch at hand."""
        with auto_cast(self._precision):
            return self.learner(*self.batch)

    def synchronize(self) -> None:
        """Wait for the GPU; a CPU is never behind."""
        if self._device == "cuda":
            paddle.device.synchronize()

    def facts(self) -> Facts:
        """Return what the run is made of."""
        cuda = self._device == "cuda"
        return Facts(
            framework_version=paddle.version.full_version,
            device=self._device,
            device_name=device_name(self._device),
            parameters=sum(int(parameter.size) for parameter in self._parameters),
            threads=math_threads(),
            optimizer="Momentum",
            implementation="multi-tensor",
            loss_scaled=self.scaler is not None,
            compiler_mode=BACKENDS[self.settings.compiler],
            peak_memory_of=peak_memory_of(self._device),
            others={
                "cuda": paddle.version.cuda() if cuda else None,
                "cudnn": paddle.device.get_cudnn_version() if cuda else None,
                "algorithm_search": algorithm_search(self._device),
            },
        )

    def seen(self) -> Seen:
        """Return what the witness saw; raise ``RunError`` (invalid) if the first step was not one program."""
        compiled, asked = programs(self._learner), int(self.settings.compiler != NONE)
        if compiled != asked:
            raise RunError(INVALID, f"the first step made {compiled} compiled programs, not {asked}")
        return self._witness.told(compiled_programs=compiled)

    def expected(self) -> Expected:
        """Return the precision in words."""
        return Expected(self._precision.compute, FP32, self._precision.tf32)

    def compile_s(self) -> Optional[float]:
        """Return the seconds that making the program took, in the first step."""
        return self._compile_s

    def compilations(self) -> Optional[int]:
        """Return how many programs were made so far."""
        return programs(self._learner)

    def own_losses(self) -> List[float]:
        """Return the losses of this rank."""
        return [float(loss) for loss in paddle.stack(self._losses).tolist()]

    def peak_memory_bytes(self) -> int:
        """Return the most memory that this rank held."""
        return peak_memory_bytes(self._device)

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Take over parameters and running statistics."""
        observing.load(observing.named_tensors(self.network, self.settings.model), weights)

    def read_weights(self) -> Dict[str, Any]:
        """Return parameters and running statistics."""
        return observing.read(observing.named_tensors(self.network, self.settings.model))

    def observe(self) -> Observation:
        """Pass the batch forward and backward with the step's own network and loss."""
        tensors = observing.named_tensors(self.network, self.settings.model)
        return observing.observe(self.network, self._forward, tensors)


def check_layout(layout: str, precision: Precision, device: str) -> None:
    """Raise ``RunError`` where Paddle takes NHWC but turns it into NCHW inside every convolution."""
    if layout == "nchw" or (device == "cuda" and precision.compute != FP32):
        return
    where = "CPU" if device == "cpu" else "FP32"
    raise RunError(
        UNSUPPORTED, f"nhwc: PaddlePaddle's {where} convolution turns it into nchw and back in every layer"
    )


def _open_feed(settings: ImageSettings, place: Place) -> Optional[Feed]:
    if settings.synthetic:
        return None
    one_of("PaddlePaddle", "loader", settings.loader, ("native",))
    from .loader import open_native

    return open_native(settings, place)
