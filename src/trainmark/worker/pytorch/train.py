"""A rank's training in PyTorch: builds everything before the first step, then does one step after another."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import nn

from ..arguments import Settings
from ..feed import Feed
from ..outcomes import UNSUPPORTED, RunError, require_as_asked
from ..place import Place
from ..schedule import learning_rates
from ..training import Observation, Training
from ..window import HostMarks, slots_for
from . import observing
from .compilers import MODES, NONE, cache_hits, check_compiler, compile_model, compile_s
from .device import CudaMarks, choose_device, device_name, peak_memory_bytes, peak_memory_of
from .distributed import Group
from .feed import GivenFeed, SyntheticFeed, memory_format
from .models import build_model, count_parameters
from .precision import Precision, autocast, choose_precision, convert_weights, loss_scaler
from .witness import Witness


def open_training(settings: Settings, place: Place) -> PyTorchTraining:
    """Return the training, ready for its first step.

    What the device or this PyTorch cannot do raises ``RunError`` (unsupported) before the ranks meet, so that no
    rank waits for one that has left.
    """
    _check_version()
    if settings.threads:
        torch.set_num_threads(settings.threads)
    device = choose_device(settings.device, place)
    precision = choose_precision(settings.precision, device)
    check_compiler(settings.compiler, device)
    feed = _open_feed(settings, place, device, precision)
    return PyTorchTraining(settings, Group(place, device), device, precision, feed)


class PyTorchTraining(Training):
    """Model, optimizer, batches and marks of one rank."""

    def __init__(
        self, settings: Settings, group: Group, device: Any, precision: Precision, feed: Feed
    ) -> None:
        """Build model and optimizer, and fetch the first batch."""
        self._settings, self._group, self._device, self._precision = settings, group, device, precision
        self._feed = feed
        self.epoch_images = feed.epoch_images
        self.data_waits_s: List[float] = [0.0] * settings.steps

        # The algorithm search of cuDNN happens in the first steps; shapes never change.
        torch.backends.cudnn.benchmark = True
        torch.manual_seed(settings.seed)
        with device:
            self.model = build_model(settings.model, settings.classes)
        self._parameters = count_parameters(self.model)
        convert_weights(self.model, precision)
        self.model.to(memory_format=memory_format(settings.layout))
        self._witness = Witness(self.model)
        static_graph = settings.compiler == NONE
        self.network = compile_model(group.wrap(self.model, static_graph), settings.compiler, settings.layout)
        self.loss = nn.CrossEntropyLoss(label_smoothing=settings.recipe.label_smoothing)
        self.optimizer = make_optimizer(self.model, settings)
        self.scaler = loss_scaler(precision, settings.recipe, device)
        self.autocast = autocast(precision, device)
        global_batch = settings.batch_per_device * group.place.world_size
        self._rates = learning_rates(settings.recipe, settings.steps, self.epoch_images, global_batch)

        slots = slots_for(settings.steps)
        self._marks = CudaMarks(slots) if device.type == "cuda" else HostMarks(slots)
        # The losses stay on the device, one element a step, until the window is over.
        self._losses = torch.full((settings.steps,), float("nan"), device=device)
        self._loss_of = list(self._losses.unbind())
        self.batch = feed.next()

    def step(self, index: int) -> None:
        """Train on the batch at hand, then fetch the next one while the device still computes."""
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = self._rates[index]
        _, loss = self._forward()
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self._loss_of[index].copy_(loss.detach())
        self.batch = self._feed.next()
        self.data_waits_s[index] = self._feed.wait_s

    def _forward(self) -> Tuple[Any, Any]:
        """Return logits and loss of the batch at hand."""
        images, labels = self.batch
        with self.autocast:
            # In FP32: a logarithm of FP16 sums is what loss scaling cannot mend.
            logits = self.network(images).float()
            return logits, self.loss(logits, labels)

    def mark(self, slot: int) -> None:
        """Note when the device is done with everything handed over so far."""
        self._marks.mark(slot)

    def seconds_between(self, earlier: int, later: int) -> float:
        """Return the seconds between two marks."""
        return self._marks.seconds_between(earlier, later)

    def synchronize(self) -> None:
        """Wait for the GPU; a CPU is never behind."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def barrier(self) -> None:
        """Wait for every rank."""
        self._group.barrier()

    def describe(self) -> Dict[str, Any]:
        """Return what the run is made of."""
        recipe, scaler = self._settings.recipe, self.scaler
        cuda = self._device.type == "cuda"
        return {
            "framework_version": torch.__version__,
            "device": self._device.type,
            "device_name": device_name(self._device),
            "parameters": self._parameters,
            "threads": torch.get_num_threads(),
            "decoder": self._feed.decoder,
            "epoch_images": self.epoch_images,
            "backend": self._group.backend,
            "compiler_mode": MODES[self._settings.compiler],
            "cuda": torch.version.cuda if cuda else None,
            "cudnn": torch.backends.cudnn.version() if cuda else None,
            "optimizer": {
                "name": "SGD",
                "implementation": "fused",
                "loss_scale": (recipe.loss_scale or "dynamic") if scaler.is_enabled() else None,
            },
            "peak_memory_of": peak_memory_of(self._device),
        }

    def actual(self) -> Dict[str, Any]:
        """Compare what the first step computed with to what was asked for, and return it."""
        settings, witness = self._settings, self._witness
        if settings.compiler == NONE:
            witness.leave()
        seen = {
            "compute_dtype": witness.compute_dtype(),
            "weight_dtype": witness.weight_dtype(),
            "tf32_matmul": bool(torch.backends.cuda.matmul.allow_tf32),
            "tf32_convolution": bool(torch.backends.cudnn.allow_tf32),
            "activation_layout": witness.activation_layout(),
            "weight_layout": witness.weight_layout(),
            "batch_per_device": witness.batch,
            "parameters": self._parameters,
            "world_size": self._group.place.world_size,
            "compile_cache_hits": cache_hits(settings.compiler),
        }
        asked = {
            "compute_dtype": str(self._precision.compute).replace("torch.", ""),
            "weight_dtype": str(self._precision.weights).replace("torch.", ""),
            "tf32_matmul": self._precision.tf32,
            "tf32_convolution": self._precision.tf32,
            "activation_layout": settings.layout,
            "weight_layout": settings.layout,
            "batch_per_device": settings.batch_per_device,
        }
        require_as_asked(seen, asked)
        return seen

    def compile_s(self) -> Optional[float]:
        """Return the seconds that torch.compile has spent so far."""
        return compile_s(self._settings.compiler)

    def losses(self) -> List[float]:
        """Return the losses of the global batch."""
        return [float(loss) for loss in self._group.mean(self._losses.double()).tolist()]

    def digest(self) -> int:
        """Return the parameters' bit patterns, weighted by their positions and summed modulo 2 ** 63.

        Computed on the device. The weights are odd, so a change of one value always changes the sum.
        """
        total = 0
        for parameter in self.model.parameters():
            flat = parameter.detach().reshape(-1)
            bits = flat.view(torch.int32 if flat.element_size() == 4 else torch.int16).long()
            positions = torch.arange(bits.numel(), device=bits.device)
            total = total * 31 + int((bits * (2 * positions + 1)).sum())
        return total % (1 << 63)

    def peak_memory_bytes(self) -> int:
        """Return the most memory that this rank held."""
        return peak_memory_bytes(self._device)

    def gather(self, values: Sequence[int]) -> List[List[int]]:
        """Return every rank's values."""
        return self._group.gather(values)

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Take over parameters and running statistics."""
        observing.load(observing.named_tensors(self.model, self._settings.model), weights)

    def read_weights(self) -> Dict[str, Any]:
        """Return parameters and running statistics."""
        return observing.read(observing.named_tensors(self.model, self._settings.model))

    def set_batch(self, images: Any, labels: Any) -> None:
        """Train on this batch from now on."""
        self._feed.close()
        self._feed = GivenFeed(images, labels, self._settings, self._device, self._precision.compute)
        self.batch = self._feed.next()

    def observe(self) -> Observation:
        """Pass the batch forward and backward with the step's own model and loss."""
        tensors = observing.named_tensors(self.model, self._settings.model)
        return observing.observe(self.model, self._settings.model, self._forward, tensors)

    def close(self) -> None:
        """End the loader, and leave the group with the others."""
        self._feed.close()
        self._group.leave()


def make_optimizer(model: nn.Module, settings: Settings) -> torch.optim.Optimizer:
    """Return the fused SGD, with batch-norm weights and biases in a group that does not decay unless asked."""
    recipe = settings.recipe
    norm: List[Any] = []
    other: List[Any] = []
    for module in model.modules():
        own = list(module.parameters(recurse=False))
        (norm if isinstance(module, nn.BatchNorm2d) else other).extend(own)
    groups = [
        {"params": other, "weight_decay": recipe.weight_decay},
        {"params": norm, "weight_decay": recipe.weight_decay if recipe.bn_weight_decay else 0.0},
    ]
    optimizer = torch.optim.SGD(groups, lr=recipe.learning_rate, momentum=recipe.momentum, fused=True)
    # From the start and zero, which gives the same first update: torch would make the buffers in the first
    # step and leave them unset when loss scaling skips it.
    for parameter in norm + other:
        optimizer.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimizer


def _check_version() -> None:
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version < (2, 4):
        raise RunError(UNSUPPORTED, f"PyTorch 2.4 or later is needed; this is {torch.__version__}")


def _open_feed(settings: Settings, place: Place, device: Any, precision: Precision) -> Feed:
    if settings.synthetic:
        return SyntheticFeed(settings, place.rank, device, precision.compute)
    from .loaders import open_loader

    return open_loader(settings, place, device, precision.compute)
