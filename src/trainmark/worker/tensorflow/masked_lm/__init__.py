"""Trains by masked language modelling."""

from .train import open_training

__all__ = ["open_training"]
