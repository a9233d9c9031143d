"""A rank's training in PaddlePaddle: builds everything before the first step, then does one step after another."""

from __future__ import annotations

import hashlib
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import paddle

from ..arguments import Settings
from ..feed import Feed
from ..outcomes import UNSUPPORTED, RunError, require_as_asked
from ..place import Place
from ..schedule import learning_rates
from ..training import Observation, Training
from ..window import HostMarks, slots_for
from . import observing
from .device import (
    CudaMarks,
    choose_device,
    device_name,
    limit_threads,
    math_threads,
    peak_memory_bytes,
    peak_memory_of,
)
from .distributed import Group
from .feed import given, synthetic
from .learner import BACKENDS, NONE, Learner, check_compiler, compile_learner, programs, trace
from .networks import Options, build_network, trainable
from .optimizer import make_optimizer, make_schedule
from .precision import FP32, Precision, auto_cast, choose_precision, loss_scaler, tf32_switches
from .witness import Witness


def open_training(settings: Settings, place: Place) -> PaddleTraining:
    """Return the training, ready for its first step.

    What the device or this PaddlePaddle cannot do raises ``RunError`` (unsupported) before the ranks meet, so that no
    rank waits for one that has left.
    """
    _check_version()
    device = choose_device(settings.device, place)
    precision = choose_precision(settings.precision, device)
    check_compiler(settings.compiler)
    check_layout(settings.layout, precision, device)
    _check_collective(settings.collective)
    feed = _open_feed(settings, place)
    group = Group(place, device)
    if settings.threads:
        limit_threads(settings.threads)
    return PaddleTraining(settings, group, device, precision, feed)


class PaddleTraining(Training):
    """Learner, optimizer, batches and marks of one rank."""

    def __init__(
        self, settings: Settings, group: Group, device: str, precision: Precision, feed: Feed
    ) -> None:
        """Build learner and optimizer, and fetch the first batch."""
        self._settings, self._group, self._device, self._precision = settings, group, device, precision
        self._feed = feed
        self.epoch_images = feed.epoch_images
        self.data_waits_s: List[float] = [0.0] * settings.steps

        paddle.seed(settings.seed)
        options = Options(settings.layout, settings.recipe.bn_weight_decay)
        self.network = build_network(settings.model, settings.classes, options)
        self._parameters = trainable(self.network)
        self._witness = Witness(self.network)
        self._learner = Learner(self.network, settings.recipe.label_smoothing)
        compile_learner(self._learner, settings)
        self._compile_s: Optional[float] = None if settings.compiler == NONE else 0.0
        self.learner = group.wrap(self._learner)
        global_batch = settings.batch_per_device * group.place.world_size
        rates = learning_rates(settings.recipe, settings.steps, self.epoch_images, global_batch)
        self._schedule = make_schedule(rates)
        self.optimizer = make_optimizer(self._parameters, self._schedule, settings.recipe)
        self.scaler = loss_scaler(precision, settings.recipe)

        slots = slots_for(settings.steps)
        self._marks = CudaMarks(slots) if device == "cuda" else HostMarks(slots)
        # One number a step, which stays on the device until the window is over.
        self._losses: List[Any] = []
        self.batch = feed.next()

    def step(self, index: int) -> None:
        """Train on the batch at hand, then fetch the next one while the device still computes."""
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
        self.batch = self._feed.next()
        self.data_waits_s[index] = self._feed.wait_s

    def _forward(self) -> Tuple[Any, Any]:
        """Return logits and loss of the batch at hand."""
        with auto_cast(self._precision):
            return self.learner(*self.batch)

    def mark(self, slot: int) -> None:
        """Note when the device is done with everything handed over so far."""
        self._marks.mark(slot)

    def seconds_between(self, earlier: int, later: int) -> float:
        """Return the seconds between two marks."""
        return self._marks.seconds_between(earlier, later)

    def synchronize(self) -> None:
        """Wait for the GPU; a CPU is never behind."""
        if self._device == "cuda":
            paddle.device.synchronize()

    def barrier(self) -> None:
        """Wait for every rank."""
        self._group.barrier()

    def describe(self) -> Dict[str, Any]:
        """Return what the run is made of."""
        recipe, scaler = self._settings.recipe, self.scaler
        cuda = self._device == "cuda"
        return {
            "framework_version": paddle.version.full_version,
            "device": self._device,
            "device_name": device_name(self._device),
            "parameters": self._count(),
            "threads": math_threads(),
            "decoder": self._feed.decoder,
            "epoch_images": self.epoch_images,
            "backend": self._group.backend,
            "compiler_mode": BACKENDS[self._settings.compiler],
            "cuda": paddle.version.cuda() if cuda else None,
            "cudnn": paddle.device.get_cudnn_version() if cuda else None,
            "optimizer": {
                "name": "Momentum",
                "implementation": "multi-tensor",
                "loss_scale": None if scaler is None else (recipe.loss_scale or "dynamic"),
            },
            "peak_memory_of": peak_memory_of(self._device),
        }

    def actual(self) -> Dict[str, Any]:
        """Compare what the first step computed with to what was asked for, and return it."""
        settings, witness = self._settings, self._witness
        witness.leave()
        seen = {
            "compute_dtype": witness.compute_dtype(),
            "weight_dtype": witness.weight_dtype(),
            **tf32_switches(self._device),
            "activation_layout": witness.activation_layout(),
            "batch_per_device": witness.batch,
            "parameters": self._count(),
            "world_size": self._group.place.world_size,
            "compiled_programs": programs(self._learner),
        }
        asked = {
            "compute_dtype": self._precision.compute,
            "weight_dtype": FP32,
            "tf32_matmul": self._precision.tf32,
            "tf32_convolution": self._precision.tf32,
            "activation_layout": settings.layout,
            "batch_per_device": settings.batch_per_device,
            "compiled_programs": None if settings.compiler == NONE else 1,
        }
        require_as_asked(seen, asked)
        return seen

    def compile_s(self) -> Optional[float]:
        """Return the seconds that making the program took, in the first step."""
        return self._compile_s

    def losses(self) -> List[float]:
        """Return the losses of the global batch."""
        own = paddle.stack(self._losses).astype("float64")
        return [float(loss) for loss in self._group.mean(own).tolist()]

    def digest(self) -> int:
        """Return 63 bits of the BLAKE2b digest of the trainable parameters' bytes."""
        digest = hashlib.blake2b(digest_size=8)
        for parameter in self._parameters:
            digest.update(parameter.numpy().tobytes())
        return int.from_bytes(digest.digest(), "little") >> 1

    def peak_memory_bytes(self) -> int:
        """Return the most memory that this rank held."""
        return peak_memory_bytes(self._device)

    def gather(self, values: Sequence[int]) -> List[List[int]]:
        """Return every rank's values."""
        return self._group.gather(values)

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Take over parameters and running statistics."""
        observing.load(observing.named_tensors(self.network), weights)

    def read_weights(self) -> Dict[str, Any]:
        """Return parameters and running statistics."""
        return observing.read(observing.named_tensors(self.network))

    def set_batch(self, images: Any, labels: Any) -> None:
        """Train on this batch from now on."""
        self._feed.close()
        self._feed = given(images, labels, self._settings)
        self.batch = self._feed.next()

    def observe(self) -> Observation:
        """Pass the batch forward and backward with the step's own network and loss."""
        return observing.observe(self.network, self._forward, observing.named_tensors(self.network))

    def close(self) -> None:
        """End the loader, and leave the group with the others."""
        self._feed.close()
        self._group.leave()

    def _count(self) -> int:
        return sum(int(parameter.size) for parameter in self._parameters)


def check_layout(layout: str, precision: Precision, device: str) -> None:
    """Raise ``RunError`` where Paddle takes NHWC but turns it into NCHW inside every convolution."""
    if layout == "nchw" or (device == "cuda" and precision.compute != FP32):
        return
    where = "CPU" if device == "cpu" else "FP32"
    raise RunError(
        UNSUPPORTED, f"nhwc: PaddlePaddle's {where} convolution turns it into nchw and back in every layer"
    )


def _check_version() -> None:
    if int(paddle.version.major) < 3:
        raise RunError(
            UNSUPPORTED, f"PaddlePaddle 3.0 or later is needed; this is {paddle.version.full_version}"
        )


def _check_collective(name: str) -> None:
    if name != "native":
        raise RunError(UNSUPPORTED, f"the PaddlePaddle worker has no collective {name!r}; it has native")


def _open_feed(settings: Settings, place: Place) -> Feed:
    if settings.synthetic:
        return synthetic(settings, place.rank)
    if settings.loader != "native":
        raise RunError(UNSUPPORTED, f"PaddlePaddle has no loader {settings.loader!r}; it has native")
    from .loader import open_native

    return open_native(settings, place)
