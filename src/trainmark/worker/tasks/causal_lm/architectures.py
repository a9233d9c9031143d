"""What each model is, in every framework: its layers, their names and their shapes.

The one description that all workers are held to. The number of parameters is asserted when a model is built; the rest
by the check of equal work, which loads weights by these names and compares what each layer did.

Source: GPT-2 of Radford et al., as nanoGPT's benchmark trains it (https://github.com/karpathy/nanoGPT, model.py and
bench.py): norms before each part of a block, no biases, no dropout, GELU in its exact form, the embedding of the tokens
used again as the classifier, and a vocabulary of 50 257 filled up to 50 304.
"""

from __future__ import annotations

import math
from typing import Dict, Mapping, NamedTuple, Tuple

NORM_EPSILON = 1e-5

DEVIATION = 0.02
"""Of the weights at the start; those of the two products that a block adds to its input are smaller."""


class Gpt(NamedTuple):
    """A row of equal blocks; ``heads`` share the ``width``."""

    layers: int
    heads: int
    width: int
    vocabulary: int
    positions: int

    @property
    def inner(self) -> int:
        """Return the width inside a block's perceptron."""
        return 4 * self.width

    @property
    def added_deviation(self) -> float:
        """Return the deviation of the products whose results are added up along the blocks."""
        return DEVIATION / math.sqrt(2 * self.layers)

    def products(self) -> Dict[str, Tuple[int, int]]:
        """Return (outputs, inputs) of every product with weights, by name, in forward order, less the classifier.

        The outputs of ``qkv`` are all queries, then all keys, then all values; each has its heads one after another.
        """
        shapes: Dict[str, Tuple[int, int]] = {}
        for block in range(self.layers):
            shapes[f"block{block}.attention.qkv"] = (3 * self.width, self.width)
            shapes[f"block{block}.attention.output"] = (self.width, self.width)
            shapes[f"block{block}.mlp.up"] = (self.inner, self.width)
            shapes[f"block{block}.mlp.down"] = (self.width, self.inner)
        return shapes

    def shapes(self) -> Dict[str, Tuple[int, ...]]:
        """Return the shape of every parameter by name; products are (outputs, inputs), as the classifier is."""
        shapes: Dict[str, Tuple[int, ...]] = {
            "embedding.tokens": (self.vocabulary, self.width),
            "embedding.positions": (self.positions, self.width),
        }
        for name, shape in self.products().items():
            if name.endswith(("qkv", "up")):
                shapes[f"{name.rpartition('.')[0]}.norm.weight"] = (self.width,)
            shapes[f"{name}.weight"] = shape
        return {**shapes, "norm.weight": (self.width,)}

    def parameters(self) -> int:
        """Return the number of parameters; the embedding that is the classifier too counts once."""
        return sum(math.prod(shape) for shape in self.shapes().values())

    def multiply_adds(self, length: int) -> int:
        """Return those of the forward pass of one sequence: all products, and attention as if nothing were masked."""
        weights = sum(math.prod(shape) for shape in self.products().values()) + self.vocabulary * self.width
        return length * (weights + 2 * self.layers * length * self.width)

    def operations_per_token(self, length: int) -> Dict[str, int]:
        """Return the floating-point operations of training on a token of a sequence of ``length``, by two conventions.

        ``counted``: two for each multiply-add of the forward pass, and twice as many backward. ``6N+12LHQT``: that of
        Chowdhery et al. (https://arxiv.org/abs/2204.02311, appendix B), as nanoGPT has it, with N the parameters less
        the positions, L layers, H heads of the width Q and T tokens. Both count attention as if nothing were masked.
        """
        parameters = self.parameters() - self.positions * self.width
        return {
            "counted": 6 * self.multiply_adds(length) // length,
            "6N+12LHQT": 6 * parameters + 12 * self.layers * self.width * length,
        }


def is_norm(name: str) -> bool:
    """Return whether a name of ``Gpt.shapes`` is that of a norm's weight: those do not decay."""
    return name.endswith("norm.weight")


# 124 373 760 and 139 584 parameters.
ARCHITECTURES: Mapping[str, Gpt] = {
    "gpt2_124m": Gpt(layers=12, heads=12, width=768, vocabulary=50304, positions=1024),
    "gpt2_tiny": Gpt(layers=2, heads=4, width=64, vocabulary=512, positions=128),
}
