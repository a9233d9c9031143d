"""Classifying images by convolutional networks."""

from .task import ImageClassification

__all__ = ["TASK"]

TASK = ImageClassification()
