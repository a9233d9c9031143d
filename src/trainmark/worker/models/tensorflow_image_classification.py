"""Image networks as functional Keras models, and their loss; ``architectures.py`` describes the layers."""

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf
from keras import layers
from tensorflow.python.framework import op_callbacks

from ..backends import tensorflow as backend
from ..backends.tensorflow.backend import NamedVariable, TensorFlowTraining
from ..core.backend import Observation
from ..core.facts import ObservedConfig, assert_parameters, count_parameters
from ..core.feed import Feed
from ..core.outcomes import UNSUPPORTED, Known, RunError
from ..core.place import Place
from ..core.training import NONE
from ..tasks.image_classification import observing
from ..tasks.image_classification.architectures import (
    ARCHITECTURES,
    NORM_EPSILON,
    NORM_MOMENTUM,
    Convolution,
    is_batch_norm,
)
from ..tasks.image_classification.images import DEVIATION, MEAN
from ..tasks.image_classification.known_picture import TFRECORD
from ..tasks.image_classification.settings import ImageSettings
from ..tasks.image_classification.training import ImageTraining

NO_LAYOUT = (
    "without XLA, TensorFlow computes nchw on a CPU through oneDNN, which is off here "
    "(TF_ENABLE_ONEDNN_OPTS=0, or a CPU without the instructions that it wants)"
)

FAILURES = (
    Known(
        backend.OWN,
        re.compile(r"only supports? (?:the )?NHWC|NHWC tensor format", re.IGNORECASE),
        lambda _error, _found: RunError(UNSUPPORTED, NO_LAYOUT),
    ),
    *backend.FAILURES,
)


class FusedBatchNormalization(keras.layers.Layer):
    """Batch norm over the channels, always with the statistics of the current batch: it is only trained.

    ``keras.layers.BatchNormalization`` became a chain of elementary operations in Keras 3 that rounds the batch's
    statistics to the compute type. ``FusedBatchNormV3`` is what Keras 2 used: one kernel (oneDNN, cuDNN) that keeps
    statistics in FP32, and whose running variance is the unbiased one, as PyTorch's. Each rank's statistics are its
    own: the variables are not aggregated.
    """

    def __init__(self, data_format: str, **options: Any) -> None:
        super().__init__(**options)
        self._layout = "NHWC" if data_format == "channels_last" else "NCHW"

    def build(self, input_shape: Any) -> None:
        """Make scale, shift and running statistics, in FP32 whatever the compute type is."""
        channels = input_shape[-1 if self._layout == "NHWC" else 1]

        def vector(name: str, value: str, trainable: bool = True) -> Any:
            own = {"shape": (channels,), "initializer": value, "dtype": "float32", "trainable": trainable}
            return self.add_weight(**own, autocast=False, name=name)

        self.gamma, self.beta = vector("gamma", "ones"), vector("beta", "zeros")
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
            epsilon=NORM_EPSILON,
            exponential_avg_factor=1 - NORM_MOMENTUM,
            data_format=self._layout,
            is_training=True,
        )
        self.moving_mean.assign(result.batch_mean)
        self.moving_variance.assign(result.batch_variance)
        return result.y

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Return the shape of the input."""
        return input_shape


DATA_FORMATS = {"nhwc": "channels_last", "nchw": "channels_first"}


def build_network(settings: ImageSettings) -> tuple[Any, dict[str, Any]]:
    """Return the model from images to logits, and the outputs of the convolutions inside it, by their names.

    It computes in the dtype policy at hand; its weights are drawn from the global seed. The batch is part of its shape:
    static shapes let XLA and the graph's optimizer decide once.
    """
    architecture, data_format = ARCHITECTURES[settings.model], DATA_FORMATS[settings.layout]
    sides = (settings.image_size, settings.image_size)
    shape = (*sides, 3) if settings.layout == "nhwc" else (3, *sides)
    outputs: dict[str, Any] = {}

    def unit(conv: Convolution, x: Any) -> Any:
        """Return convolution and batch norm of ``x``."""
        padding = "valid"
        if conv.padding and conv.stride == 1:
            # Symmetric where the stride is 1, and then it needs no copy of the images.
            padding = "same"
        elif conv.padding:
            # Keras' own "same" puts the odd row and column of a strided convolution below and to the right.
            x = layers.ZeroPadding2D(conv.padding, data_format=data_format, name=conv.name + ".pad")(x)
        own = {"strides": conv.stride, "padding": padding, "data_format": data_format, "use_bias": False}
        own["name"] = conv.name + ".conv"
        if conv.groups == 1:
            layer = layers.Conv2D(conv.outputs, conv.kernel, kernel_initializer="he_normal", **own)
        else:
            assert conv.groups == conv.inputs == conv.outputs
            # Keras takes all channels for the fan-in of a depthwise kernel; it is the kernel's area.
            he_normal = keras.initializers.RandomNormal(stddev=math.sqrt(2 / conv.kernel**2))
            layer = layers.DepthwiseConv2D(conv.kernel, depthwise_initializer=he_normal, **own)
        outputs[conv.name] = x = layer(x)
        return FusedBatchNormalization(data_format, name=conv.name + ".bn")(x)

    def activated(conv: Convolution, x: Any) -> Any:
        return layers.ReLU(name=conv.name + ".relu")(unit(conv, x))

    images = keras.Input(shape, settings.batch_per_device, name="images")
    stem, *others = architecture.convolutions
    x = activated(stem, images)
    if settings.model == "resnet50_v1.5":
        # Zeros stand for minus infinity here: what comes out of a ReLU is not negative.
        x = layers.ZeroPadding2D(1, data_format=data_format, name="stem.pool_pad")(x)
        x = layers.MaxPooling2D(3, 2, data_format=data_format, name="stem.pool")(x)
        for name, block in architecture.blocks().items():
            y = unit(block["c"], activated(block["b"], activated(block["a"], x)))
            x = unit(block["shortcut"], x) if "shortcut" in block else x
            x = layers.ReLU(name=name + ".relu")(layers.Add(name=name + ".sum")([y, x]))
    else:
        for conv in others:
            x = activated(conv, x)
    x = layers.GlobalAveragePooling2D(data_format=data_format, name="pool")(x)
    normal = keras.initializers.RandomNormal(stddev=0.01)
    logits = layers.Dense(settings.classes, kernel_initializer=normal, name="classifier")(x)
    model = keras.Model(images, logits, name=settings.model.replace(".", "_"))
    assert_parameters(count_parameters(model.trainable_variables), architecture.parameters(settings.classes))
    assert list(outputs) == [conv.name for conv in architecture.convolutions]
    return model, outputs


VECTORS = {"weight": "gamma", "bias": "beta", "running_mean": "moving_mean", "running_var": "moving_variance"}


def named_variables(model: Any, name: str) -> dict[str, NamedVariable]:
    """Return parameters and running statistics by the names of ``Architecture.shapes``."""
    named: dict[str, NamedVariable] = {}
    for conv in ARCHITECTURES[name].convolutions:
        layer, norm = model.get_layer(conv.name + ".conv"), model.get_layer(conv.name + ".bn")
        # Kernels are (height, width, inputs, outputs); of depthwise convolutions (height, width, channels, 1).
        order = (3, 2, 0, 1) if conv.groups == 1 else (2, 3, 0, 1)
        named[conv.name + ".conv.weight"] = NamedVariable(layer.kernel, order)
        for shared, own in VECTORS.items():
            named[f"{conv.name}.bn.{shared}"] = NamedVariable(getattr(norm, own), (0,))
    classifier = model.get_layer("classifier")
    named["classifier.weight"] = NamedVariable(classifier.kernel, (1, 0))
    return {**named, "classifier.bias": NamedVariable(classifier.bias, (0,))}


# The operations of convolutions and dense layers in the forward pass.
PRODUCTS = ("Conv2D", "DepthwiseConv2dNative", "MatMul", "_FusedConv2D", "_FusedMatMul")


@contextmanager
def operand_types(layers: Sequence[Any]) -> Iterator[dict[str, str]]:
    """Yield a dictionary that gets, by the names of Keras layers, the type of what goes into their products.

    A layer that casts its inputs to another type and its output back is observed only here. ``layers`` are called
    operator by operator meanwhile; ``graph`` shows the types of a compiled step.
    """
    types: dict[str, str] = {}
    calling: list[str] = []

    def entering(layer: Any, call: Any) -> Any:
        def called(*given: Any, **named: Any) -> Any:
            calling.append(layer.name)
            try:
                return call(*given, **named)
            finally:
                calling.pop()

        return called

    def note(kind: Any, given: Any, _attributes: Any, _outputs: Any, *_names: Any, **_more: Any) -> None:
        # Operations that Keras calls by TensorFlow's fast path are named by bytes.
        word = kind.decode() if isinstance(kind, bytes) else kind
        if calling and word in PRODUCTS:
            types[calling[-1]] = given[0].dtype.name

    calls = [layer.call for layer in layers]
    for layer, call in zip(layers, calls):
        layer.call = entering(layer, call)
    op_callbacks.add_op_callback(note)
    try:
        yield types
    finally:
        op_callbacks.remove_op_callback(note)
        for layer, call in zip(layers, calls):
            layer.call = call


def layers_of(graph: Any) -> list[tuple[str, str]]:
    """Return the convolutions and products of a graph and of the functions that it calls, and their types."""
    nodes = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    return [(one.name, tf.dtypes.as_dtype(one.attr["T"].type).name) for one in nodes if one.op in PRODUCTS]


def _observe_convolution(name: str, layer: Any, output: Any) -> observing.ObservedConvolution:
    """Return what a convolution is and did; a padding layer before it counts as its own."""
    values, sides = output.numpy(), layer.input.shape[2:4]
    if layer.data_format == "channels_last":
        values, sides = values.transpose(0, 3, 1, 2), layer.input.shape[1:3]
    groups = values.shape[1] if isinstance(layer, keras.layers.DepthwiseConv2D) else layer.groups
    history = getattr(layer.input, "_keras_history", None)
    before = None if history is None else history.operation
    added = before.padding if isinstance(before, keras.layers.ZeroPadding2D) else ((0, 0), (0, 0))

    def zeros(output: int, stride: int, kernel: int, side: int, added: tuple[int, int]) -> tuple[int, int]:
        """Return those before and after an axis; "same" puts an odd one behind.

        The formula: https://www.tensorflow.org/api_docs/python/tf/nn#notes_on_padding_2.
        """
        total = 0 if layer.padding == "valid" else max((output - 1) * stride + kernel - side, 0)
        return total // 2 + added[0], total - total // 2 + added[1]

    kernel, stride = layer.kernel_size, layer.strides
    height, width = map(zeros, values.shape[2:], stride, kernel, sides, added)
    return observing.observe_convolution(name, kernel, stride, (height, width), groups, values)


class TensorFlowImageTraining(TensorFlowTraining, ImageTraining):
    """An image network, its loss, and the observation of its second convolution."""

    settings: ImageSettings
    forms = MappingProxyType({"native": TFRECORD})

    def find_data(self, settings: ImageSettings) -> None:
        """Find the images, and store their source for ``open_loader``."""
        # The graph's optimizer would convert a GPU's convolutions to another layout than the requested one.
        tf.config.optimizer.set_experimental_options({"layout_optimizer": False})
        self._source: Any = None
        if not settings.synthetic:
            from ..backends.tensorflow.loading import find_source

            self._source = find_source(settings)

    def open_loader(self, settings: ImageSettings, place: Place) -> Feed:
        from ..backends.tensorflow.loading import find_source, open_pipeline

        source, self._source = self._source or find_source(settings), None
        return open_pipeline(source, settings, place, self.device)

    def build(self) -> None:
        recipe = self.settings.recipe
        self._convolutions = ARCHITECTURES[self.settings.model].convolutions
        model, self.outputs = build_network(self.settings)
        # The second convolution is an output of the trained network, and dropped by the step.
        second = list(self.outputs.values())[1]
        self._observed_model = keras.Model(model.inputs, [*model.outputs, second])
        tensors = named_variables(model, self.settings.model)
        self.take_over(model, tensors, lambda name: recipe.bn_weight_decay or not is_batch_norm(name))

    def to_batch(self, images: Any, labels: Any) -> tuple[Any, Any]:
        """Copy images (batch, 3, size, size) in float32 and labels (batch,) in int64 to the device."""
        if self.settings.layout == "nhwc":
            images = images.transpose(0, 2, 3, 1)
        with tf.device(self.device.path):
            return tf.cast(tf.constant(images), self.precision.compute), tf.constant(labels, tf.int32)

    def forward(self, images: Any, labels: Any) -> tuple[Any, Any]:
        logits, second = self._observed_model(self._as_input(images), training=True)
        # In a graph while it is traced: its input has been through the stem, and it is an output of what is trained.
        self.second = (second.dtype.name, tuple(second.shape))
        # In FP32: loss scaling does not help a logarithm of FP16 sums.
        logits = tf.cast(logits, tf.float32)
        smoothing, classes = self.settings.recipe.label_smoothing, self.settings.classes
        rest = smoothing / classes
        targets = tf.one_hot(labels, classes, on_value=1.0 - smoothing + rest, off_value=rest)
        return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(targets, logits)), logits

    def observed_config(self) -> ObservedConfig:
        """Return the observation of the second convolution; in TensorFlow the layout is the order of the axes.

        A kernel's axes have one order for all layouts: height, width, inputs, outputs.
        """
        weight_dtype = self._variables[0].value.dtype.name
        unseen = ("weight_layout",)
        return observing.config_by_shapes(self.settings.model, self.second, weight_dtype, unseen=unseen)

    def observed_step(self, index: int) -> observing.ObservedLayers:
        """Do the step, and return the types of its layers: in its graph, or while they are called one by one."""
        measures = observing.measured(self.network_input(self.batch))
        if self.settings.compiler == NONE:
            names = [*(conv.name + ".conv" for conv in self._convolutions), "classifier"]
            with operand_types([self.model.get_layer(name) for name in names]) as types:
                self.step(index)
            layers = list(types.items())
        else:
            batch = self.batch
            self.step(index)
            layers = layers_of(self.graph(index, batch))
        return observing.ObservedLayers(layers, *measures)

    def own_pass(self) -> Observation:
        return Observation(self.observed_pass()[2])

    def _as_input(self, images: Any) -> Any:
        """Return the network's input: bytes, a quarter of the floats to copy, are normalised on the device."""
        if images.dtype != tf.uint8:
            return images
        mean, deviation = (tf.constant(values, tf.float32) * 255 for values in (MEAN, DEVIATION))
        images = tf.cast((tf.cast(images, tf.float32) - mean) / deviation, self.precision.compute)
        return images if self.settings.layout == "nhwc" else tf.transpose(images, (0, 3, 1, 2))

    def network_input(self, batch: Any) -> Any:
        images = tf.cast(self._as_input(batch[0]), tf.float32).numpy()
        return images.transpose(0, 3, 1, 2) if self.settings.layout == "nhwc" else images

    def observe(self) -> Observation:
        loss, logits, gradients = self.observed_pass()
        convolutions = keras.Model(self.model.inputs, list(self.outputs.values()))
        outputs = convolutions(self._as_input(self.batch[0]), training=True)
        found = [
            _observe_convolution(conv.name, self.model.get_layer(conv.name + ".conv"), output)
            for conv, output in zip(self._convolutions, outputs)
        ]
        return Observation(gradients, float(loss), logits.numpy(), found)


open_training = TensorFlowImageTraining
