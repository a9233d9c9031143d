"""Wide & Deep on Keras variables; ``architectures.py`` describes the layers."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from ..backends.tensorflow.backend import NamedModel, ProductTraining, Tap
from ..core.facts import ObservedConfig
from ..tasks.recommendation.architectures import DEEP, TABLE_LIMIT, WIDE, WideDeep, glorot_limit
from ..tasks.recommendation.settings import DENSE_GRADIENTS, ClickSettings
from ..tasks.recommendation.training import ClickTraining


class WideDeepModel(NamedModel):
    """Wide & Deep."""

    def __init__(self, model: WideDeep, compute: str, dropout: float) -> None:
        def drawn(name: str, shape: tuple[int, ...]) -> Any:
            limit = glorot_limit(shape) if name.endswith("weight") else TABLE_LIMIT
            # Made for biases too: Keras draws a seed for each one that is made.
            uniform = keras.initializers.RandomUniform(-limit, limit)
            return keras.initializers.Zeros() if name.endswith("bias") else uniform

        super().__init__(model, compute, drawn)
        self._products, self._dropout = list(model.products()), dropout

    def batch_logits(self, batch: Any, tap: Tap) -> Any:
        """Return the logits (batch,) of fields (batch, 13), (batch, 26) and (batch, 2), in the compute type."""
        dense, categories, crossed, _ = batch
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

    def loss(self, batch: Any, tap: Tap) -> Any:
        """Return the mean binary cross entropy, in FP32."""
        losses = tf.nn.sigmoid_cross_entropy_with_logits(batch[-1], self.batch_logits(batch, tap))
        return tf.reduce_mean(losses)


class TensorFlowClickTraining(ProductTraining, ClickTraining):
    """A recommender, and the observation of the deep table's gradient."""

    settings: ClickSettings

    def build(self) -> None:
        settings = self.settings
        self._gradient: Any = None
        description, dropout = settings.description, settings.recipe.dropout
        assert isinstance(description, WideDeep)
        model = WideDeepModel(description, self.precision.compute, dropout)
        self.train_model(model, lambda _name: settings.recipe.weight_decay > 0)

    def readers(self) -> Mapping[str, Callable[[str, int], Any]]:
        from ..backends.tensorflow.loading import CLICK_READERS

        return CLICK_READERS

    def _forward_and_backward(self, *batch: Any) -> tuple[Any, Any, list[Any]]:
        """Return loss, nothing, and the gradients: of the tables all rows, and not the list of those looked up."""
        loss, outputs, gradients = super()._forward_and_backward(*batch)
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        self._gradient = gradients[[*self.model.variables].index(DEEP)]
        return loss, outputs, gradients

    def observed_config(self) -> ObservedConfig:
        (_, shape), table, found = next(iter(self.first.values())), self.model.variables[DEEP], self._gradient
        gradients = DENSE_GRADIENTS if tf.is_tensor(found) else type(found).__name__
        return self.config_of(table.value, shape[0], self.axes(table.shape, gradients))


open_training = TensorFlowClickTraining
