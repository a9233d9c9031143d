"""GPT-2 on Keras variables; what its layers are stands in ``architectures.py``."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import keras
import tensorflow as tf

from ...tasks.causal_lm.architectures import ARCHITECTURES, DEVIATION, NORM_EPSILON
from ...tasks.causal_lm.facts import STREAM
from ..weights import NamedVariable

Tap = Callable[[str, Any], None]
"""Gets the name and the result of each product, and of ``STREAM`` what the first block gave."""


class LanguageModel:
    """Variables by the shared names, (inputs, outputs) for products, and the pass through them in a type."""

    def __init__(self, description: Any, compute: str, deviations: Callable[[str], float]) -> None:
        """Draw the weights from Keras' generator, ``deviations`` by name; their number is asserted."""
        self.description, self._compute = description, compute
        self.variables: Dict[str, Any] = {}
        products = {f"{product}.weight" for product in description.products()}
        for parameter, shape in description.shapes().items():
            drawn: Any = keras.initializers.RandomNormal(stddev=deviations(parameter))
            if len(shape) == 1:
                one = parameter.endswith("norm.weight")
                drawn = keras.initializers.Ones() if one else keras.initializers.Zeros()
            self.variables[parameter] = keras.Variable(
                drawn,
                shape=shape[::-1] if parameter in products else shape,
                dtype="float32",
                name=parameter.replace(".", "_"),
            )
        self.trainable_variables: List[Any] = list(self.variables.values())
        self.tensors = {
            parameter: NamedVariable(
                variable, (1, 0) if parameter in products else tuple(range(len(variable.shape)))
            )
            for parameter, variable in self.variables.items()
        }
        found = sum(int(tf.size(variable.value)) for variable in self.trainable_variables)
        expected = description.parameters()
        assert found == expected, f"the model has {found} parameters instead of {expected}"

    def look(self, batch: Any, tap: Tap) -> Any:
        """Return the logits of a batch."""
        raise NotImplementedError

    def loss(self, batch: Any, tap: Tap) -> Any:
        """Return the loss of a batch, in FP32."""
        raise NotImplementedError


class GptModel(LanguageModel):
    """GPT-2."""

    def __init__(self, name: str, compute: str) -> None:
        """Take the model's name."""
        model = ARCHITECTURES[name]

        def deviation(parameter: str) -> float:
            added = parameter.endswith(("output.weight", "down.weight"))
            return model.added_deviation if added else DEVIATION

        super().__init__(model, compute, deviation)

    def look(self, batch: Any, tap: Tap) -> Any:
        """Return the logits of tokens (batch, length + 1), of which the last is only predicted."""
        return self.logits(batch[0][:, :-1], tap)

    def loss(self, batch: Any, tap: Tap) -> Any:
        """Return the mean cross entropy of all tokens but the first."""
        # In FP32: a logarithm of FP16 sums is what loss scaling cannot mend.
        return cross_entropy(self.look(batch, tap), batch[0][:, 1:])

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
