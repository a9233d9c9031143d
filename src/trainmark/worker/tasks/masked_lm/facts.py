"""What the first step of masked language modelling really computed with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from ..causal_lm import facts


@dataclass(frozen=True)
class Seen(facts.Seen):
    """``predictions`` are the words of a sequence that were classified."""

    predictions: Optional[int] = None
