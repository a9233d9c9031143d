"""Trains in JAX, with Flax's Linen for the layers and Optax for the optimizer."""

from .failures import stopped_by

__all__ = ["stopped_by"]
