"""What the first step of masked language modelling really computed with."""

from dataclasses import dataclass

from ..causal_lm import facts


@dataclass(frozen=True)
class Seen(facts.Seen):
    """``predictions`` are the words of a sequence that were classified."""

    predictions: int | None = None
