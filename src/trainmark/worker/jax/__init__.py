"""Trains in JAX, with Flax's Linen for the layers and Optax for the optimizer."""

from .failures import stopped_by
from .train import open_training

__all__ = ["open_training", "stopped_by"]
