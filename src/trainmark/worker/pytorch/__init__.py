"""Trains in PyTorch, 2.4 or later."""

from .failures import stopped_by

__all__ = ["stopped_by"]
