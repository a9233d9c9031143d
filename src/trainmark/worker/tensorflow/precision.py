"""The ``precision`` axis in TensorFlow: Keras' dtype policies, TF32, and what a device cannot do."""

from __future__ import annotations

from typing import Dict, NamedTuple

import keras
import tensorflow as tf

from ..core.choices import one_of
from ..core.outcomes import UNSUPPORTED, RunError
from .device import Device


class Precision(NamedTuple):
    """A Keras dtype policy: ``compute`` is the type of its layers' outputs; the weights are always in FP32.

    ``tf32`` lets FP32 matrix products and convolutions of a GPU round their inputs to TF32. ``scaled`` says that the
    loss is scaled so that gradients do not vanish in FP16.
    """

    policy: str
    compute: str
    tf32: bool = False
    scaled: bool = False


PRECISIONS: Dict[str, Precision] = {
    "fp32": Precision("float32", "float32"),
    "tf32": Precision("float32", "float32", tf32=True),
    "amp-fp16": Precision("mixed_float16", "float16", scaled=True),
    "amp-bf16": Precision("mixed_bfloat16", "bfloat16"),
}


def choose_precision(name: str, device: Device) -> Precision:
    """Return the precision, made Keras' and TensorFlow's default; raise ``RunError`` if it cannot be had here."""
    one_of("TensorFlow", "precision", name, PRECISIONS)
    precision = PRECISIONS[name]
    if device.gpu is not None and (precision.tf32 or precision.compute == "bfloat16"):
        capability = tf.config.experimental.get_device_details(device.gpu).get("compute_capability", (0, 0))
        if capability < (8, 0):
            have = ".".join(map(str, capability))
            raise RunError(UNSUPPORTED, f"{name} needs compute capability 8.0 or later; this GPU has {have}")
    tf.config.experimental.enable_tensor_float_32_execution(precision.tf32)
    keras.config.set_dtype_policy(precision.policy)
    return precision
