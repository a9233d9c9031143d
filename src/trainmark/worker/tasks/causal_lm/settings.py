"""What a run on text has beside what every run has: the flags, and the recipes of GPT-2 and of Llama."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Mapping

from ...core.flags import count, norm, positive
from ...core.settings import ADAMW, AdamRecipe, Settings

EPOCH_SEQUENCES = 8_823_000
"""An epoch of made-up data is as long as OpenWebText's nine billion tokens in sequences of 1024."""

LLAMA_RECIPE: Mapping[str, float] = {
    "learning_rate": 3e-4,
    "weight_decay": 0.1,
    "clip_norm": 1.0,
    "warmup_updates": 200,
}
"""Where it is another than GPT-2's: that of torchtitan's configurations of Llama 3 (``llama3_8b.toml``)."""


@dataclass(frozen=True)
class LanguageSettings(Settings):
    """``sequence_length``: tokens that are predicted of a sample; ``accumulation``: parts of a batch, passed in turn.

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


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags, and make the recipe that of nanoGPT's bench.py."""
    text = parser.add_argument_group("text")
    text.add_argument(
        "--sequence-length", type=positive, default=1024, metavar="N", help="tokens that a sample predicts"
    )
    text.add_argument(
        "--accumulation", type=positive, default=1, metavar="N",
        help="parts of a batch, passed one after another before the weights move",
    )  # fmt: skip
    text.add_argument("--second-momentum", type=float, default=0.95, help="of AdamW (beta 2)")
    text.add_argument("--epsilon", type=float, default=1e-8, help="of AdamW")
    text.add_argument(
        "--clip-norm", type=norm, default=None, metavar="LENGTH",
        help="of all gradients together, made so long where they are longer; 0: as they are",
    )  # fmt: skip
    text.add_argument(
        "--warmup-updates", type=count, default=0, metavar="N",
        help="steps over which the rate rises from 0, whatever the warm-up epochs",
    )  # fmt: skip
    text.add_argument(
        "--epoch-sequences", type=positive, default=EPOCH_SEQUENCES, metavar="N", dest="epoch_samples",
        help="length of an epoch of synthetic data",
    )  # fmt: skip
    parser.set_defaults(momentum=0.9, weight_decay=0.01, schedule="constant", epochs=1, warmup_epochs=0)


def language_settings(given: argparse.Namespace, common: Settings) -> LanguageSettings:
    """Return the settings with those of the flags of ``add_flags``."""
    recipe = AdamRecipe(
        **vars(common.recipe),
        optimizer=ADAMW,
        second_momentum=given.second_momentum,
        epsilon=given.epsilon,
        clip_norm=given.clip_norm,
        warmup_updates=given.warmup_updates,
    )
    return LanguageSettings(
        **{**vars(common), "recipe": recipe},
        sequence_length=given.sequence_length,
        accumulation=given.accumulation,
    )
