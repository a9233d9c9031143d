"""Changes of the TensorFlow worker; what is in its graph is traced again."""

import copy
import importlib
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

model: Any = importlib.import_module("trainmark_worker.models.tensorflow_image_classification")


def traced_again(change: Callable[[Any], None]) -> Callable[[Any], None]:
    def changed(training: Any) -> None:
        change(training)
        compiler = training._compiler
        training._pass = compiler.part(training._forward_and_backward)
        training._update = compiler.part(training._apply)
        training._train = compiler.whole(training._all_ranks)

    return changed


def batch_norm_evaluates(_training: Any) -> None:
    """By the statistics that were gathered."""

    def call(self: Any, inputs: Any) -> Any:
        return tf.raw_ops.FusedBatchNormV3(
            x=inputs,
            scale=self.gamma,
            offset=self.beta,
            mean=self.moving_mean,
            variance=self.moving_variance,
            epsilon=model.NORM_EPSILON,
            data_format=self._layout,
            is_training=False,
        ).y

    model.FusedBatchNormalization.call = call


def forward_only(training: Any) -> None:
    """A loss, and nothing else."""
    training._all_ranks = lambda _rate, *batch: training.ranks.run(
        lambda *own: training.forward(*own)[0], *batch
    )


def frozen_stem(training: Any) -> None:
    """As in fine-tuning: the optimizer does not have it."""
    rest = copy.copy(training.optimizer)
    for name in ("_variables", "_decays", "_velocities"):
        setattr(rest, name, getattr(rest, name)[1:])
    apply = rest.apply
    rest.apply = lambda gradients, rate: apply(gradients[1:], rate)
    training.optimizer = rest


def sixteen_bits(training: Any) -> None:
    """BF16, whatever was asked for."""
    for layer in training.model.layers:
        layer.dtype_policy = keras.DTypePolicy("mixed_bfloat16")


def middle_convolution(training: Any) -> Any:
    """Return the pointwise convolution at a third of the network."""
    layers = [layer for layer in training.model.layers if layer.name.endswith(".pointwise.conv")]
    return layers[len(layers) // 3]


def one_layer(training: Any) -> None:
    """One convolution, in the middle, in BF16."""
    middle_convolution(training).dtype_policy = keras.DTypePolicy("mixed_bfloat16")


def one_layer_within(training: Any) -> None:
    """The same, with its output turned back into the type of all others."""
    layer = middle_convolution(training)
    shape = {"strides": 1, "padding": "SAME", "data_format": training.settings.layout.upper()}

    def rounded(inputs: Any) -> Any:
        images, kernel = (tf.cast(array, tf.bfloat16) for array in (inputs, layer.kernel))
        return tf.cast(tf.nn.conv2d(images, kernel, **shape), inputs.dtype)

    layer.call = rounded


def gradients_summed(training: Any) -> None:
    """The sum of losses that nobody divided."""
    total, ranks = training.ranks.total, training.ranks.place.world_size
    training.ranks.total = lambda values, pack: [value * ranks for value in total(values, pack)]


def no_all_reduce(training: Any) -> None:
    """Each rank on its own."""
    ranks = training.ranks.place.world_size
    training.ranks.total = lambda values, _pack: [value * ranks for value in values]


def momentum(training: Any) -> None:
    """That of another recipe."""
    training.optimizer._momentum = 0.5


def decay(training: Any) -> None:
    """A lot of it, of everything."""
    training.optimizer._decays = [0.1 for _ in training.optimizer._decays]


def relu6() -> None:
    """An activation with a bound."""
    whole = keras.layers.ReLU
    model.layers.ReLU = lambda **options: whole(max_value=6.0, **options)


def half_size() -> None:
    """A constant of another experiment."""
    pipeline: Any = importlib.import_module("trainmark_worker.backends.tensorflow.loading")
    resize = tf.image.resize

    def half(image: Any, size: Any) -> Any:
        return resize(image, tuple(side // 2 for side in size))

    pipeline.tf.image.resize = half


def centre_crop() -> None:
    """As in a validation."""
    pipeline: Any = importlib.import_module("trainmark_worker.backends.tensorflow.loading")

    def cropped(data: Any, _seed: Any) -> Any:
        whole = tf.io.decode_jpeg(data, channels=3)
        return tf.ensure_shape(tf.image.central_crop(whole, 0.875), (None, None, 3))

    pipeline._cropped = cropped


LATER = {
    "batch-norm-evaluates": traced_again(batch_norm_evaluates),
    "forward-only": traced_again(forward_only),
    "frozen-stem": traced_again(frozen_stem),
    "another-type": traced_again(sixteen_bits),
    "one-layer": traced_again(one_layer),
    "one-layer-within": traced_again(one_layer_within),
    "gradients-summed": traced_again(gradients_summed),
    "no-all-reduce": traced_again(no_all_reduce),
    "momentum": traced_again(momentum),
    "decay": traced_again(decay),
}
BEFORE = {"relu6": relu6, "half-size": half_size, "centre-crop": centre_crop}
