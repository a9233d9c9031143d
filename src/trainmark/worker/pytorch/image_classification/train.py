"""A rank's training of an image network in PyTorch: what is built before the first step, and what is seen of it."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import nn
from torch.utils._triton import has_triton

from ...core.facts import Facts
from ...core.feed import Feed
from ...core.place import Place
from ...tasks.image_classification.facts import Seen
from ...tasks.image_classification.known_data import TFRECORD
from ...tasks.image_classification.observing import Observation
from ...tasks.image_classification.settings import ImageSettings
from ...tasks.image_classification.training import ImageTraining
from ...tasks.image_classification.witness import LayersSeen
from ..compilers import FUSED, FUSED_CUDNN, NONE, cache_hits
from ..gradients import FLAT_16, InOnePiece
from ..optimizer import sgd
from ..stages import FOLDED, UPDATE, chosen
from ..training import Machine, PyTorchTraining, choose_machine
from . import observing
from .feed import ToDevice, memory_format
from .loaders import ON_GPU
from .models import build_model, convert_weights
from .nvjpeg import ask_for_queues
from .witness import Witness


def open_training(settings: ImageSettings, place: Place) -> PyTorchImageTraining:
    """Return the training, ready for its first step."""
    if settings.loader in ON_GPU and not settings.synthetic:
        ask_for_queues()
    machine = choose_machine(settings, place)
    feed = _open_feed(settings, place, machine)
    return PyTorchImageTraining(settings, place, machine, feed)


class PyTorchImageTraining(PyTorchTraining, ImageTraining):
    """An image network, its loss, and the witness in it."""

    settings: ImageSettings
    forms = MappingProxyType({"dali-cpu-tfrecord": TFRECORD, "dali-gpu-tfrecord": TFRECORD})

    _narrow: Any = None
    """The optimizer, where it reads gradients in 16 bits."""

    _sent: Any = None
    """What averages over the ranks what that optimizer reads."""

    def __init__(self, settings: ImageSettings, place: Place, machine: Machine, feed: Optional[Feed]) -> None:
        """Build model and optimizer, and fetch the first batch."""
        device, precision = machine
        super().__init__(settings, place, machine, ToDevice(settings, device, precision.compute), feed)
        with device:
            model = build_model(settings.model, settings.classes, settings.compiler)
        convert_weights(model, precision.weights)
        model.to(memory_format=memory_format(settings.layout))
        self._witness = Witness(model)
        self.loss = nn.CrossEntropyLoss(label_smoothing=settings.recipe.label_smoothing)
        # By itself the compiler lays convolutions out with the channels last where it expects a gain.
        inductor = {"layout_optimization": settings.layout == "nhwc"}
        self._stages = chosen() if settings.compiler in FUSED else chosen() & {UPDATE}
        if settings.compiler != FUSED_CUDNN:
            # Nothing has summed up what a norm is to fold.
            self._stages -= {FOLDED}
        self._narrow = self._narrow_optimizer(model)
        self.take_over(model, self._narrow or make_optimizer(model, settings), inductor)
        if self._narrow is not None and self.ranks.backend is not None:
            # The weights are rank 0's by now.
            self._narrow.renew()
            assert isinstance(self.exchange, InOnePiece), "buckets are never read as they travelled"
            self._sent = self.exchange.sent(self._narrow.leaves)
            self._narrow.read_always(self._sent.views)

    def _narrow_optimizer(self, model: nn.Module) -> Optional[torch.optim.Optimizer]:
        """Return SGD that reads gradients in 16 bits: of copies of the weights, or as they travelled."""
        recipe, precision = self.settings.recipe, self._precision
        fused = self.settings.compiler in FUSED
        able = precision.autocast and recipe.momentum and (fused or self._travels_narrow())
        if UPDATE not in self._stages or not able:
            self._stages -= {UPDATE}
            return None
        from ..narrow_sgd import CheckedTogether, NarrowSGD

        narrow = [module.weight for module in model.narrowed] if fused else []
        self.scaler_kind = CheckedTogether
        return NarrowSGD(decays(model, self.settings), recipe, narrow, precision.compute)

    def _travels_narrow(self) -> bool:
        ranks = self.ranks.backend == "nccl" and self.settings.gradients == FLAT_16
        return ranks and bool(has_triton())

    def _whole_step(self, batch: Tuple[Any, ...]) -> Any:
        """Do the step; where weights have copies in 16 bits, with those."""
        if self._narrow is None or not self._narrow.copies:
            return super()._whole_step(batch)
        self.model.copies = self._narrow.copies
        try:
            return super()._whole_step(batch)
        finally:
            self.model.copies = None

    def average(self) -> None:
        """Average what the optimizer reads."""
        (self._sent or self.exchange).average()

    def exchanged(self) -> Sequence[Any]:
        """Return the tensors whose gradients the ranks exchange."""
        return super().exchanged() if self._sent is None else self._narrow.leaves

    def recorded(self) -> None:
        """Let the recorded update read the gradients of the recording."""
        if self._narrow is not None:
            self._narrow.recorded()

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Take over parameters and running statistics, and copies of them."""
        super().load_weights(weights)
        if self._narrow is not None:
            self._narrow.renew()

    def facts(self) -> Facts:
        """Return what the run is made of, and which stages a fused step has."""
        facts = super().facts()
        if not self._stages:
            return facts
        return facts._replace(optimizer="SGD", others={**facts.others, "stages": sorted(self._stages)})

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

    def seen(self) -> Seen:
        """Return what the witness saw; its hook stays in a compiled network."""
        if self.settings.compiler == NONE:
            self._witness.leave()
        return self._witness.told(compile_cache_hits=cache_hits(self.settings.compiler))

    COUNTS_UPDATES = False

    def steps_taken(self) -> int:
        """Return how many batches the batch norms have counted."""
        return min(int(count) for count in observing.batches_counted(self.model))

    def watched_step(self, index: int) -> LayersSeen:
        """Do the step, and look at its layers: in it, or where it is compiled in the same pass without the compiler."""
        if self.settings.compiler == NONE:
            return observing.watched(self.model, self.settings.model, lambda: self.step(index))
        with torch.no_grad():
            before = self.read_weights()
            seen = observing.watched(self.model, self.settings.model, self._layers)
            self.load_weights(before)
        self.step(index)
        return seen

    def open_feed(self, settings: ImageSettings) -> Optional[Feed]:
        """Return a new feed of the run's loader."""
        return _open_feed(settings, self.ranks.place, Machine(self._device, self._precision))

    def network_input(self, batch: Any) -> Any:
        """Return the images of a batch, which its feed has normalised."""
        return batch[0].float().cpu().numpy()

    def named_tensors(self) -> Dict[str, Any]:
        """Return parameters and running statistics by their names in the description of the networks."""
        return observing.named_tensors(self.model, self.settings.model)

    def observe(self) -> Observation:
        """Pass the batch forward and backward with the step's own model and loss."""
        name, average = self.settings.model, self.exchange.average
        return observing.observe(self.model, name, self._layers, self._forward, average)


def make_optimizer(model: nn.Module, settings: ImageSettings) -> torch.optim.Optimizer:
    """Return SGD, with batch-norm weights and biases in a group that does not decay unless asked."""
    return sgd(decays(model, settings), settings.recipe)


def decays(model: nn.Module, settings: ImageSettings) -> List[Tuple[List[Any], float]]:
    """Return the groups of parameters, each with its weight decay."""
    recipe = settings.recipe
    norm: List[Any] = []
    other: List[Any] = []
    for module in model.modules():
        own = list(module.parameters(recurse=False))
        (norm if isinstance(module, nn.BatchNorm2d) else other).extend(own)
    return [(other, recipe.weight_decay), (norm, recipe.weight_decay if recipe.bn_weight_decay else 0.0)]


def _open_feed(settings: ImageSettings, place: Place, machine: Machine) -> Optional[Feed]:
    if settings.synthetic:
        return None
    from .loaders import open_loader

    return open_loader(settings, place, machine.device, machine.precision.compute)
