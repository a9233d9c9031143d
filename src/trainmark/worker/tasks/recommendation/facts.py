"""What the first step of a recommender really computed with."""

from dataclasses import dataclass

from ...core import facts

DENSE_GRADIENTS = "dense"
"""A gradient of a table has all of its rows, those that no sample of the batch looked up as zeros."""

SPARSE_GRADIENTS = "sparse"
"""A gradient of a table is a list of the rows that were looked up."""


@dataclass(frozen=True)
class Seen(facts.Seen):
    """``compute_dtype`` is that of the first layer's result.

    ``vocabulary`` and ``embedding_width`` are the deep table's own; ``table_gradients`` says how its gradient reaches
    the optimizer.
    """

    vocabulary: int | None = None
    embedding_width: int | None = None
    table_gradients: str | None = None
