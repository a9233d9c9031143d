"""Wide & Deep on Keras variables; what its layers are stands in ``architectures.py``."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Sequence

import keras
import tensorflow as tf

from ...tasks.recommendation.architectures import DEEP, TABLE_LIMIT, WIDE, WideDeep, glorot_limit
from ..weights import NamedVariable, count_parameters

Tap = Callable[[str, Any], None]
"""Gets the name and the result of each product."""


class WideDeepModel:
    """Variables by the shared names, (inputs, outputs) for products, and the pass through them in a type."""

    def __init__(self, model: WideDeep, compute: str, dropout: float) -> None:
        """Draw the weights from Keras' generator; their number is asserted."""
        self._products, self._compute, self._dropout = list(model.products()), compute, dropout
        self.variables: Dict[str, Any] = {}
        self.tensors: Dict[str, NamedVariable] = {}
        for name, shape in model.shapes().items():
            is_product = name.endswith("weight")
            limit = glorot_limit(shape) if is_product else TABLE_LIMIT
            drawn: Any = keras.initializers.RandomUniform(-limit, limit)
            self.variables[name] = keras.Variable(
                keras.initializers.Zeros() if name.endswith("bias") else drawn,
                shape=shape[::-1] if is_product else shape,
                dtype="float32",
                name=name.replace(".", "_"),
            )
            order = (1, 0) if is_product else tuple(range(len(shape)))
            self.tensors[name] = NamedVariable(self.variables[name], order)
        self.trainable_variables: List[Any] = list(self.variables.values())
        found, expected = count_parameters(self), model.parameters()
        assert found == expected, f"the model has {found} parameters instead of {expected}"

    def logits(self, fields: Sequence[Any], tap: Tap) -> Any:
        """Return the logits (batch,) of fields (batch, 13), (batch, 26) and (batch, 2), in the compute type."""
        dense, categories, crossed = fields
        weights = {name: variable.value for name, variable in self.variables.items()}
        embedded = tf.reshape(tf.gather(weights[DEEP], categories), (dense.shape[0], -1))
        x = tf.cast(tf.concat([embedded, dense], axis=1), self._compute)
        for name in self._products:
            x = tf.matmul(x, tf.cast(weights[f"{name}.weight"], self._compute))
            x = tf.nn.bias_add(x, tf.cast(weights[f"{name}.bias"], self._compute))
            tap(name, x)
            if name != self._products[-1]:
                x = tf.nn.relu(x)
                x = tf.nn.dropout(x, self._dropout) if self._dropout else x
        wide = tf.reduce_sum(tf.gather(weights[WIDE], crossed), axis=1)
        return tf.squeeze(tf.cast(x, tf.float32) + wide, 1)

    def loss(self, batch: Sequence[Any], tap: Tap) -> Any:
        """Return the mean binary cross entropy, in FP32."""
        *fields, labels = batch
        logits = self.logits(fields, tap)
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))
