"""Runs pieces of Python beside TensorFlow, alone and as two ranks."""

from typing import Any

from worker_process import answer_of, beside, rank_variables, start_beside

from trainmark.placement import free_ports

TENSORFLOW = "tensorflow"

LOADED = """
import numpy as np, tensorflow as tf
FLAGS.append("--layout=nhwc")
"""


def in_tensorflow(code: str, *words: str) -> Any:
    """Run a piece of Python; return the JSON that it prints last."""
    return beside(TENSORFLOW, LOADED + code, *words)


def in_tensorflow_together(code: str, *words: str) -> list[Any]:
    """Run a piece of Python as each of two ranks; return the JSON that each prints last."""
    port = free_ports(8)
    variables = [rank_variables(rank, 2, port) for rank in range(2)]
    ranks = [start_beside(TENSORFLOW, LOADED + code, *words, variables=own) for own in variables]
    return [answer_of(rank) for rank in ranks]
