"""GPT-2 on Keras variables; what its layers are stands in ``architectures.py``."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import keras
import tensorflow as tf

from ...tasks.causal_lm.architectures import ARCHITECTURES, DEVIATION, NORM_EPSILON, is_norm
from ..weights import NamedVariable

Tap = Callable[[str, Any], None]
"""Gets the name and the result of each product."""


class GptModel:
    """The variables, (inputs, outputs) for products, and the pass through them in the type ``compute``."""

    def __init__(self, name: str, compute: str) -> None:
        """Draw the weights from Keras' generator; their number is asserted."""
        self.description, self._compute = ARCHITECTURES[name], compute
        self.variables: Dict[str, Any] = {}
        products = {f"{product}.weight" for product in self.description.products()}
        for parameter, shape in self.description.shapes().items():
            added = parameter.endswith(("output.weight", "down.weight"))
            drawn = keras.initializers.RandomNormal(
                stddev=self.description.added_deviation if added else DEVIATION
            )
            self.variables[parameter] = keras.Variable(
                keras.initializers.Ones() if is_norm(parameter) else drawn,
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
        expected = self.description.parameters()
        assert found == expected, f"{name} has {found} parameters instead of {expected}"

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
        return tf.tensordot(norm("norm", x), tf.transpose(tf.cast(embedding, self._compute)), 1)


def _attention(queries: Any, keys: Any, values: Any) -> Any:
    """Attend to the positions up to one's own; the softmax is in FP32. TensorFlow has no fused kernel for it."""
    length, width = queries.shape[-2:]
    scores = tf.cast(tf.matmul(queries, keys, transpose_b=True), tf.float32) * width**-0.5
    mask = tf.linalg.band_part(tf.ones((length, length), tf.bool), -1, 0)
    weights = tf.nn.softmax(tf.where(mask, scores, -1e9))
    return tf.matmul(tf.cast(weights, values.dtype), values)
