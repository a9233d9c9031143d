"""A rank's training of a language model in PyTorch: what is built before the first step, and what is seen of it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Dict, List, Optional, Tuple, cast

import torch

from ...core.feed import Feed
from ...core.optimizers import Moments
from ...core.place import Place
from ...tasks.causal_lm.architectures import is_norm
from ...tasks.causal_lm.facts import STREAM, Seen
from ...tasks.causal_lm.observing import LayersSeen, Observation
from ...tasks.causal_lm.settings import LanguageSettings
from ...tasks.causal_lm.tokens import open_feed
from ...tasks.causal_lm.training import LanguageTraining
from ..compilers import NONE, cache_hits
from ..optimizer import adaptive, moments, steps_taken
from ..training import Machine, PyTorchTraining, choose_machine
from . import observing
from .building import build_model
from .model import LanguageModel


def open_training(settings: LanguageSettings, place: Place) -> PyTorchLanguageTraining:
    """Return the training, ready for its first step."""
    machine = choose_machine(settings, place)
    to_batch = ToDevice(machine.device)
    return PyTorchLanguageTraining(settings, place, machine, to_batch, open_feed(settings, place, to_batch))


class ToDevice:
    """Makes batches of numpy's arrays."""

    def __init__(self, device: Any) -> None:
        """Take the device."""
        self._device = device

    def __call__(self, *arrays: Any) -> Tuple[Any, ...]:
        """Copy to the device; to a GPU from pinned memory, in the order of its work and without waiting."""
        tensors = tuple(map(torch.from_numpy, arrays))
        if self._device.type == "cuda":
            return tuple(tensor.pin_memory().to(self._device, non_blocking=True) for tensor in tensors)
        return tensors


class PyTorchLanguageTraining(PyTorchTraining, LanguageTraining):
    """A language model, which gives its own loss, and the witness in it."""

    settings: LanguageSettings
    model: LanguageModel

    def __init__(
        self,
        settings: LanguageSettings,
        place: Place,
        machine: Machine,
        to_batch: ToDevice,
        feed: Optional[Feed],
    ) -> None:
        """Build model and optimizer, and fetch the first batch."""
        device, precision = machine
        super().__init__(settings, place, machine, to_batch, feed)
        with device:
            model = self.build()
        model.to(precision.weights)
        self.parts = settings.accumulation
        self._watching, self._passed = True, cast("List[Tuple[int, ...]]", [])
        self._seen_output: Any = None
        self._hooks = [
            model.blocks[0].attention.qkv.register_forward_hook(self._see),
            model.blocks[0].register_forward_hook(self._see_stream),
        ]
        self._stream: Any = None
        named = model.named_tensors()
        decaying = [tensor for name, tensor in named.items() if self.decays(name)]
        others = [tensor for name, tensor in named.items() if not self.decays(name)]
        recipe = settings.recipe
        self.take_over(model, adaptive([(decaying, recipe.weight_decay), (others, 0.0)], recipe), {})

    def build(self) -> LanguageModel:
        """Return the model with fresh weights in FP32."""
        return build_model(self.settings.model, self.settings.sequence_length)

    def decays(self, name: str) -> bool:
        """Return whether a parameter decays, by its shared name."""
        return not is_norm(name)

    def _see(self, _product: Any, _given: Any, output: Any) -> None:
        self._seen_output = (output.dtype, output.shape)

    def _see_stream(self, _block: Any, _given: Any, output: Any) -> None:
        self._stream = output.dtype

    def _forward(self) -> Tuple[Any, Any]:
        """Return nothing and the loss of the whole batch at hand."""
        with self.autocast:
            return None, self.network(*self.prepared(1))

    def prepared(self, _parts: int) -> Tuple[Any, ...]:
        """Return the batch at hand as the model's loss takes it, to be cut into so many parts."""
        return self.batch

    def _pass(self) -> Any:
        """Pass the parts of the batch one after another; their gradients add up, and are exchanged with the last's."""
        total, last = None, self.parts - 1
        parts = list(zip(*(array.split(self.settings.part) for array in self.prepared(self.parts))))
        if self._watching:
            self._passed = [part[0].shape for part in parts]
        for index, part in enumerate(parts):
            with self.exchange.withheld() if index < last else nullcontext():
                with self.autocast:
                    loss = self.network(*part) / self.parts
                self.scaler.scale(loss).backward()
            total = loss.detach() if total is None else total + loss.detach()
        return total

    def clip(self) -> None:
        """Clip the norm of all gradients together; nothing of it is read back to the host."""
        longest = self.settings.recipe.clip_norm
        if longest is not None:
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), longest, foreach=True)

    def seen(self) -> Seen:
        """Return what the first product's hook saw; it stays in a compiled model."""
        compiler, (dtype, shape) = self.settings.compiler, self._seen_output
        self._watching = False
        if compiler == NONE:
            for hook in self._hooks:
                hook.remove()
        return Seen(
            compute_dtype=str(dtype).replace("torch.", ""),
            weight_dtype=str(self.model.tokens.weight.dtype).replace("torch.", ""),
            batch_per_device=sum(part[0] for part in self._passed),
            tf32_matmul=bool(torch.backends.cuda.matmul.allow_tf32),
            tf32_convolution=bool(torch.backends.cudnn.allow_tf32),
            sequence_length=shape[1],
            accumulation=len(self._passed),
            others={
                STREAM: str(self._stream).replace("torch.", ""),
                "compile_cache_hits": cache_hits(compiler),
            },
        )

    def steps_taken(self) -> int:
        """Return how many steps the optimizer has counted."""
        return steps_taken(self.optimizer)

    def read_moments(self) -> Optional[Moments]:
        """Return what the optimizer keeps."""
        return moments(self.optimizer, self.named_tensors())

    def watched_step(self, index: int) -> LayersSeen:
        """Do the step, and look at its products: in it, or of a compiled one in the same pass without the compiler."""
        if self.settings.compiler == NONE:
            return observing.watched(self.model, lambda: self.step(index))
        seen = observing.watched(self.model, self._logits)
        self.step(index)
        return seen

    def _logits(self) -> Any:
        with torch.no_grad(), self.autocast:
            return self.model.look(*self.batch)

    def named_tensors(self) -> Dict[str, Any]:
        """Return the parameters by their names in the description of the models."""
        return self.model.named_tensors()

    def observe(self) -> Observation:
        """Pass the whole batch forward and backward with the step's own model and loss."""
        with self.autocast:
            return observing.observe(
                self.model, self._logits, lambda: self._forward()[1], self.exchange.average
            )
