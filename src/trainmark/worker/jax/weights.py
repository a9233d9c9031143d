"""Functions on trees of weights."""

from __future__ import annotations

from typing import Any

import jax


def count_parameters(params: Any) -> int:
    """Return the number of trainable parameters."""
    return sum(leaf.size for leaf in jax.tree.leaves(params))
