"""What the first step of a language model really computed with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from ...core import facts


@dataclass(frozen=True)
class Seen(facts.Seen):
    """``compute_dtype`` and ``sequence_length`` are of the first block's first product.

    ``accumulation`` counts the parts that were passed, and ``batch_per_device`` is their sequences together.
    """

    sequence_length: Optional[int] = None
    accumulation: Optional[int] = None
