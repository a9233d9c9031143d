"""The models, the same in every framework: layers, their names and their shapes.

Source: BERT of Devlin et al. (https://arxiv.org/abs/1810.04805) with both heads of its pre-training, as the authors'
program has it (https://github.com/google-research/bert, modeling.py and run_pretraining.py): norms behind each part of
a block, biases everywhere, GELU in its exact form, the embedding of the tokens used again in the classifier of words.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

NORM_EPSILON, DEVIATION, SEGMENTS = 1e-12, 0.02, 2
"""``DEVIATION`` is that of the weights at the start."""


class Bert(NamedTuple):
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

    def products(self) -> dict[str, tuple[int, int]]:
        """Return (outputs, inputs) of each product with weights, by name, in forward order, less the last of the words.

        The outputs of ``qkv`` are all queries, then all keys, then all values; each has its heads one after another.
        """
        shapes: dict[str, tuple[int, int]] = {}
        for block in range(self.layers):
            shapes[f"block{block}.attention.qkv"] = (3 * self.width, self.width)
            shapes[f"block{block}.attention.output"] = (self.width, self.width)
            shapes[f"block{block}.mlp.up"] = (self.inner, self.width)
            shapes[f"block{block}.mlp.down"] = (self.width, self.inner)
        shapes["words.transform"] = (self.width, self.width)
        shapes["pooler"] = (self.width, self.width)
        shapes["sentences"] = (2, self.width)
        return shapes

    def norms(self) -> tuple[str, ...]:
        """Return the names of the norms."""
        blocks = [
            f"block{block}.{part}.norm" for block in range(self.layers) for part in ("attention", "mlp")
        ]
        return ("embedding.norm", *blocks, "words.norm")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of every parameter by name; products are (outputs, inputs), as the words' classifier is."""
        shapes: dict[str, tuple[int, ...]] = {
            "embedding.tokens": (self.vocabulary, self.width),
            "embedding.positions": (self.positions, self.width),
            "embedding.segments": (SEGMENTS, self.width),
        }
        for name, shape in self.products().items():
            shapes[f"{name}.weight"], shapes[f"{name}.bias"] = shape, shape[:1]
        for name in self.norms():
            shapes[f"{name}.weight"] = shapes[f"{name}.bias"] = (self.width,)
        return {**shapes, "words.bias": (self.vocabulary,)}

    def parameters(self) -> int:
        """Return the number of parameters; the embedding that is the words' classifier too counts once."""
        return sum(math.prod(shape) for shape in self.shapes().values())

    def multiply_adds(self, length: int, predictions: int) -> int:
        """Return those of the forward pass of one sequence, of which ``predictions`` words are classified."""
        products = self.products()
        within = sum(math.prod(shape) for name, shape in products.items() if name.startswith("block"))
        words = predictions * (math.prod(products["words.transform"]) + self.vocabulary * self.width)
        sentence = math.prod(products["pooler"]) + math.prod(products["sentences"])
        return length * (within + 2 * self.layers * length * self.width) + words + sentence

    def operations(self, length: int, predictions: int) -> dict[str, int]:
        """Return the floating-point operations of training on a sequence of ``length``, by two conventions.

        ``counted``: two for each multiply-add of the forward pass, and twice as many backward; words that are not
        hidden are not classified. ``6N+12LHQT``: that of Chowdhery et al. (https://arxiv.org/abs/2204.02311, appendix
        B), with N all parameters less positions and segments, as if every word were classified. Both count padding.
        """
        parameters = self.parameters() - (self.positions + SEGMENTS) * self.width
        return {
            "counted": 6 * self.multiply_adds(length, predictions),
            "6N+12LHQT": length * (6 * parameters + 12 * self.layers * self.width * length),
        }


# 110 106 428, 150 274 and, of the reduced form, 4 832 770 parameters.
ARCHITECTURES: Mapping[str, Bert] = {
    "bert_base": Bert(layers=12, heads=12, width=768, vocabulary=30522, positions=512),
    "bert_tiny": Bert(layers=2, heads=4, width=64, vocabulary=512, positions=128),
    # What the check of equal work trains in place of ``bert_base``: the same layers, fewer and smaller.
    "bert_base-reduced": Bert(layers=2, heads=6, width=384, vocabulary=2048, positions=512),
}
