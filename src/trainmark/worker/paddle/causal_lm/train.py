"""A rank's training of a language model in PaddlePaddle: what is built before the first step, and what is seen."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import paddle
from paddle.static import InputSpec

from ...core.feed import Feed
from ...core.optimizers import Moments
from ...core.place import Place
from ...tasks.causal_lm.architectures import is_norm
from ...tasks.causal_lm.facts import STREAM, Seen
from ...tasks.causal_lm.observing import Observation, ProductSeen, product_seen
from ...tasks.causal_lm.tokens import open_feed
from ...tasks.causal_lm.training import LanguageTraining
from ...tasks.language import LanguageSettings
from ..device import limit_threads
from ..distributed import Group
from ..optimizer import adaptive, steps_taken
from ..precision import Precision, auto_cast
from ..training import PaddleTraining, choose_machine
from .model import GptModel, LanguageModel, load, named_products, named_tensors, read


def open_training(settings: LanguageSettings, place: Place) -> PaddleLanguageTraining:
    """Return the training, ready for its first step."""
    device, precision = choose_machine(settings, place)
    group = Group(place, device)
    if settings.threads:
        limit_threads(settings.threads, device)
    feed = open_feed(settings, place, to_batch)
    return PaddleLanguageTraining(settings, group, device, precision, feed)


def to_batch(*arrays: Any) -> Tuple[Any, ...]:
    """Return numpy's arrays on the device."""
    return tuple(map(paddle.to_tensor, arrays))


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
        named = named_tensors(self.language_model)
        decaying = {tensor.name for name, tensor in named.items() if self.decays(name)}
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
        cuda, core = paddle.device.is_compiled_with_cuda(), paddle.base.core
        return Seen(
            compute_dtype=_name(dtype),
            weight_dtype=_name(self.language_model.tokens.weight.dtype),
            batch_per_device=sum(self._passed),
            tf32_matmul=bool(core.get_cublas_switch()) if cuda else None,
            tf32_convolution=bool(core.get_cudnn_switch()) if cuda else None,
            sequence_length=shape[1],
            accumulation=len(self._passed),
            others={STREAM: _name(self._stream), "compiled_programs": self.compiled_programs()},
        )

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Take over the parameters."""
        load(named_tensors(self.language_model), weights)

    def read_weights(self) -> Dict[str, Any]:
        """Return the parameters."""
        return read(named_tensors(self.language_model))

    def read_moments(self) -> Optional[Moments]:
        """Return what the optimizer keeps."""
        if not self._losses:
            return None
        tensors = named_tensors(self.language_model)
        first, second = (
            read({name: self.optimizer._get_accumulator(kind, tensor) for name, tensor in tensors.items()})
            for kind in ("moment1", "moment2")
        )
        taken = self.steps_taken()
        return Moments(len(self._losses) if taken is None else taken, first, second)

    def steps_taken(self) -> Optional[int]:
        """Return how many steps the optimizer has counted."""
        if not self._losses:
            return 0
        tensor = next(iter(named_tensors(self.language_model).values()))
        return steps_taken(self.optimizer, tensor, self.settings.recipe)

    def observe(self) -> Observation:
        """Pass the whole batch forward and backward with the step's own model and loss."""
        seen: List[ProductSeen] = []

        def noting(name: str) -> Callable[[Any, Any, Any], None]:
            def note(layer: Any, _given: Any, output: Any) -> None:
                inputs, outputs = layer.weight.shape
                values = output.astype("float32").numpy()
                seen.append(product_seen(name, inputs, outputs, layer.bias is not None, values))

            return note

        hooks = [
            layer.register_forward_post_hook(noting(name))
            for name, layer in named_products(self.language_model).items()
        ]
        with paddle.no_grad(), auto_cast(self._precision):
            logits = self.language_model.look(*self.batch).astype("float32").numpy()
        for hook in hooks:
            hook.remove()
        _, loss = self._forward()
        loss.backward()
        tensors = named_tensors(self.language_model)
        gradients = read({name: tensor.grad for name, tensor in tensors.items()})
        for tensor in tensors.values():
            tensor.clear_gradient(set_to_zero=False)
        return Observation(logits, float(loss), gradients, seen)


def _name(dtype: Any) -> str:
    """Return the name of a type of a tensor (``paddle.float32``) or of a program's value (``DataType.FLOAT32``)."""
    return str(dtype).rpartition(".")[2].lower()
