"""Trains image networks."""

from .failures import stopped_by
from .train import open_training

__all__ = ["open_training", "stopped_by"]
