"""Trains a tiny network for one step with TensorFlow; exits 0 if the loss is finite and became smaller."""

import json
import math
import sys

import keras
import tensorflow as tf


def main() -> int:
    """Print ``TRAINMARK {"device": …, "loss_before": …, "loss_after": …}`` and return the exit code."""
    keras.utils.set_random_seed(0)
    body = [keras.layers.Conv2D(8, 3, strides=2), keras.layers.BatchNormalization(), keras.layers.ReLU()]
    model = keras.Sequential([*body, keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(4)])
    inputs = tf.random.stateless_normal((8, 16, 16, 3), seed=(0, 0))
    labels = tf.range(8) % 4
    criterion = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.build(inputs.shape)
    optimizer = keras.optimizers.SGD(learning_rate=0.1)
    optimizer.build(model.trainable_variables)

    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = criterion(labels, model(inputs, training=True))
        optimizer.apply(tape.gradient(loss, model.trainable_variables))
        return loss

    before = float(tf.function(step)())
    after = float(criterion(labels, model(inputs, training=True)))
    device = "cuda" if tf.config.list_physical_devices("GPU") else "cpu"
    answer = {"device": device, "loss_before": before, "loss_after": after}
    sys.stdout.write("\nTRAINMARK " + json.dumps(answer) + "\n")
    return 0 if math.isfinite(after) and after < before else 1


sys.exit(main())
