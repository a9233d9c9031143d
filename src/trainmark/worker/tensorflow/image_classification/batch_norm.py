"""Batch norm by TensorFlow's fused kernel, which Keras 3 does not use any more."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from ...tasks.image_classification.architectures import BATCH_NORM_EPSILON, BATCH_NORM_MOMENTUM


class FusedBatchNormalization(keras.layers.Layer):
    """Batch norm over the channels, always with the statistics of the batch at hand: it is only trained.

    ``keras.layers.BatchNormalization`` became a chain of elementary operations in Keras 3 that rounds the batch's
    statistics to the compute type. ``FusedBatchNormV3`` is what Keras 2 used: one kernel (oneDNN, cuDNN) that keeps
    statistics in FP32, and whose running variance is the unbiased one, as PyTorch's. Each rank's statistics are its
    own: the variables are not aggregated.
    """

    def __init__(self, data_format: str, **options: Any) -> None:
        """Take Keras' name of the layout: ``channels_last`` or ``channels_first``."""
        super().__init__(**options)
        self._layout = "NHWC" if data_format == "channels_last" else "NCHW"

    def build(self, input_shape: Any) -> None:
        """Make scale, shift and running statistics, in FP32 whatever the compute type is."""
        shape = (input_shape[-1 if self._layout == "NHWC" else 1],)

        def vector(name: str, initializer: str, trainable: bool) -> Any:
            return self.add_weight(
                name=name,
                shape=shape,
                initializer=initializer,
                trainable=trainable,
                dtype="float32",
                autocast=False,
            )

        self.gamma = vector("gamma", "ones", trainable=True)
        self.beta = vector("beta", "zeros", trainable=True)
        self.moving_mean = vector("moving_mean", "zeros", trainable=False)
        self.moving_variance = vector("moving_variance", "ones", trainable=False)

    def call(self, inputs: Any) -> Any:
        """Return the normalised batch in the type of ``inputs``, and move the running statistics."""
        # The raw operation: tf.compat.v1's wrapper raises the epsilon to 1.001e-5 for old versions of cuDNN.
        result = tf.raw_ops.FusedBatchNormV3(
            x=inputs,
            scale=self.gamma,
            offset=self.beta,
            mean=self.moving_mean,
            variance=self.moving_variance,
            epsilon=BATCH_NORM_EPSILON,
            exponential_avg_factor=1 - BATCH_NORM_MOMENTUM,
            data_format=self._layout,
            is_training=True,
        )
        self.moving_mean.assign(result.batch_mean)
        self.moving_variance.assign(result.batch_variance)
        return result.y

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Return the shape of the input."""
        return input_shape
