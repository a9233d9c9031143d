"""Trains image networks."""

from .train import open_training

__all__ = ["open_training"]
