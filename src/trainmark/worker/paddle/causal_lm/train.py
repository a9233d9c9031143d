"""A rank's training of a language model in PaddlePaddle: what is built before the first step, and what is seen."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Dict, List, Optional, Tuple

import paddle
from paddle.static import InputSpec

from ...core.feed import Feed
from ...core.place import Place
from ...tasks.causal_lm.architectures import is_norm
from ...tasks.causal_lm.facts import STREAM, Seen
from ...tasks.causal_lm.tokens import token_file
from ...tasks.causal_lm.training import LanguageTraining
from ...tasks.language import LanguageSettings
from ...tasks.products import Observation
from ..distributed import Group
from ..loading import DataLoaderFeed
from ..optimizer import adaptive
from ..precision import Precision, auto_cast, tf32_seen, type_name
from ..products import observe
from ..training import PaddleTraining, choose_machine, meet_ranks, to_batch
from .model import GptModel, LanguageModel, named_products, named_tensors


def open_training(settings: LanguageSettings, place: Place) -> PaddleLanguageTraining:
    """Return the training, ready for its first step."""
    device, precision = choose_machine(settings, place)
    group = meet_ranks(settings, place, device)
    feed = None
    if not settings.synthetic:
        file = token_file(settings)
        feed = DataLoaderFeed(file.sequences, file.batch, settings, place)
    return PaddleLanguageTraining(settings, group, device, precision, feed)


class PaddleLanguageTraining(PaddleTraining, LanguageTraining):
    """A language model, which gives its own loss, and the witness in it."""

    settings: LanguageSettings

    def __init__(
        self,
        settings: LanguageSettings,
        group: Group,
        device: str,
        precision: Precision,
        feed: Optional[Feed],
    ) -> None:
        """Build model and optimizer, and fetch the first batch."""
        super().__init__(settings, group, device, precision, to_batch, feed)
        self.language_model = self.build()
        self._first: Optional[Tuple[Any, Tuple[int, ...]]] = None
        self._passed: List[int] = []
        block = self.language_model.blocks[0]
        self._stream: Any = None
        self._hooks = [
            block.attention.qkv.register_forward_post_hook(self._see),
            block.register_forward_post_hook(self._see_stream),
        ]
        shapes = [[settings.part, *array.shape[1:]] for array in self.batch]
        specification = [InputSpec(shape, array.dtype) for shape, array in zip(shapes, self.batch)]
        self.take_over(self.language_model, list(self.language_model.parameters()), specification)

    def build(self) -> LanguageModel:
        """Return the model with fresh weights."""
        return GptModel(self.settings.model)

    def decays(self, name: str) -> bool:
        """Return whether a parameter decays, by its shared name."""
        return not is_norm(name)

    def make_optimizer(self, parameters: List[Any], schedule: Any) -> Any:
        """Return the recipe's optimizer."""
        decaying = {tensor.name for name, tensor in self.named_tensors().items() if self.decays(name)}
        return adaptive(parameters, schedule, self.settings.recipe, decaying)

    def _see(self, _layer: Any, _given: Any, output: Any) -> None:
        self._first = (output.dtype, tuple(output.shape))

    def _see_stream(self, _block: Any, _given: Any, output: Any) -> None:
        self._stream = output.dtype

    def passed_at_once(self) -> Tuple[Any, ...]:
        """Return the first part of the batch."""
        return tuple(array[: self.settings.part] for array in self.batch)

    def prepared(self, _parts: int) -> Tuple[Any, ...]:
        """Return the batch at hand as the model's loss takes it, to be cut into so many parts."""
        return self.batch

    def _forward(self) -> Tuple[Any, Any]:
        """Return outputs and loss of the whole batch at hand."""
        with auto_cast(self._precision):
            return self.learner(*self.prepared(1))

    def _pass(self) -> Any:
        """Pass the parts of the batch one after another; their gradients add up, and are exchanged with the last's."""
        count, total = self.settings.accumulation, None
        parts = list(zip(*(array.split(count) for array in self.prepared(count))))
        self._passed = [part[0].shape[0] for part in parts]
        for index, part in enumerate(parts):
            with self.ranks.withheld(self.learner) if index < count - 1 else nullcontext():
                with auto_cast(self._precision):
                    loss = self.learner(*part)[1] / count
                self._backward(loss)
            total = loss.detach() if total is None else total + loss.detach()
        return total

    def seen(self) -> Seen:
        """Return what the first product's hook saw; a compiled program called it once, while it was made."""
        for hook in self._hooks:
            hook.remove()
        assert self._first is not None
        dtype, shape = self._first
        return Seen(
            compute_dtype=type_name(dtype),
            weight_dtype=type_name(self.language_model.tokens.weight.dtype),
            batch_per_device=sum(self._passed),
            **tf32_seen(),
            sequence_length=shape[1],
            accumulation=len(self._passed),
            others={STREAM: type_name(self._stream), "compiled_programs": self.compiled_programs()},
        )

    def named_tensors(self) -> Dict[str, Any]:
        """Return the parameters by the shared names."""
        return named_tensors(self.language_model)

    def observe(self) -> Observation:
        """Pass the whole batch forward and backward with the step's own model and loss."""
        return observe(
            named_products(self.language_model),
            self.named_tensors(),
            self._logits,
            lambda: self._forward()[1],
        )

    def _logits(self) -> Any:
        with paddle.no_grad(), auto_cast(self._precision):
            return self.language_model.look(*self.batch)
