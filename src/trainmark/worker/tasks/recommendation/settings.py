"""What a run of recommendation has beside what every run has: the flags, and DLPerf's recipe."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from ...core.flags import positive
from ...core.settings import ADAM, AdamRecipe, Settings
from .architectures import ARCHITECTURES, WideDeep

EPOCH_SAMPLES = 36_672_493
"""An epoch of made-up data is as long as the training part that the published pre-processing makes of Criteo's log."""

VOCABULARY, EMBEDDING_WIDTH = 2_322_444, 16
"""DLPerf's ``deep_vocab_size``, and the default ``deep_embedding_vec_size`` of the program that it measures."""


@dataclass(frozen=True)
class ClickRecipe(AdamRecipe):
    """``dropout``: the share of values that are dropped behind each hidden layer."""

    dropout: float


@dataclass(frozen=True)
class ClickSettings(Settings):
    """``vocabulary``: rows of both tables; ``embedding_width``: of the deep one's rows."""

    vocabulary: int
    embedding_width: int
    recipe: ClickRecipe

    @property
    def description(self) -> WideDeep:
        """Return what is trained."""
        return ARCHITECTURES[self.model].with_tables(self.vocabulary, self.embedding_width)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags, and make the recipe that of DLPerf's scripts."""
    clicks = parser.add_argument_group("clicks")
    clicks.add_argument(
        "--vocabulary", type=positive, default=VOCABULARY, metavar="N", help="rows of each of both tables"
    )
    clicks.add_argument(
        "--embedding-width", type=positive, default=EMBEDDING_WIDTH, metavar="N", help="of the deep table"
    )
    clicks.add_argument("--second-momentum", type=float, default=0.999, help="of Adam (beta 2)")
    clicks.add_argument("--epsilon", type=float, default=1e-8, help="of Adam")
    clicks.add_argument(
        "--dropout", type=float, default=0.5, help="share of values dropped behind a hidden layer"
    )
    clicks.add_argument(
        "--epoch-samples", type=positive, default=EPOCH_SAMPLES, metavar="N",
        help="length of an epoch of synthetic data",
    )  # fmt: skip
    parser.set_defaults(momentum=0.9, weight_decay=0.0, schedule="constant", epochs=1, warmup_epochs=0)


def click_settings(given: argparse.Namespace, common: Settings) -> ClickSettings:
    """Return the settings with those of the flags of ``add_flags``."""
    recipe = ClickRecipe(
        **vars(common.recipe),
        optimizer=ADAM,
        second_momentum=given.second_momentum,
        epsilon=given.epsilon,
        clip_norm=None,
        warmup_updates=0,
        dropout=given.dropout,
    )
    return ClickSettings(
        **{**vars(common), "recipe": recipe},
        vocabulary=given.vocabulary,
        embedding_width=given.embedding_width,
    )
