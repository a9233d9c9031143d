"""A rank's training in PyTorch: builds everything before the first step, then does one step after another."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

import torch
from torch import nn

from ...core.choices import require_version
from ...core.facts import Expected, Facts
from ...core.feed import Feed
from ...core.place import Place
from ...core.window import EventMarks, HostMarks, Marks, slots_for
from ...tasks.image_classification.facts import Seen
from ...tasks.image_classification.observing import Observation
from ...tasks.image_classification.settings import ImageSettings
from ...tasks.image_classification.training import ImageTraining
from ..compilers import MODES, NONE, cache_hits, check_compiler, compilations, compile_model, compile_s
from ..device import choose_device, device_name, peak_memory_bytes, peak_memory_of
from ..distributed import Group
from ..gradients import check_gradients, choose_exchange
from ..precision import Precision, autocast, choose_precision, convert_weights, loss_scaler
from . import observing
from .feed import ToDevice, memory_format
from .models import build_model, count_parameters
from .witness import Witness


def open_training(settings: ImageSettings, place: Place) -> PyTorchTraining:
    """Return the training, ready for its first step.

    What the device or this PyTorch cannot do raises ``RunError`` (unsupported) before the ranks meet, so that no
    rank waits for one that has left.
    """
    require_version("PyTorch", torch.__version__, (2, 4))
    if settings.threads:
        torch.set_num_threads(settings.threads)
    device = choose_device(settings.device, place)
    precision = choose_precision(settings.precision, device)
    check_compiler(settings.compiler, device)
    check_gradients(settings.gradients, precision)
    feed = _open_feed(settings, place, device, precision)
    return PyTorchTraining(settings, Group(place, device), device, precision, feed)


class PyTorchTraining(ImageTraining):
    """Model, optimizer, batches and marks of one rank."""

    def __init__(
        self, settings: ImageSettings, group: Group, device: Any, precision: Precision, feed: Optional[Feed]
    ) -> None:
        """Build model and optimizer, and fetch the first batch."""
        slots = slots_for(settings.steps)
        marks: Marks = HostMarks(slots)
        if device.type == "cuda":
            marks = EventMarks(slots, lambda: torch.cuda.Event(enable_timing=True))
        super().__init__(settings, group, marks, ToDevice(settings, device, precision.compute), feed)
        self._device, self._precision = device, precision

        # The algorithm search of cuDNN happens in the first steps; shapes never change.
        torch.backends.cudnn.benchmark = True
        torch.manual_seed(settings.seed)
        with device:
            self.model = build_model(settings.model, settings.classes)
        convert_weights(self.model, precision)
        self.model.to(memory_format=memory_format(settings.layout))
        self._witness = Witness(self.model)
        static_graph = settings.compiler == NONE
        self.exchange = choose_exchange(settings.gradients, group, device, precision, static_graph)
        self.network = compile_model(self.exchange.wrap(self.model), settings.compiler, settings.layout)
        self.loss = nn.CrossEntropyLoss(label_smoothing=settings.recipe.label_smoothing)
        self.optimizer = make_optimizer(self.model, settings)
        self.scaler = loss_scaler(precision, settings.recipe, device)
        self.autocast = autocast(precision, device)
        # The losses stay on the device, one element a step, until the window is over.
        self._losses = torch.full((settings.steps,), float("nan"), device=device)
        self._loss_of = list(self._losses.unbind())

    def train(self, index: int) -> None:
        """Train on the batch at hand."""
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = self.rates[index]
        _, loss = self._forward()
        self.scaler.scale(loss).backward()
        self.exchange.average()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self._loss_of[index].copy_(loss.detach())

    def _forward(self) -> Tuple[Any, Any]:
        """Return logits and loss of the batch at hand."""
        images, labels = self.batch
        with self.autocast:
            # In FP32: a logarithm of FP16 sums is what loss scaling cannot mend.
            logits = self.network(images).float()
            return logits, self.loss(logits, labels)

    def _layers(self) -> Any:
        """Return the logits by the model's own modules, neither compiled nor wrapped."""
        with self.autocast:
            return self.model(self.batch[0])

    def synchronize(self) -> None:
        """Wait for the GPU; a CPU is never behind."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def facts(self) -> Facts:
        """Return what the run is made of."""
        cuda = self._device.type == "cuda"
        return Facts(
            framework_version=torch.__version__,
            device=self._device.type,
            device_name=device_name(self._device),
            parameters=count_parameters(self.model),
            threads=torch.get_num_threads(),
            implementation="fused",
            loss_scaled=self.scaler.is_enabled(),
            compiler_mode=MODES[self.settings.compiler],
            peak_memory_of=peak_memory_of(self._device),
            others={
                "cuda": torch.version.cuda if cuda else None,
                "cudnn": torch.backends.cudnn.version() if cuda else None,
                "algorithm_search": "measured" if cuda else None,
                "gradient_exchange": self.exchange.name,
            },
        )

    def seen(self) -> Seen:
        """Return what the witness saw; its hook stays in a compiled network."""
        if self.settings.compiler == NONE:
            self._witness.leave()
        return self._witness.told(compile_cache_hits=cache_hits(self.settings.compiler))

    def expected(self) -> Expected:
        """Return the precision in words."""
        compute, weights = (str(kind).replace("torch.", "") for kind in self._precision[:2])
        return Expected(compute, weights, self._precision.tf32)

    def compile_s(self) -> Optional[float]:
        """Return the seconds that torch.compile has spent so far."""
        return compile_s(self.settings.compiler)

    def compilations(self) -> Optional[int]:
        """Return how many graphs torch.compile has made so far."""
        return compilations(self.settings.compiler)

    def own_losses(self) -> List[float]:
        """Return the losses of this rank."""
        return [float(loss) for loss in self._losses.tolist()]

    def peak_memory_bytes(self) -> int:
        """Return the most memory that this rank held."""
        return peak_memory_bytes(self._device)

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Take over parameters and running statistics."""
        observing.load(observing.named_tensors(self.model, self.settings.model), weights)

    def read_weights(self) -> Dict[str, Any]:
        """Return parameters and running statistics."""
        return observing.read(observing.named_tensors(self.model, self.settings.model))

    def observe(self) -> Observation:
        """Pass the batch forward and backward with the step's own model and loss."""
        name, average = self.settings.model, self.exchange.average
        return observing.observe(self.model, name, self._layers, self._forward, average)


def make_optimizer(model: nn.Module, settings: ImageSettings) -> torch.optim.Optimizer:
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


def _open_feed(settings: ImageSettings, place: Place, device: Any, precision: Precision) -> Optional[Feed]:
    if settings.synthetic:
        return None
    from .loaders import open_loader

    return open_loader(settings, place, device, precision.compute)
