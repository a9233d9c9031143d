"""The models, the same in every framework: tables, layers, their names and their shapes.

The one description that all workers are held to. The number of parameters is asserted when a model is built; the rest
by the check of equal work, which loads weights by these names and compares what each layer did.

Source: Wide & Deep of Cheng et al. (https://arxiv.org/abs/1606.07792), as DLPerf measures it: OneFlow-Benchmark's
ClickThroughRate/WideDeepLearning/wdl_train_eval.py at 06ecaa199a56e03a84f2931598446f6ae16e8bd7. One table for all 26
categorical fields and one, of width 1, for two crosses of them; hidden layers with ReLU; weights drawn uniformly, those
of the tables within 0.05 of zero and those of the layers by Glorot's rule; the sum of both sides is the logit.

DLRM of Naumov et al. (https://arxiv.org/abs/1906.00091), with the layers of MLPerf's benchmark: the dense fields go
through the bottom layers to a vector as wide as a table's row, ReLU behind each of them. Of that vector and the 26 rows
that a sample looks up all pairs are multiplied (dot products, in the order 1-0, 2-0, 2-1, 3-0, ...); behind the
bottom's vector they go through the top layers. The 26 tables lie one behind the other in one array: a field's rows
follow those of the field before.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

# The fields of Criteo's click logs, and the categorical ones, from 0, that are crossed for the wide side.
DENSE, CATEGORIES, CROSSES = 13, 26, ((0, 1), (2, 3))

TABLE_LIMIT = 0.05  # of the tables' weights at the start
WIDE, DEEP, TABLES = "wide.table", "deep.table", "tables"  # those of Wide & Deep, and DLRM's 26 in one
VECTORS = CATEGORIES + 1  # what DLRM's interaction takes pairs of: the bottom's vector and 26 rows
PAIRS = VECTORS * (VECTORS - 1) // 2


@dataclass(frozen=True)
class Recommender:
    """Tables of ``vocabulary`` rows, ``embedding_width`` wide, as large as a run asks for, and further layers.

    ``tables`` are the names of what is looked up: by the categorical fields, and by their crosses.
    """

    tables: ClassVar[tuple[str, ...]]
    vocabulary: int = field(default=0, kw_only=True)
    embedding_width: int = field(default=0, kw_only=True)

    def with_tables(self, vocabulary: int, embedding_width: int) -> "Recommender":
        """Return the model with tables of this size."""
        return replace(self, vocabulary=vocabulary, embedding_width=embedding_width)

    def products(self) -> dict[str, tuple[int, int]]:
        """Return (outputs, inputs) of every product, all with biases, by name, in forward order."""
        raise NotImplementedError

    def table_shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shapes of what is looked up, by name."""
        raise NotImplementedError

    def used_rows(self, batch: Any) -> dict[str, Any]:
        """Return for each table the rows that a ``Batch`` looks up."""
        return dict(zip(self.tables, (batch.categories, batch.crossed)))

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of every parameter by name; products are (outputs, inputs)."""
        shapes = self.table_shapes()
        for name, shape in self.products().items():
            shapes[f"{name}.weight"], shapes[f"{name}.bias"] = shape, shape[:1]
        return shapes

    def parameters(self) -> int:
        """Return the number of parameters, those of the tables included."""
        return sum(map(math.prod, self.shapes().values()))

    def multiply_adds(self) -> int:
        """Return those of the forward pass of one sample: the products; a look into a table is none."""
        return sum(map(math.prod, self.products().values()))


@dataclass(frozen=True)
class WideDeep(Recommender):
    """Hidden layers of one width; the wide table is as long as the deep one."""

    tables: ClassVar[tuple[str, ...]] = (DEEP, WIDE)
    layers: int
    width: int

    def products(self) -> dict[str, tuple[int, int]]:
        inputs = [CATEGORIES * self.embedding_width + DENSE, *[self.width] * self.layers]
        outputs = [*[self.width] * self.layers, 1]
        return {f"fc{i}": pair for i, pair in enumerate(zip(outputs, inputs), start=1)}

    def table_shapes(self) -> dict[str, tuple[int, ...]]:
        return {WIDE: (self.vocabulary, 1), DEEP: (self.vocabulary, self.embedding_width)}


@dataclass(frozen=True)
class Dlrm(Recommender):
    """The widths of both rows of layers, less their last: the bottom's is a row's, the top's last one is the logit.

    The tables have ``vocabulary`` rows together.
    """

    tables: ClassVar[tuple[str, ...]] = (TABLES,)
    bottom: tuple[int, ...]
    top: tuple[int, ...]

    def products(self) -> dict[str, tuple[int, int]]:
        bottom = [DENSE, *self.bottom, self.embedding_width]
        top = [self.embedding_width + PAIRS, *self.top, 1]
        return {
            f"{name}{i}": (outputs, inputs)
            for name, widths in (("bottom", bottom), ("top", top))
            for i, inputs, outputs in zip(range(1, len(widths)), widths, widths[1:])
        }

    def table_shapes(self) -> dict[str, tuple[int, ...]]:
        return {TABLES: (self.vocabulary, self.embedding_width)}

    def multiply_adds(self) -> int:
        """Return those of the forward pass of one sample: the products, and each pair of vectors once."""
        return super().multiply_adds() + PAIRS * self.embedding_width


def pairs() -> tuple[list[int], list[int]]:
    """Return the first and the second vector of each pair; the bottom's is number 0."""
    both = [(i, j) for i in range(VECTORS) for j in range(i)]
    return [i for i, _ in both], [j for _, j in both]


# With DLPerf's 2 322 444 rows, wide_deep has 46 220 493 parameters at a width of 16, dlrm 299 641 729 at 128.
ARCHITECTURES: Mapping[str, Recommender] = {
    "wide_deep": WideDeep(layers=7, width=1024),
    "wide_deep_tiny": WideDeep(layers=3, width=64),
    "dlrm": Dlrm(bottom=(512, 256), top=(1024, 1024, 512, 256)),
    "dlrm_tiny": Dlrm(bottom=(64, 32), top=(64, 32)),
}


def glorot_limit(shape: tuple[int, ...]) -> float:
    """Return between which values, it and its negative, the weights of a product begin."""
    return math.sqrt(6 / sum(shape))
