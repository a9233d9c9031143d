"""Trains in PyTorch, 2.4 or later."""

from .failures import stopped_by
from .gradients import GRADIENTS
from .train import open_training

__all__ = ["GRADIENTS", "open_training", "stopped_by"]
