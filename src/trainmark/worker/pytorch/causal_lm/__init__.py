"""Trains language models."""

from .train import open_training

__all__ = ["open_training"]
