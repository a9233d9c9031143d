"""What the passes of language models have in common: their parameters, and a product that is seen."""

from __future__ import annotations

from typing import Any, Callable, Dict

import jax.numpy as jnp

Params = Dict[str, Any]
Tap = Callable[[str, Any, Any], None]
"""Gets the name, the weight and the result of each product; of ``STREAM`` twice what the first block gave."""


def products(params: Params, compute: Any, tap: Tap) -> Callable[[str, Any], Any]:
    """Return the product of a name, without a bias, of (batch, length, inputs) in the compute type."""

    def product(name: str, given: Any) -> Any:
        weight = params[f"{name}.weight"]
        result = jnp.einsum("bti,oi->bto", given, weight.astype(compute))
        tap(name, weight, result)
        return result

    return product
