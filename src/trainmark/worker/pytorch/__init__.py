"""Trains in PyTorch, 2.4 or later."""

from .failures import stopped_by
from .gradients import GRADIENTS

__all__ = ["GRADIENTS", "stopped_by"]
