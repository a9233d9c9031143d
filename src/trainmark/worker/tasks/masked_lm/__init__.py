"""Masked language modelling: words that were hidden, and whether one sentence follows the other."""

from .task import MaskedLM

__all__ = ["TASK"]

TASK = MaskedLM()
