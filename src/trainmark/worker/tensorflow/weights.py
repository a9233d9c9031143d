"""Weights in and out of Keras variables that are told by name."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Tuple

import numpy as np


class NamedVariable(NamedTuple):
    """A Keras variable, and the order of its axes in the form that the frameworks exchange."""

    variable: Any
    order: Tuple[int, ...]

    def to_exchange(self, array: Any) -> Any:
        """Return an array of the variable's shape in the exchanged form, float32."""
        return np.ascontiguousarray(array.transpose(self.order), np.float32)

    def read(self) -> Any:
        """Return a copy of the variable in the exchanged form."""
        return self.to_exchange(self.variable.numpy()).copy()

    def load(self, array: Any) -> None:
        """Take over values in the exchanged form."""
        self.variable.assign(np.transpose(array, np.argsort(self.order)))


def count_parameters(model: Any) -> int:
    """Return the number of trainable parameters."""
    return sum(math.prod(variable.shape) for variable in model.trainable_variables)
