"""What a run of masked language modelling has beside what every run has: the flags, and the recipe of BERT."""

import argparse
from dataclasses import dataclass

from ...core.flags import positive
from ...core.settings import ADAMW, LAMB, AdamRecipe, Settings
from ..language import LanguageSettings, add_language_flags, recipe_of

EPOCH_SEQUENCES = 24_000_000
"""An epoch of made-up data is about as long as Wikipedia's and the books' in sequences of 128."""


@dataclass(frozen=True)
class MaskedRecipe(AdamRecipe):
    """``dropout``: the share of values that are dropped, of embeddings, attention and what is added up."""

    dropout: float


@dataclass(frozen=True)
class MaskedSettings(LanguageSettings):
    """``predictions``: the most words of a sequence that were hidden; ``padding``: of made-up tokens, in percent."""

    predictions: int
    padding: int
    recipe: MaskedRecipe

    @property
    def padded(self) -> bool:
        """Whether sequences may end in padding, which nothing attends to: what is read says for itself how much."""
        return not self.synthetic or self.padding > 0


def usual_predictions(length: int) -> int:
    """Return how many words BERT's pre-training hides of so many tokens: 20 of 128, 80 of 512, else that share."""
    return max(1, length * 5 // 32)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags, and make the recipe that of BERT's pre-training."""
    text = add_language_flags(parser)
    text.add_argument(
        "--predictions", type=positive, metavar="N",
        help="hidden words of a sample; if not given: 20 of 128 tokens, 80 of 512, else that share",
    )  # fmt: skip
    text.add_argument(
        "--padding", type=int, default=0, metavar="PERCENT",
        help="of synthetic tokens; real data have their own",
    )  # fmt: skip
    text.add_argument("--optimizer", choices=(ADAMW, LAMB), default=ADAMW, help="both with decoupled decay")
    text.add_argument("--dropout", type=float, default=0.1, help="share of values that are dropped")
    parser.set_defaults(sequence_length=128, epoch_samples=EPOCH_SEQUENCES)
    parser.set_defaults(momentum=0.9, second_momentum=0.999, epsilon=1e-6, weight_decay=0.01, clip_norm=1.0)
    parser.set_defaults(schedule="linear", epochs=40, warmup_epochs=0, warmup_updates=10_000)


def masked_settings(given: argparse.Namespace, common: Settings) -> MaskedSettings:
    """Return the settings with those of the flags of ``add_flags``."""
    recipe = MaskedRecipe(
        **vars(common.recipe), optimizer=given.optimizer, **recipe_of(given), dropout=given.dropout
    )
    return MaskedSettings(
        **{**vars(common), "recipe": recipe},
        sequence_length=given.sequence_length,
        accumulation=given.accumulation,
        predictions=given.predictions or usual_predictions(given.sequence_length),
        padding=given.padding,
    )
