"""What the tasks on text have in common: sequences of tokens, batches in parts, and an optimizer of Adam's family."""

import argparse
from dataclasses import dataclass
from typing import Any

from ..core.flags import count, norm, positive
from ..core.settings import AdamRecipe, Settings


@dataclass(frozen=True)
class LanguageSettings(Settings):
    """``sequence_length``: tokens of a sample that are passed; ``accumulation``: parts of a batch, passed in turn.

    The batch of a rank is ``accumulation`` equal parts, each passed forward and backward by itself; the weights move
    once, by the mean of all.
    """

    sequence_length: int
    accumulation: int
    recipe: AdamRecipe

    @property
    def part(self) -> int:
        """Return the sequences that are passed at once."""
        return self.batch_per_device // self.accumulation


def add_language_flags(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the flags that both tasks have, and return their group; a task sets its own defaults."""
    text = parser.add_argument_group("text")
    text.add_argument("--sequence-length", type=positive, metavar="N", help="tokens of a sample")
    text.add_argument(
        "--accumulation", type=positive, default=1, metavar="N",
        help="parts of a batch, passed one after another before the weights move",
    )  # fmt: skip
    text.add_argument("--second-momentum", type=float, help="of the optimizer (beta 2)")
    text.add_argument("--epsilon", type=float, help="of the optimizer")
    text.add_argument(
        "--clip-norm", type=norm, metavar="LENGTH",
        help="of all gradients together, made so long where they are longer; 0: as they are",
    )  # fmt: skip
    text.add_argument(
        "--warmup-updates", type=count, metavar="N",
        help="steps over which the rate rises from 0, regardless of the warm-up epochs",
    )  # fmt: skip
    text.add_argument(
        "--epoch-sequences", type=positive, metavar="N", dest="epoch_samples",
        help="length of an epoch of synthetic data",
    )  # fmt: skip
    return text


OF_ADAM = ("second_momentum", "epsilon", "clip_norm", "warmup_updates")
"""What a recipe of Adam's family has beside one of SGD's."""


def recipe_of(given: argparse.Namespace) -> dict[str, Any]:
    """Return what those flags say of the optimizer, by the fields of an ``AdamRecipe``."""
    return {name: getattr(given, name) for name in OF_ADAM}


def recipe_told(recipe: AdamRecipe) -> dict[str, Any]:
    """Return what only an adaptive optimizer has, for the events."""
    return {name: getattr(recipe, name) for name in OF_ADAM}
