"""Verification of stored types: whether what is stored in FP32 has the digits of FP32.

A value that is stored in BF16 or FP16 has at most 11 significant bits, and reads as a number of FP32 whose last 13
bits are zero. A sum or a product in FP32 ends in 13 zeros with a chance of 2**-13; that all of the compared elements
of an array do so is no coincidence. Neither the framework's name of the type nor a tolerance takes part.
"""

from collections.abc import Mapping
from typing import Any

from .optimizers import Moments
from .settings import Settings
from .training import Training

LAST_BITS = 13
"""The bits of FP32's 24 that neither BF16 (8) nor FP16 (11) has."""

LEAST = 16
"""The fewest elements of an array that are compared: for FP32 the chance of a doubt is 2**-208."""

MOST = 4096
"""The most elements of an array that are compared."""

TINY = 2.0**-100
"""Smaller numbers are not compared: near the smallest one of FP32 they have fewer digits."""

Doubts = list[tuple[str, str]]


def check_digits(
    training: Training,
    settings: Settings,
    weights: tuple[Mapping[str, Any], Mapping[str, Any]],
    moments: Moments | None,
    alone: Any,
) -> tuple[dict[str, Any], Doubts]:
    """Return the arrays that have the digits of 16 bits where FP32 was requested, for the events, and a doubt.

    ``weights`` are before and after a step, in which some elements moved; ``alone`` has the gradients of this rank's
    own pass, which may have 16 bits if the products have.
    """
    if not training.keeps_fp32_weights():
        return {"narrow": None}, []
    before, after = weights
    moved = {name: _moved(before[name], values) for name, values in after.items()}
    arrays = {"weights": {name: moved[name] for name in moved if training.task.is_trainable(name)}}
    if moments is not None and _have_digits(settings.recipe):
        arrays["first moment"] = dict(moments.first)
        arrays["second moment"] = dict(moments.second)
    expected = training.expected()
    if alone is not None and expected.compute_dtype == "float32" and not expected.tf32:
        arrays["gradient"] = dict(alone.gradients)
    narrow = [
        f"{kind} of {name}"
        for kind, named in arrays.items()
        for name, values in named.items()
        if _is_narrow(values)
    ]
    if not narrow:
        return {"narrow": []}, []
    more = f" and {len(narrow) - 1} more arrays" if len(narrow) > 1 else ""
    sentence = f"All elements of the {narrow[0]}{more} fit in 16 bits, but FP32 was requested."
    return {"narrow": narrow[:10]}, [("stored-in-16-bits", sentence)]


def _moved(before: Any, after: Any) -> Any:
    """Return elements that a step changed: of evenly drawn ones, or of all if few of these moved."""
    import numpy as np

    one, other = np.ravel(before), np.ravel(after)
    for stride in dict.fromkeys((max(1, one.size // (8 * MOST)), 1)):
        changed = other[::stride][one[::stride] != other[::stride]]
        if len(changed) >= MOST:
            break
    return changed


def _is_narrow(array: Any) -> bool:
    import numpy as np

    values = np.ravel(np.asarray(array, np.float32))
    for stride in dict.fromkeys((max(1, values.size // (8 * MOST)), 1)):
        drawn = values[::stride]
        drawn = drawn[np.isfinite(drawn) & (np.abs(drawn) > TINY)]
        # Equal elements are one observation: a bias whose elements are all alike.
        distinct = np.unique(drawn[:: max(1, len(drawn) // MOST)])
        if len(distinct) >= LEAST:
            break
    if len(distinct) < LEAST:
        return False
    return not bool((distinct.view(np.uint32) & np.uint32(2**LAST_BITS - 1)).any())


def _have_digits(recipe: Any) -> bool:
    """Return whether products with the betas have more digits than the other number: not with 0.5 or 0.875."""
    import numpy as np

    betas = np.array([recipe.momentum, recipe.second_momentum], np.float32)
    return bool((betas.view(np.uint32) & np.uint32(2**LAST_BITS - 1)).all())
