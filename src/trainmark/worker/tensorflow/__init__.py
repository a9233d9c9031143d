"""Trains in TensorFlow, 2.16 or later, with Keras 3."""

import os
import sys

# Before the first import: information and warnings of the C++ side (instruction sets, a GPU that is not there) stay
# out of the log, errors do not; and Keras must not follow a configuration file to another backend.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"
# Nothing is left on a host: Keras writes a configuration into a home that has none, and Python the bytecode of each
# function that tf.function has rewritten beside the temporary file in /tmp.
os.environ["KERAS_HOME"] = "/dev/null/keras"
sys.dont_write_bytecode = True

from .failures import stopped_by  # noqa: E402 - after what must come first

__all__ = ["stopped_by"]
