"""The models as functional Keras models; what their layers are stands in ``architectures.py``."""

from __future__ import annotations

import math
from typing import Any, Dict, NamedTuple

import keras
from keras import layers

from ...tasks.image_classification.architectures import ARCHITECTURES, Convolution
from ...tasks.image_classification.settings import ImageSettings
from ..weights import count_parameters
from .batch_norm import FusedBatchNormalization

DATA_FORMATS = {"nhwc": "channels_last", "nchw": "channels_first"}


class Network(NamedTuple):
    """``model`` maps images to logits; ``outputs`` are those of the convolutions inside it, by their names."""

    model: Any
    outputs: Dict[str, Any]


def build_network(settings: ImageSettings) -> Network:
    """Return the network in the dtype policy at hand, its weights drawn from the global seed.

    The batch is part of its shape: static shapes let XLA and the graph's optimizer decide once.
    """
    architecture = ARCHITECTURES[settings.model]
    build = _Builder(settings.model, DATA_FORMATS[settings.layout])
    sides = (settings.image_size, settings.image_size)
    shape = (*sides, 3) if settings.layout == "nhwc" else (3, *sides)
    images = keras.Input(shape, settings.batch_per_device, name="images")
    features = build.resnet(images) if settings.model == "resnet50_v1.5" else build.mobilenet(images)
    features = layers.GlobalAveragePooling2D(data_format=build.data_format, name="pool")(features)
    logits = layers.Dense(
        settings.classes, kernel_initializer=keras.initializers.RandomNormal(stddev=0.01), name="classifier"
    )(features)
    model = keras.Model(images, logits, name=settings.model.replace(".", "_"))
    built, asked = count_parameters(model), architecture.parameters(settings.classes)
    assert built == asked, f"{settings.model} has {built:,} trainable parameters instead of {asked:,}"
    assert list(build.outputs) == [conv.name for conv in architecture.convolutions]
    return Network(model, build.outputs)


class _Builder:
    """Takes the convolutions of an architecture one by one, and notes what comes out of each."""

    def __init__(self, model: str, data_format: str) -> None:
        self.data_format = data_format
        self.outputs: Dict[str, Any] = {}
        self._convolutions = {conv.name: conv for conv in ARCHITECTURES[model].convolutions}

    def resnet(self, images: Any) -> Any:
        x = self._relu(self._unit("stem", images), "stem")
        # Zeros stand for minus infinity here: what comes out of a ReLU is not negative.
        x = layers.ZeroPadding2D(1, data_format=self.data_format, name="stem.pool_pad")(x)
        x = layers.MaxPooling2D(3, 2, data_format=self.data_format, name="stem.pool")(x)
        blocks = [name[: -len(".a")] for name in self._convolutions if name.endswith(".a")]
        for block in blocks:
            y = self._relu(self._unit(block + ".a", x), block + ".a")
            y = self._relu(self._unit(block + ".b", y), block + ".b")
            y = self._unit(block + ".c", y)
            if block + ".shortcut" in self._convolutions:
                x = self._unit(block + ".shortcut", x)
            x = self._relu(layers.Add(name=block + ".sum")([y, x]), block)
        return x

    def mobilenet(self, images: Any) -> Any:
        x = images
        for name in self._convolutions:
            x = self._relu(self._unit(name, x), name)
        return x

    def _unit(self, name: str, x: Any) -> Any:
        """Return convolution and batch norm of ``x``."""
        conv = self._convolutions[name]
        padding = "valid"
        if conv.padding and conv.stride == 1:
            # Symmetric where the stride is 1, and then it needs no copy of the images.
            padding = "same"
        elif conv.padding:
            # Keras' own "same" puts the odd row and column of a strided convolution below and to the right.
            x = layers.ZeroPadding2D(conv.padding, data_format=self.data_format, name=name + ".pad")(x)
        x = self._convolution(conv, padding)(x)
        self.outputs[name] = x
        return FusedBatchNormalization(self.data_format, name=name + ".bn")(x)

    def _convolution(self, conv: Convolution, padding: str) -> Any:
        shape = {"strides": conv.stride, "padding": padding, "data_format": self.data_format}
        name = conv.name + ".conv"
        if conv.groups == 1:
            return layers.Conv2D(
                conv.outputs,
                conv.kernel,
                use_bias=False,
                kernel_initializer="he_normal",
                name=name,
                **shape,
            )
        assert conv.groups == conv.inputs == conv.outputs
        # Keras takes all channels for the fan-in of a depthwise kernel; it is the kernel's area.
        he_normal = keras.initializers.RandomNormal(stddev=math.sqrt(2 / conv.kernel**2))
        return layers.DepthwiseConv2D(
            conv.kernel, use_bias=False, depthwise_initializer=he_normal, name=name, **shape
        )

    def _relu(self, x: Any, name: str) -> Any:
        return layers.ReLU(name=name + ".relu")(x)
