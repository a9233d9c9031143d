"""A rank's training of a language model in TensorFlow: what is built before the first step, and what is seen of it."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

import keras
import numpy as np
import tensorflow as tf

from ...core.feed import Feed
from ...core.place import Place
from ...tasks.causal_lm.architectures import is_norm
from ...tasks.causal_lm.facts import STREAM, Seen
from ...tasks.causal_lm.tokens import token_file
from ...tasks.causal_lm.training import LanguageTraining
from ...tasks.language import LanguageSettings
from ...tasks.products import Observation, product_seen
from ..loading import open_native
from ..ranks import Group
from ..training import Machine, TensorFlowTraining, batches_of, choose_machine
from .model import GptModel, LanguageModel


def open_training(settings: LanguageSettings, place: Place) -> TensorFlowLanguageTraining:
    """Return the training, ready for its first step."""
    machine = choose_machine(settings, place)
    group = Group(place, machine.device)
    keras.utils.set_random_seed(settings.seed)
    to_batch, feed = batches_of(machine.device), None
    if not settings.synthetic:
        file = token_file(settings)
        feed = open_native(file.sequences, file.batch, settings, place, lambda batch: to_batch(*batch))
    return TensorFlowLanguageTraining(settings, group, machine, to_batch, feed)


class TensorFlowLanguageTraining(TensorFlowTraining, LanguageTraining):
    """A language model, its loss, and what was seen of its first product."""

    settings: LanguageSettings

    def __init__(
        self,
        settings: LanguageSettings,
        group: Group,
        machine: Machine,
        to_batch: Callable[..., Tuple[Any, ...]],
        feed: Optional[Feed],
    ) -> None:
        """Build model and optimizer, and fetch the first batch."""
        super().__init__(settings, group, machine, to_batch, feed)
        self.parts = settings.accumulation
        self._noting = False
        self.first: Dict[str, Tuple[str, Tuple[int, ...]]] = {}
        """Of each product the type and the shape of its result in the first step."""
        with group.scope():
            self.language_model = self.build(machine.precision.compute)
            self.take_over(self.language_model, self.language_model.tensors, self.decays)

    def build(self, compute: str) -> LanguageModel:
        """Return the model with fresh weights, which computes in a type."""
        return GptModel(self.settings.model, compute)

    def decays(self, name: str) -> bool:
        """Return whether a parameter decays, by its shared name."""
        return not is_norm(name)

    def forward(self, *batch: Any) -> Tuple[Any, Any]:
        """Return the loss, and nothing."""
        return self.language_model.loss(batch, self._see), ()

    def _see(self, name: str, result: Any) -> None:
        if self._noting:
            self.first.setdefault(name, (result.dtype.name, tuple(result.shape)))

    def _forward_and_backward(self, *batch: Any) -> Tuple[Any, Any, List[Any]]:
        """Return loss, nothing, and the gradients: of the parts of the batch, one after another, the means."""
        self._noting, parts = True, self.parts
        if parts == 1:
            return super()._forward_and_backward(*batch)
        cut = [tf.stack(tf.split(array, parts)) for array in batch]
        one = super()._forward_and_backward

        def add(index: Any, total: Any, summed: List[Any]) -> Tuple[Any, Any, List[Any]]:
            loss, _, gradients = one(*(tf.gather(array, index) for array in cut))
            return index + 1, total + loss, [a + b for a, b in zip(summed, gradients)]

        zeros = [tf.zeros(variable.shape, variable.dtype) for variable in self._variables]
        start = (tf.constant(0), tf.constant(0.0), zeros)
        _, total, summed = tf.while_loop(
            lambda index, *_: index < parts, add, start, parallel_iterations=1, maximum_iterations=parts
        )
        return total / parts, (), [gradient / parts for gradient in summed]

    def seen(self) -> Seen:
        """Return what was seen of the first product; in a graph, while it was traced."""
        dtype, (part, length, _) = next(iter(self.first.values()))
        rows = int(self.batch[0].shape[0])
        tf32 = bool(tf.config.experimental.tensor_float_32_execution_enabled())
        return Seen(
            compute_dtype=dtype,
            weight_dtype=self._variables[0].value.dtype.name,
            batch_per_device=rows,
            tf32_matmul=tf32,
            tf32_convolution=tf32,
            sequence_length=length,
            accumulation=rows // part,
            others={STREAM: self.first[STREAM][0]},
        )

    def own_pass(self) -> Optional[Observation]:
        """Pass the batch forward and backward, by the very function that the step calls."""
        return self.observe() if self.ranks.place.world_size == 1 else None

    def observe(self) -> Observation:
        """Pass the whole batch forward and backward, and look at the products."""
        self._noting = False
        loss, _, gradients = super()._forward_and_backward(*self.prepared(self.batch, 1, alone=True))
        results: Dict[str, Any] = {}
        logits = self.language_model.look(self.batch, results.setdefault)
        products = []
        results.pop(STREAM)
        for name, result in results.items():
            variables = self.language_model.variables
            inputs, outputs = variables[f"{name}.weight"].shape
            values = tf.cast(result, tf.float32).numpy()
            products.append(product_seen(name, inputs, outputs, f"{name}.bias" in variables, values))
        by_name = self.by_name(self._scale.unscaled(gradients))
        wide = np.asarray(tf.cast(logits, tf.float32))
        return Observation(wide, float(loss), by_name, products)
