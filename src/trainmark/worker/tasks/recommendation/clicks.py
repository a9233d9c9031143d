"""Clicks in the shape of Criteo's logs, in numpy: how many categories a field has, and the rows that they look up."""

from typing import Any, NamedTuple

from .architectures import CATEGORIES, CROSSES, DENSE

# The categories of the 26 fields as DLPerf's scripts have them ("deep_column_size_array" of train_one_embedding.sh).
PUBLISHED_SIZES = (
    1460, 558, 335378, 211710, 305, 20, 12136, 633, 3, 51298, 5302, 332600, 3179, 27, 12191, 301211, 10, 4841, 2086, 4,
    324273, 17, 15, 79734, 96, 58622,
)  # fmt: skip

CLICKED = 0.25
"""The share of clicks in Criteo's log, about."""


class Batch(NamedTuple):
    """A batch of samples: ``labels`` (batch,) float32 are 1 for a click.

    ``dense`` is (batch, 13) float32; ``categories`` (batch, 26) and ``crossed`` (batch, 2) are int64 rows of tables.
    """

    dense: Any
    categories: Any
    crossed: Any
    labels: Any


def column_sizes(vocabulary: int) -> list[int]:
    """Return how many of a vocabulary's rows each field has: one, and its published share of the rest."""
    rest, total = vocabulary - CATEGORIES, sum(PUBLISHED_SIZES) - CATEGORIES
    sizes = [1 + rest * (size - 1) // total for size in PUBLISHED_SIZES]
    sizes[sizes.index(max(sizes))] += vocabulary - sum(sizes)
    return sizes


def offsets(sizes: Any) -> Any:
    """Return the first row of each field: they lie one behind the other in the one table."""
    import numpy as np

    return np.cumsum([0, *sizes[:-1]], dtype=np.int64)


def crossed(categories: Any, vocabulary: int) -> Any:
    """Return the rows of the wide table: pairs of categories (batch, 26), hashed into its vocabulary."""
    import numpy as np

    pairs = [(categories[:, one] * 1_000_003 + categories[:, other]) % vocabulary for one, other in CROSSES]
    return np.stack(pairs, axis=1)


def drawn(random: Any, count: int, sizes: Any) -> Any:
    """Return categories (count, 26) of numpy's ``random``, each from 0 in its own field: few are frequent (Zipf)."""
    import numpy as np

    sizes = np.asarray(sizes, np.float64)
    # With u uniform, size ** u falls as 1 / rank does.
    ranks = np.floor((sizes + 1) ** random.random((count, CATEGORIES))) - 1
    return np.minimum(ranks, sizes - 1).astype(np.int64)


def mirrored(batch: Batch, vocabulary: int) -> Batch:
    """Return the batch with each field's categories in the reverse order: mostly other rows are looked up."""
    import numpy as np

    sizes = np.asarray(column_sizes(vocabulary))
    categories = 2 * offsets(sizes) + sizes - 1 - batch.categories
    return batch._replace(categories=categories, crossed=crossed(categories, vocabulary))


def made_up(random: Any, count: int, vocabulary: int) -> Batch:
    """Return a batch of made-up clicks."""
    import numpy as np

    sizes = column_sizes(vocabulary)
    dense = random.random((count, DENSE), np.float32)
    categories = drawn(random, count, sizes) + offsets(sizes)
    labels = (random.random(count) < CLICKED).astype(np.float32)
    return Batch(dense, categories, crossed(categories, vocabulary), labels)
