"""What a run of masked language modelling has beside what every run has: the flags, and the recipe of BERT."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from ...core.flags import count, norm, positive
from ...core.settings import ADAMW, LAMB, AdamRecipe, Settings
from ..causal_lm.settings import LanguageSettings

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


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags, and make the recipe that of BERT's pre-training."""
    text = parser.add_argument_group("text")
    text.add_argument("--sequence-length", type=positive, default=128, metavar="N", help="tokens of a sample")
    text.add_argument(
        "--predictions", type=positive, default=20, metavar="N",
        help="hidden words of a sample; with 512 tokens 80 are usual",
    )  # fmt: skip
    text.add_argument(
        "--padding", type=int, default=0, metavar="PERCENT",
        help="of made-up tokens; what is read has its own",
    )  # fmt: skip
    text.add_argument(
        "--accumulation", type=positive, default=1, metavar="N",
        help="parts of a batch, passed one after another before the weights move",
    )  # fmt: skip
    text.add_argument("--optimizer", choices=(ADAMW, LAMB), default=ADAMW, help="both with decoupled decay")
    text.add_argument("--second-momentum", type=float, default=0.999, help="of the optimizer (beta 2)")
    text.add_argument("--epsilon", type=float, default=1e-6, help="of the optimizer")
    text.add_argument("--dropout", type=float, default=0.1, help="share of values that are dropped")
    text.add_argument(
        "--clip-norm", type=norm, default=1.0, metavar="LENGTH",
        help="of all gradients together, made so long where they are longer; 0: as they are",
    )  # fmt: skip
    text.add_argument(
        "--warmup-updates", type=count, default=10_000, metavar="N",
        help="steps over which the rate rises from 0, whatever the warm-up epochs",
    )  # fmt: skip
    text.add_argument(
        "--epoch-sequences", type=positive, default=EPOCH_SEQUENCES, metavar="N", dest="epoch_samples",
        help="length of an epoch of synthetic data",
    )  # fmt: skip
    parser.set_defaults(momentum=0.9, weight_decay=0.01, schedule="linear", epochs=40, warmup_epochs=0)


def masked_settings(given: argparse.Namespace, common: Settings) -> MaskedSettings:
    """Return the settings with those of the flags of ``add_flags``."""
    recipe = MaskedRecipe(
        **vars(common.recipe),
        optimizer=given.optimizer,
        second_momentum=given.second_momentum,
        epsilon=given.epsilon,
        clip_norm=given.clip_norm,
        warmup_updates=given.warmup_updates,
        dropout=given.dropout,
    )
    return MaskedSettings(
        **{**vars(common), "recipe": recipe},
        sequence_length=given.sequence_length,
        accumulation=given.accumulation,
        predictions=given.predictions,
        padding=given.padding,
    )
