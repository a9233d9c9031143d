"""The models, the same in every framework: layers, their names and their shapes.

Source: BERT of Devlin et al. (https://arxiv.org/abs/1810.04805) with both heads of its pre-training, as the authors'
program has it (https://github.com/google-research/bert, modeling.py and run_pretraining.py): norms behind each part of
a block, biases everywhere, GELU in its exact form, the embedding of the tokens used again in the classifier of words.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from ..causal_lm.architectures import Shapes, Transformer, sizes

NORM_EPSILON, DEVIATION, SEGMENTS = 1e-12, 0.02, 2  # ``DEVIATION`` is that of the weights at the start


@dataclass(frozen=True)
class Bert(Transformer):
    """BERT with the heads of its pre-training; the last of the words' products is no weight of its own."""

    def embeddings(self) -> Shapes:
        return {**super().embeddings(), "embedding.segments": (SEGMENTS, self.width)}

    def products(self) -> dict[str, tuple[int, int]]:
        square = (self.width, self.width)
        heads = {"words.transform": square, "pooler": square, "sentences": (2, self.width)}
        return {**super().products(), **heads}

    def shapes(self) -> Shapes:
        shapes = self.embeddings()
        for name, shape in self.products().items():
            shapes[f"{name}.weight"], shapes[f"{name}.bias"] = shape, shape[:1]
        blocks = [f"block{number}.{part}" for number in range(self.layers) for part in ("attention", "mlp")]
        for name in ("embedding", *blocks, "words"):
            shapes[f"{name}.norm.weight"] = shapes[f"{name}.norm.bias"] = (self.width,)
        return {**shapes, "words.bias": (self.vocabulary,)}

    def multiply_adds(self, length: int, predictions: int) -> int:
        """Return those of the forward pass of one sequence, of which ``predictions`` words are classified."""
        weights = {name: math.prod(shape) for name, shape in self.products().items()}
        words = predictions * (weights.pop("words.transform") + self.vocabulary * self.width)
        sentence = weights.pop("pooler") + weights.pop("sentences")
        return length * (sum(weights.values()) + 2 * self.layers * length * self.width) + words + sentence

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
    "bert_base": Bert(**sizes(layers=12, heads=12, width=768, vocabulary=30522, positions=512)),
    "bert_tiny": Bert(**sizes(layers=2, heads=4, width=64, vocabulary=512, positions=128)),
    # What the check of equal work trains in place of ``bert_base``: the same layers, fewer and smaller.
    "bert_base-reduced": Bert(**sizes(layers=2, heads=6, width=384, vocabulary=2048, positions=512)),
}
