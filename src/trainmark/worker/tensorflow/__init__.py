"""Trains in TensorFlow, 2.16 or later, with Keras 3."""

import os

# Before the first import: information and warnings of the C++ side (instruction sets, a GPU that is not there) stay
# out of the log, errors do not; and Keras must not follow a configuration file to another backend.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"

from .failures import stopped_by

__all__ = ["stopped_by"]
