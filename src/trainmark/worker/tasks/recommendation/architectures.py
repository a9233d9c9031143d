"""What each model is, in every framework: its tables, its layers, their names and their shapes.

The one description that all workers are held to. The number of parameters is asserted when a model is built; the rest
by the check of equal work, which loads weights by these names and compares what each layer did.

Source: Wide & Deep of Cheng et al. (https://arxiv.org/abs/1606.07792), as DLPerf measures it: OneFlow-Benchmark's
ClickThroughRate/WideDeepLearning/wdl_train_eval.py at 06ecaa199a56e03a84f2931598446f6ae16e8bd7. One table for all 26
categorical fields and one, of width 1, for two crosses of them; hidden layers with ReLU; weights drawn uniformly, those
of the tables within 0.05 of zero and those of the layers by Glorot's rule; the sum of both sides is the logit.
"""

from __future__ import annotations

import math
from typing import Dict, Mapping, NamedTuple, Tuple

DENSE, CATEGORIES = 13, 26
"""The fields of Criteo's click logs."""

CROSSES = ((0, 1), (2, 3))
"""The categorical fields, from 0, that are crossed for the wide side."""

TABLE_LIMIT = 0.05
"""Of the tables' weights at the start."""

WIDE, DEEP = "wide.table", "deep.table"


class WideDeep(NamedTuple):
    """Both tables have ``vocabulary`` rows; those of the deep one are ``embedding_width`` wide."""

    vocabulary: int
    embedding_width: int
    layers: int
    width: int

    def products(self) -> Dict[str, Tuple[int, int]]:
        """Return (outputs, inputs) of every product, all with biases, by name, in forward order."""
        inputs = [CATEGORIES * self.embedding_width + DENSE, *[self.width] * self.layers]
        outputs = [*[self.width] * self.layers, 1]
        return {f"fc{i}": pair for i, pair in enumerate(zip(outputs, inputs), start=1)}

    def shapes(self) -> Dict[str, Tuple[int, ...]]:
        """Return the shape of every parameter by name; products are (outputs, inputs)."""
        shapes: Dict[str, Tuple[int, ...]] = {
            WIDE: (self.vocabulary, 1),
            DEEP: (self.vocabulary, self.embedding_width),
        }
        for name, shape in self.products().items():
            shapes[f"{name}.weight"], shapes[f"{name}.bias"] = shape, shape[:1]
        return shapes

    def parameters(self) -> int:
        """Return the number of parameters, those of the tables included."""
        return sum(math.prod(shape) for shape in self.shapes().values())

    def multiply_adds(self) -> int:
        """Return those of the forward pass of one sample: the products; a look into a table is none."""
        return sum(math.prod(shape) for shape in self.products().values())


class Tower(NamedTuple):
    """The hidden layers of a model; its tables are as large as a run asks for."""

    layers: int
    width: int

    def with_tables(self, vocabulary: int, embedding_width: int) -> WideDeep:
        """Return the whole model."""
        return WideDeep(vocabulary, embedding_width, *self)


# With DLPerf's 2 322 444 rows of 16: 46 220 493 and 39 517 453 parameters.
ARCHITECTURES: Mapping[str, Tower] = {
    "wide_deep": Tower(layers=7, width=1024),
    "wide_deep_tiny": Tower(layers=3, width=64),
}


def glorot_limit(shape: Tuple[int, ...]) -> float:
    """Return between which values, it and its negative, the weights of a product begin."""
    return math.sqrt(6 / sum(shape))
