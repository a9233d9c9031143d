"""GPT-2 on Keras variables; ``architectures.py`` describes the layers."""

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ..backends.tensorflow.backend import NamedModel, TensorFlowTraining, tf32_switches
from ..tasks.causal_lm.architectures import ARCHITECTURES, DEVIATION, NORM_EPSILON
from ..tasks.causal_lm.settings import LanguageSettings
from ..tasks.causal_lm.training import LanguageTraining, ObservedConfig
from ..tasks.products import STREAM, Observation

Tap = Callable[[str, Any], None]
"""Gets the name and the result of each product, and of ``STREAM`` what the first block gave."""


def drawn_weights(name: str, deviation: float) -> Any:
    """Return the initializer of a parameter: norms begin with ones, biases with zeros, all others normal."""
    # Made for every parameter: Keras draws a seed for each one that is made.
    normal = keras.initializers.RandomNormal(stddev=deviation)
    if name.endswith("norm.weight"):
        return keras.initializers.Ones()
    return keras.initializers.Zeros() if name.endswith("bias") else normal


class LanguageModel(NamedModel):
    """A language model, which has its own loss."""

    def observe(self, batch: Any, tap: Tap) -> Any:
        """Return the logits of a batch."""
        raise NotImplementedError

    def loss(self, batch: Any, tap: Tap) -> Any:
        """Return the loss of a batch, in FP32."""
        raise NotImplementedError


class GptModel(LanguageModel):
    """GPT-2."""

    def __init__(self, name: str, compute: str) -> None:
        model = ARCHITECTURES[name]

        def drawn(parameter: str, _shape: tuple[int, ...]) -> Any:
            added = parameter.endswith(("output.weight", "down.weight"))
            return drawn_weights(parameter, model.added_deviation if added else DEVIATION)

        super().__init__(model, compute, drawn)

    def observe(self, batch: Any, tap: Tap) -> Any:
        """Return the logits of tokens (batch, length + 1), of which the last is only predicted."""
        return self.logits(batch[0][:, :-1], tap)

    def loss(self, batch: Any, tap: Tap) -> Any:
        # In FP32: loss scaling does not help a logarithm of FP16 sums.
        return cross_entropy(self.observe(batch, tap), batch[0][:, 1:])

    def logits(self, tokens: Any, tap: Tap) -> Any:
        """Map tokens (batch, length) to logits (batch, length, vocabulary) in the compute type; norms are in FP32."""
        model, (batch, length) = self.description, tokens.shape

        def product(name: str, given: Any) -> Any:
            weight = tf.cast(self.variables[f"{name}.weight"].value, self._compute)
            result = tf.tensordot(given, weight, 1)
            tap(name, result)
            return result

        def norm(name: str, given: Any) -> Any:
            wide = tf.cast(given, tf.float32)
            mean, variance = tf.nn.moments(wide, -1, keepdims=True)
            scaled = (wide - mean) * tf.math.rsqrt(variance + NORM_EPSILON)
            return tf.cast(scaled * self.variables[f"{name}.weight"].value, self._compute)

        embedding = self.variables["embedding.tokens"].value
        x = tf.gather(embedding, tokens) + self.variables["embedding.positions"].value[:length]
        x = tf.cast(x, self._compute)
        for block in range(model.layers):
            name = f"block{block}.attention"
            parts = tf.split(product(f"{name}.qkv", norm(f"{name}.norm", x)), 3, axis=-1)
            heads = (
                tf.transpose(tf.reshape(part, (batch, length, model.heads, -1)), (0, 2, 1, 3))
                for part in parts
            )
            attended = tf.transpose(_attention(*heads), (0, 2, 1, 3))
            x = x + product(f"{name}.output", tf.reshape(attended, (batch, length, model.width)))
            name = f"block{block}.mlp"
            inner = tf.nn.gelu(product(f"{name}.up", norm(f"{name}.norm", x)), approximate=False)
            x = x + product(f"{name}.down", inner)
            if block == 0:
                tap(STREAM, x)
        return tf.tensordot(norm("norm", x), tf.transpose(tf.cast(embedding, self._compute)), 1)


def cross_entropy(logits: Any, targets: Any) -> Any:
    """Return the mean cross entropy, in FP32."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, tf.cast(logits, tf.float32))
    return tf.reduce_mean(losses)


def _attention(queries: Any, keys: Any, values: Any) -> Any:
    """Attend to the positions up to one's own; the softmax is in FP32. TensorFlow has no fused kernel for it."""
    length, width = queries.shape[-2:]
    scores = tf.cast(tf.matmul(queries, keys, transpose_b=True), tf.float32) * width**-0.5
    mask = tf.linalg.band_part(tf.ones((length, length), tf.bool), -1, 0)
    weights = tf.nn.softmax(tf.where(mask, scores, -1e9))
    return tf.matmul(tf.cast(weights, values.dtype), values)


class TensorFlowLanguageTraining(TensorFlowTraining, LanguageTraining):
    """A language model, its loss, and the observation of its products."""

    settings: LanguageSettings

    def build(self) -> None:
        self.parts = self.settings.accumulation
        self._noting = False
        self.first: dict[str, tuple[str, tuple[int, ...]]] = {}
        """Of each product the type and the shape of its result in the first step."""
        self.language_model = self.make_model(self.precision.compute)
        self.take_over(self.language_model, self.language_model.tensors, self.decays)

    def make_model(self, compute: str) -> LanguageModel:
        """Return the model with fresh weights, which computes in a type."""
        return GptModel(self.settings.model, compute)

    def forward(self, *batch: Any) -> tuple[Any, Any]:
        return self.language_model.loss(batch, self._note), ()

    def _note(self, name: str, result: Any) -> None:
        if self._noting:
            self.first.setdefault(name, (result.dtype.name, tuple(result.shape)))

    def _forward_and_backward(self, *batch: Any) -> tuple[Any, Any, list[Any]]:
        """Return loss, nothing, and the gradients: of the parts of the batch, one after another, the means."""
        self._noting, parts = True, self.parts
        if parts == 1:
            return super()._forward_and_backward(*batch)
        cut = [tf.stack(tf.split(array, parts)) for array in batch]
        one = super()._forward_and_backward

        def add(index: Any, total: Any, summed: list[Any]) -> tuple[Any, Any, list[Any]]:
            loss, _, gradients = one(*(tf.gather(array, index) for array in cut))
            return index + 1, total + loss, [a + b for a, b in zip(summed, gradients)]

        zeros = [tf.zeros(variable.shape, variable.dtype) for variable in self._variables]
        start = (tf.constant(0), tf.constant(0.0), zeros)
        _, total, summed = tf.while_loop(
            lambda index, *_: index < parts, add, start, parallel_iterations=1, maximum_iterations=parts
        )
        return total / parts, (), [gradient / parts for gradient in summed]

    def observed_config(self) -> ObservedConfig:
        """Return the observation of the first product; in a graph, while it was traced."""
        dtype, (part, length, _) = next(iter(self.first.values()))
        rows = int(self.batch[0].shape[0])
        return ObservedConfig(
            compute_dtype=dtype,
            weight_dtype=self._variables[0].value.dtype.name,
            batch_per_device=rows,
            **tf32_switches(),
            sequence_length=length,
            accumulation=rows // part,
            others={STREAM: self.first[STREAM][0]},
        )

    def observe(self) -> Observation:
        self._noting = False
        loss, _, gradients = super()._forward_and_backward(*self.prepared(self.batch, 1, alone=True))
        results: dict[str, Any] = {}
        logits = self.language_model.observe(self.batch, results.setdefault)
        results.pop(STREAM)
        by_name = self.by_name(self._scale.unscaled(gradients))
        return self.language_model.observation(results, logits, loss, by_name)


open_training = TensorFlowLanguageTraining
