"""Causal language modelling: predicting each next token of a sequence."""

from .task import CausalLM

__all__ = ["TASK"]

TASK = CausalLM()
