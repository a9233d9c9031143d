"""What the first step of a language model really computed with."""

from dataclasses import dataclass

from ...core import facts

STREAM = "residual_dtype"
"""Among what was seen: the type in which a block's result is handed to the next one, and added to.

No precision that is asked for decides it: autocast adds in FP32, other frameworks in the type of the products. It is
told and held against nothing.
"""


@dataclass(frozen=True)
class Seen(facts.Seen):
    """``compute_dtype`` and ``sequence_length`` are of the first block's first product.

    ``accumulation`` counts the parts that were passed, and ``batch_per_device`` is their sequences together.
    """

    sequence_length: int | None = None
    accumulation: int | None = None
