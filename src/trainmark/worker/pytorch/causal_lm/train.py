"""A rank's training of a language model in PyTorch: its setup before the first step, and its observation."""

from __future__ import annotations

import zlib
from contextlib import nullcontext
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, cast

import numpy as np
import torch

from ...core.feed import Feed
from ...core.optimizers import Moments
from ...core.place import Place
from ...core.settings import LAMB
from ...tasks.causal_lm.architectures import is_norm
from ...tasks.causal_lm.facts import STREAM, Seen
from ...tasks.causal_lm.observing import LayersSeen
from ...tasks.causal_lm.training import LanguageTraining
from ...tasks.language import LanguageSettings
from ...tasks.products import Observation
from ..compilers import COMPILED_FUSED, NONE, cache_hits
from ..optimizer import adaptive, moments, steps_taken
from ..precision import type_name
from ..products import observe
from ..scaled_linear import operand_type
from ..training import Machine, OutputsAlone, PyTorchTraining
from ..weights import count_parameters, read, whole
from . import attention
from .building import build_model
from .model import LanguageModel
from .observing import watched

WHOLE, FEW = 1 << 28, 1 << 18
"""Models with more parameters than the first number are verified by rows, about the second number of elements each."""


def rows_of(model: LanguageModel) -> Dict[str, Any]:
    """Return the verified rows of a large model's large parameters, sampled by the parameters' names.

    The verification reads weights and moments several times, which takes a minute for a billion parameters.
    """
    named = model.named_tensors()
    if sum(tensor.numel() for tensor in named.values()) <= WHOLE:
        return {}
    rows: Dict[str, Any] = {}
    for name, tensor in named.items():
        if tensor.numel() > FEW:
            random = np.random.RandomState(zlib.crc32(name.encode()))
            count = max(1, FEW // tensor[0].numel())
            drawn = np.unique(random.randint(0, len(tensor), count))
            rows[name] = torch.from_numpy(drawn).to(tensor.device)
    return rows


class PyTorchLanguageTraining(PyTorchTraining, LanguageTraining):
    """The training of a language model that computes its own loss, with the hooks that observe it."""

    settings: LanguageSettings
    model: LanguageModel

    def __init__(
        self,
        settings: LanguageSettings,
        place: Place,
        machine: Machine,
        to_batch: Callable[..., Tuple[Any, ...]],
        feed: Optional[Feed],
    ) -> None:
        """Build model and optimizer, and fetch the first batch."""
        device, precision = machine
        super().__init__(settings, place, machine, to_batch, feed)
        with device:
            model = self.build()
        model.to(precision.weights)
        self.prepare(model)
        self.parts = settings.accumulation
        shape = model.attention(settings.part, settings.sequence_length)
        self._attention_ms = attention.measured(shape, precision.compute, device)
        if attention.is_faster(self._attention_ms):
            model.attend_by_cudnn()
        if settings.compiler == COMPILED_FUSED:
            from ..kernels.cross_entropy import cross_entropy

            model.cross_entropy = cross_entropy
        self.distribute(model)
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
        self._rows = {} if recipe.optimizer == LAMB else rows_of(model)
        self.take_over(model, adaptive([(decaying, recipe.weight_decay), (others, 0.0)], recipe), {})

    def prepare(self, model: LanguageModel) -> None:
        """Change the model as the task's own axes require, before its optimizer exists."""

    def distribute(self, model: LanguageModel) -> None:
        """Share the model between the ranks if the run does; its hooks exist already."""

    def build(self) -> LanguageModel:
        """Return the model with fresh weights in FP32."""
        return build_model(self.settings.model, self.settings.sequence_length)

    def decays(self, name: str) -> bool:
        """Return whether a parameter decays, by its shared name."""
        return not is_norm(name)

    def _see(self, product: Any, _given: Any, output: Any) -> None:
        self._seen_output = (operand_type(product, output), output.shape)

    def _see_stream(self, _block: Any, _given: Any, output: Any) -> None:
        self._stream = output.dtype

    def _forward(self) -> Tuple[Any, Any]:
        """Return None (instead of logits) and the loss of the whole current batch."""
        with self.autocast:
            return None, self.network(*self.prepared(1))

    def prepared(self, _parts: int) -> Tuple[Any, ...]:
        """Return the current batch in the form for the model's loss, before it is split into parts."""
        return self.batch

    def _pass(self) -> Any:
        """Pass the parts of the batch in order; their gradients accumulate and are exchanged with the last part."""
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
        """Clip the norm of all gradients, without copying anything to the host."""
        longest = self.settings.recipe.clip_norm
        if longest is not None:
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), longest, foreach=True)

    def seen(self) -> Seen:
        """Return the observations of the first product's hook, which remains in a compiled model."""
        compiler, (dtype, shape) = self.settings.compiler, self._seen_output
        self._watching = False
        if compiler == NONE:
            for hook in self._hooks:
                hook.remove()
        return Seen(
            compute_dtype=type_name(dtype),
            weight_dtype=type_name(self.model.tokens.weight.dtype),
            batch_per_device=sum(part[0] for part in self._passed),
            tf32_matmul=bool(torch.backends.cuda.matmul.allow_tf32),
            tf32_convolution=bool(torch.backends.cudnn.allow_tf32),
            sequence_length=shape[1],
            accumulation=len(self._passed),
            others={
                STREAM: type_name(self._stream),
                "compile_cache_hits": cache_hits(compiler),
                "attention": attention.CUDNN if attention.is_faster(self._attention_ms) else "torch's choice",
                "attention_ms": self._attention_ms,
            },
        )

    def own_pass(self) -> Any:
        """Pass the batch with torch's plain loss, regardless of the step's loss."""
        kernel, self.model.cross_entropy = self.model.cross_entropy, None
        try:
            alone = super().own_pass()
            # What the step's own kernel computes in does not show in a pass without it.
            return alone if kernel is None or alone is None else alone._replace(loss_types=None)
        finally:
            self.model.cross_entropy = kernel

    def plain_pass(self) -> OutputsAlone:
        """Pass the parts of the batch forward and backward, with the loss of each token by its formula."""
        losses = []
        for (tokens,) in zip(self.batch[0].split(self.settings.part)):
            with self.autocast:
                logits = self.model.look(tokens).float()
            targets = tokens[:, 1:, None]
            each = logits.logsumexp(-1) - logits.gather(-1, targets).squeeze(-1)
            self.scaler.scale(each.mean() / self.parts).backward()
            losses.append(each.detach())
        every = torch.cat(losses)
        return OutputsAlone(float(every.mean()), target_losses=every.double().cpu().numpy())

    def first_part(self, batch: Tuple[Any, ...]) -> Tuple[Any, ...]:
        """Return the sequences that are passed at once."""
        return tuple(array[: self.settings.part] for array in batch)

    def steps_taken(self) -> int:
        """Return the optimizer's count of steps."""
        return steps_taken(self.optimizer)

    def read_moments(self) -> Optional[Moments]:
        """Return the optimizer's moments."""
        return moments(self.optimizer, self.named_tensors(), self.looked_at)

    def look_at_weights(self) -> Dict[str, Any]:
        """Return the parameters, or for a large model some rows of each."""
        return self.looked_at(self.named_tensors())

    def share_looked_at(self) -> float:
        """Return the share of verified elements."""
        looked_at = 0
        for name, tensor in self.named_tensors().items():
            rows = self._rows.get(name)
            looked_at += tensor.numel() if rows is None else len(rows) * tensor[0].numel()
        return looked_at / count_parameters(self.model)

    def looked_at(self, tensors: Mapping[str, Any]) -> Dict[str, Any]:
        """Return numpy arrays of the tensors, or of the sampled rows of large ones."""
        return read(
            {
                name: tensor if self._rows.get(name) is None else whole(tensor.detach())[self._rows[name]]
                for name, tensor in tensors.items()
            }
        )

    def watched_step(self, index: int) -> LayersSeen:
        """Run the step and observe its products; for a compiled step, in the same pass without the compiler."""
        if self.settings.compiler == NONE:
            return watched(self.model, lambda: self.step(index))
        seen = watched(self.model, self._logits)
        self.step(index)
        return seen

    def _logits(self) -> Any:
        """Return the logits of the batch, or of enough of it for the step that is watched."""
        return self._logits_of_all()

    def _logits_of_all(self) -> Any:
        with torch.no_grad(), self.autocast:
            return self.model.look(*self.batch)

    def named_tensors(self) -> Dict[str, Any]:
        """Return the parameters by their names in the description of the models."""
        return self.model.named_tensors()

    def observe(self) -> Observation:
        """Pass the whole batch forward and backward with the step's own model and loss."""
        with self.autocast:
            return observe(self.model, self._logits_of_all, lambda: self._forward()[1], self.exchange.average)
