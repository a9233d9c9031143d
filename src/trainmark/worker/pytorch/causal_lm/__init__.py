"""Trains language models."""

from .decoder_training import open_training

__all__ = ["open_training"]
