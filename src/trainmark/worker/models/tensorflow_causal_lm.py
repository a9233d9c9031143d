"""GPT-2 on Keras variables; ``architectures.py`` describes the layers."""

from typing import Any

import keras
import tensorflow as tf

from ..backends.tensorflow.backend import NamedModel, ProductTraining, Tap
from ..core.facts import ObservedConfig
from ..tasks.causal_lm.architectures import ARCHITECTURES, DEVIATION, NORM_EPSILON
from ..tasks.causal_lm.settings import LanguageSettings
from ..tasks.causal_lm.training import LanguageTraining
from ..tasks.products import STREAM


def drawn_weights(name: str, deviation: float) -> Any:
    """Return the initializer of a parameter: norms begin with ones, biases with zeros, all others normal."""
    # Made for every parameter: Keras draws a seed for each one that is made.
    normal = keras.initializers.RandomNormal(stddev=deviation)
    if name.endswith("norm.weight"):
        return keras.initializers.Ones()
    return keras.initializers.Zeros() if name.endswith("bias") else normal


class LanguageModel(NamedModel):
    """The layers of a language model by the names of their parameters."""

    epsilon: float  # of the norms
    causal = False  # whether a position attends to itself and to those before it alone

    dropout = 0.0

    def product(self, name: str, given: Any, tap: Tap) -> Any:
        """Return the product of (…, inputs), with its bias if it has one."""
        result = tf.tensordot(given, tf.cast(self.variables[f"{name}.weight"].value, self._compute), 1)
        if f"{name}.bias" in self.variables:
            result = result + tf.cast(self.variables[f"{name}.bias"].value, self._compute)
        tap(name, result)
        return result

    def norm(self, name: str, given: Any) -> Any:
        """Normalise the last axis in FP32."""
        wide = tf.cast(given, tf.float32)
        mean, variance = tf.nn.moments(wide, -1, keepdims=True)
        scaled = (wide - mean) * tf.math.rsqrt(variance + self.epsilon)
        scaled = scaled * self.variables[f"{name}.weight"].value
        if f"{name}.bias" in self.variables:
            scaled = scaled + self.variables[f"{name}.bias"].value
        return tf.cast(scaled, self._compute)

    def attention(self, qkv: Any, mask: Any = None) -> Any:
        """Attend to the positions of the mask, or to all: (batch, length, 3 width) to (batch, length, width).

        The softmax is in FP32. TensorFlow has no fused kernel for it.
        """
        batch, length, width = qkv.shape
        heads = (batch, length, self.description.heads, -1)
        queries, keys, values = (
            tf.transpose(tf.reshape(part, heads), (0, 2, 1, 3)) for part in tf.split(qkv, 3, axis=-1)
        )
        scores = tf.cast(tf.matmul(queries, keys, transpose_b=True), tf.float32) * queries.shape[-1] ** -0.5
        if self.causal:
            mask = tf.linalg.band_part(tf.ones((length, length), tf.bool), -1, 0)
        if mask is not None:
            scores = tf.where(mask, scores, -1e9)
        weights = tf.cast(tf.nn.softmax(scores), values.dtype)
        if self.dropout:
            weights = self._drop(weights)
        attended = tf.transpose(tf.matmul(weights, values), (0, 2, 1, 3))
        return tf.reshape(attended, (batch, length, width // 3))

    def _drop(self, values: Any) -> Any:
        """Drop a share of values; the rest are as much larger."""
        return tf.nn.dropout(values, self.dropout) if self.dropout else values


class GptModel(LanguageModel):
    """GPT-2."""

    epsilon, causal = NORM_EPSILON, True

    def __init__(self, name: str, compute: str) -> None:
        model = ARCHITECTURES[name]

        def drawn(parameter: str, _shape: tuple[int, ...]) -> Any:
            added = parameter.endswith(("output.weight", "down.weight"))
            return drawn_weights(parameter, model.added_deviation if added else DEVIATION)

        super().__init__(model, compute, drawn)

    def batch_logits(self, batch: Any, tap: Tap) -> Any:
        """Return the logits (batch, length, vocabulary) of tokens (batch, length + 1), in the compute type."""
        tokens = batch[0][:, :-1]
        embedding = self.variables["embedding.tokens"].value
        x = tf.gather(embedding, tokens) + self.variables["embedding.positions"].value[: tokens.shape[1]]
        x = tf.cast(x, self._compute)
        for block in range(self.description.layers):
            name = f"block{block}.attention"
            attended = self.attention(self.product(f"{name}.qkv", self.norm(f"{name}.norm", x), tap))
            x = x + self.product(f"{name}.output", attended, tap)
            name = f"block{block}.mlp"
            inner = self.product(f"{name}.up", self.norm(f"{name}.norm", x), tap)
            x = x + self.product(f"{name}.down", tf.nn.gelu(inner, approximate=False), tap)
            if block == 0:
                tap(STREAM, x)
        return tf.tensordot(self.norm("norm", x), tf.transpose(tf.cast(embedding, self._compute)), 1)

    def loss(self, batch: Any, tap: Tap) -> Any:
        # In FP32: loss scaling does not help a logarithm of FP16 sums.
        return cross_entropy(self.batch_logits(batch, tap), batch[0][:, 1:])


def cross_entropy(logits: Any, targets: Any) -> Any:
    """Return the mean cross entropy, in FP32."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, tf.cast(logits, tf.float32))
    return tf.reduce_mean(losses)


class TensorFlowLanguageTraining(ProductTraining, LanguageTraining):
    """A language model."""

    settings: LanguageSettings

    def build(self) -> None:
        self.parts = self.settings.accumulation
        self.train_model(self.make_model(self.precision.compute), self.decays)

    def make_model(self, compute: str) -> LanguageModel:
        """Return the model with fresh weights, which computes in a type."""
        return GptModel(self.settings.model, compute)

    def _forward_and_backward(self, *batch: Any) -> tuple[Any, Any, list[Any]]:
        """Return loss, nothing, and the gradients: of the parts of the batch, one after another, the means."""
        parts = self.parts
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

    def pass_whole(self, *batch: Any) -> tuple[Any, Any, list[Any]]:
        return super()._forward_and_backward(*batch)

    def observed_config(self) -> ObservedConfig:
        _, (part, length, _) = next(iter(self.first.values()))
        rows = int(self.batch[0].shape[0])
        axes = {"sequence_length": length, "accumulation": rows // part}
        return self.config_of(self._variables[0].value, rows, axes, **{STREAM: self.first[STREAM][0]})


open_training = TensorFlowLanguageTraining
