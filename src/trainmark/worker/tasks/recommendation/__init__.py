"""Recommendation: whether somebody clicks, from dense and categorical fields."""

from .task import Recommendation

__all__ = ["TASK"]

TASK = Recommendation()
