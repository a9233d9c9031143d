"""The models, the same in every framework: layers, their names and their shapes.

The one description that all workers are held to. The number of parameters is asserted when a model is built; the rest
by the check of equal work, which loads weights by these names and compares what each layer did.

Sources: GPT-2 of Radford et al., as nanoGPT's benchmark trains it (https://github.com/karpathy/nanoGPT, model.py and
bench.py): norms before each part of a block, no biases, no dropout, GELU in its exact form, the embedding of the tokens
used again as the classifier, and a vocabulary of 50 257 filled up to 50 304. Llama 3.2 of Meta (the configuration of
its checkpoints of 1B and 3B; https://arxiv.org/abs/2407.21783 for the family): RMSNorm before each part, queries and
keys turned by their positions, several heads of queries to one of keys and values, SwiGLU, no biases, tied embeddings.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

# ``DEVIATION`` of the weights at the start: those of the two products that a block adds to its input are smaller.
NORM_EPSILON, DEVIATION = 1e-5, 0.02

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Transformer:
    """A row of equal blocks, each of attention and a perceptron ``inner`` wide, behind an embedding.

    ``heads`` of queries of ``head`` columns each, ``shared_heads`` of keys and values: head h of the queries attends to
    head ``h // (heads / shared_heads)`` of these.
    """

    opening: ClassVar[tuple[str, ...]] = ("mlp.up",)  # the perceptron's products that get a block's input

    layers: int
    heads: int
    width: int
    vocabulary: int
    positions: int
    shared_heads: int
    head: int
    inner: int

    @property
    def attended_width(self) -> int:
        """Return the width of all heads of queries together, which is that of attention's result."""
        return self.heads * self.head

    @property
    def shared_width(self) -> int:
        """Return the width of all keys, which is that of all values."""
        return self.shared_heads * self.head

    def embeddings(self) -> Shapes:
        """Return the shapes of the tables that are looked up, by name."""
        tables = {"tokens": self.vocabulary, "positions": self.positions}
        return {f"embedding.{name}": (rows, self.width) for name, rows in tables.items()}

    def products(self) -> dict[str, tuple[int, int]]:
        """Return (outputs, inputs) of every product with weights, by name, in forward order, less the classifier.

        The outputs of ``qkv`` are all queries, then all keys, then all values; each has its heads one after another.
        """
        block = {
            "attention.qkv": (self.attended_width + 2 * self.shared_width, self.width),
            "attention.output": (self.width, self.attended_width),
            **dict.fromkeys(self.opening, (self.inner, self.width)),
            "mlp.down": (self.width, self.inner),
        }
        return {f"block{i}.{name}": shape for i in range(self.layers) for name, shape in block.items()}

    def shapes(self) -> Shapes:
        """Return the shape of every parameter by name; products are (outputs, inputs), as the classifier is."""
        raise NotImplementedError

    def parameters(self) -> int:
        """Return the number of parameters; the embedding that is the classifier too counts once."""
        return sum(math.prod(shape) for shape in self.shapes().values())


@dataclass(frozen=True)
class Decoder(Transformer):
    """A transformer with norms before each part of a block, no biases, and the embedding as the classifier."""

    @property
    def added_deviation(self) -> float:
        """Return the deviation of the products whose results are added up along the blocks."""
        return DEVIATION / math.sqrt(2 * self.layers)

    def shapes(self) -> Shapes:
        shapes = self.embeddings()
        for name, shape in self.products().items():
            # Before the first product of each part of a block.
            shapes.setdefault(f"{name.rpartition('.')[0]}.norm.weight", (self.width,))
            shapes[f"{name}.weight"] = shape
        return {**shapes, "norm.weight": (self.width,)}

    def operations(self, tokens: int, pairs: int) -> dict[str, int]:
        """Return the floating-point operations of training on ``tokens``, by two conventions.

        ``pairs``: of a token and one of its sequence (or document), as if nothing in it were masked; T for each token
        of a sequence of T tokens. ``counted``: two for each multiply-add of the forward pass, and twice as many
        backward; heads that share keys and values have as many as if each had its own. ``6N+12LHQT``: that of Chowdhery
        et al. (https://arxiv.org/abs/2204.02311, appendix B), as nanoGPT has it, with N the parameters less the
        positions, L layers and H heads of queries of the width Q.
        """
        positions = math.prod(self.embeddings().get("embedding.positions", (0,)))
        attention = 12 * self.layers * self.attended_width * pairs
        weights = sum(math.prod(shape) for shape in self.products().values()) + self.vocabulary * self.width
        return {
            "counted": 6 * weights * tokens + attention,
            "6N+12LHQT": 6 * (self.parameters() - positions) * tokens + attention,
        }


@dataclass(frozen=True)
class Gpt(Decoder):
    """GPT-2, with layer norms and a table of positions."""


def sizes(layers: int, heads: int, width: int, vocabulary: int, positions: int) -> dict[str, int]:
    """Return the fields of a model whose heads divide its width and share nothing, with a perceptron of four widths."""
    own = {"layers": layers, "heads": heads, "width": width, "vocabulary": vocabulary, "positions": positions}
    return {**own, "shared_heads": heads, "head": width // heads, "inner": 4 * width}


@dataclass(frozen=True)
class Rotation:
    """By which angles queries and keys are turned: position p turns pair i by ``p * base ** (-i / pairs)``.

    Waves that are longer than ``positions / slow`` are ``factor`` times longer, those shorter than ``positions / fast``
    stay, and between them frequencies go over evenly: that of Llama 3.1 and later.
    """

    base: float
    factor: float
    slow: float
    fast: float
    positions: int

    def frequencies(self, pairs: int) -> tuple[float, ...]:
        """Return the angle by which one position turns each pair, in radians."""
        found = []
        for pair in range(pairs):
            frequency = self.base ** (-pair / pairs)
            waves = self.positions * frequency / (2 * math.pi)
            retained = min(max((waves - self.slow) / (self.fast - self.slow), 0.0), 1.0)
            found.append(frequency * (retained + (1 - retained) / self.factor))
        return tuple(found)


@dataclass(frozen=True)
class Llama(Decoder):
    """Llama 3, with RMSNorm and SwiGLU; no table of positions, but a ``rotation`` of queries and keys.

    A pair that is turned is column i of a head and column ``i + head / 2``, as in the published checkpoints of
    transformers.
    """

    opening: ClassVar[tuple[str, ...]] = ("mlp.gate", "mlp.up")

    rotation: Rotation

    def embeddings(self) -> Shapes:
        return {"embedding.tokens": (self.vocabulary, self.width)}


def shared_name(name: str) -> str:
    """Return the shared name of a module or parameter: ``blocks.3.mlp.up`` is ``block3.mlp.up``."""
    first, _, rest = name.partition(".")
    if first == "blocks" and rest:
        return f"block{rest}"
    return f"embedding.{first}" if first in ("tokens", "positions", "segments") else name


def is_norm(name: str) -> bool:
    """Return whether a name of ``Decoder.shapes`` is that of a norm's weight: those do not decay."""
    return name.endswith("norm.weight")


LLAMA_3_2_1B = Llama(
    layers=16, heads=32, width=2048, vocabulary=128256, positions=131072, shared_heads=8, head=64, inner=8192,
    rotation=Rotation(base=500000.0, factor=32.0, slow=1.0, fast=4.0, positions=8192),
)  # fmt: skip

# Its rotation is as short as it is, so that all three ranges of its waves are there.
LLAMA_TINY = Llama(
    layers=2, heads=4, width=64, vocabulary=512, positions=128, shared_heads=2, head=16, inner=176,
    rotation=Rotation(base=10000.0, factor=32.0, slow=1.0, fast=4.0, positions=128),
)  # fmt: skip

# 124 373 760, 139 584, 1 235 814 400, 3 212 749 824 and 125 248 parameters; the reduced forms have 2 360 576, 8 653 312
# and 3 147 008.
ARCHITECTURES: Mapping[str, Decoder] = {
    "gpt2_124m": Gpt(**sizes(layers=12, heads=12, width=768, vocabulary=50304, positions=1024)),
    "gpt2_tiny": Gpt(**sizes(layers=2, heads=4, width=64, vocabulary=512, positions=128)),
    "llama3.2_1b": LLAMA_3_2_1B,
    "llama3.2_3b": replace(LLAMA_3_2_1B, layers=28, heads=24, width=3072, head=128),
    "llama_tiny": LLAMA_TINY,
    # What the check of equal work trains in place of a model of that name: the same layers, fewer and smaller.
    "gpt2_124m-reduced": Gpt(**sizes(layers=2, heads=4, width=256, vocabulary=2048, positions=1024)),
    "llama3.2_1b-reduced": replace(
        LLAMA_3_2_1B, layers=2, heads=8, width=512, vocabulary=2048, shared_heads=2, inner=2048
    ),
    "llama3.2_3b-reduced": replace(
        LLAMA_3_2_1B, layers=2, heads=6, width=256, vocabulary=2048, shared_heads=2, head=128, inner=1024
    ),
}
