"""The own settings of a run of recommendation: its flags, and the recipe of each model."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

from ...core.settings import ADAM, AdamRecipe, Recipe, Settings, positive
from .architectures import ARCHITECTURES, Recommender

# A gradient of a table has all of its rows, zeros where no sample looked one up, or is a list of those looked up.
DENSE_GRADIENTS, SPARSE_GRADIENTS = "dense", "sparse"
# An epoch of made-up data is as long as the training part that the published pre-processing makes of Criteo's log.
EPOCH_SAMPLES = 36_672_493
# DLPerf's ``deep_vocab_size``, and the default ``deep_embedding_vec_size`` of the program that it measures.
VOCABULARY, EMBEDDING_WIDTH = 2_322_444, 16
# The learning rate of the authors' script for Criteo's terabyte (facebookresearch/dlrm), whose batch is 2 048.
DLRM_RECIPE: Mapping[str, float] = {"learning_rate": 0.1, "momentum": 0.0, "dropout": 0.0}

DLRM_WIDTH = 128  # embeddings of ``dlrm`` as wide as MLPerf has them


@dataclass(frozen=True)
class ClickRecipe(AdamRecipe):
    """``dropout``: the share of values that are dropped behind each hidden layer."""

    dropout: float


@dataclass(frozen=True)
class DescentRecipe(Recipe):
    """Plain SGD, as MLPerf trains DLRM: nothing is dropped, and no table has moments beside it."""

    dropout: float = 0.0


@dataclass(frozen=True)
class ClickSettings(Settings):
    """``vocabulary``: rows of each of Wide & Deep's tables, or of all of DLRM's; ``embedding_width``: of the deep rows.

    ``table_gradients``: whether a table's gradient has all of its rows or those that were looked up.
    """

    vocabulary: int
    embedding_width: int
    table_gradients: str
    recipe: ClickRecipe | DescentRecipe

    @property
    def description(self) -> Recommender:
        """Return what is trained."""
        return ARCHITECTURES[self.model].with_tables(self.vocabulary, self.embedding_width)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags, and make the recipe that of DLPerf's scripts; of DLRM, that of MLPerf's reference."""
    add = parser.add_argument_group("clicks").add_argument
    rows = "rows of each of Wide & Deep's tables, or of all of DLRM's tables"
    add("--vocabulary", type=positive, default=VOCABULARY, metavar="N", help=rows)
    add("--embedding-width", type=positive, default=EMBEDDING_WIDTH, metavar="N", help="of the deep tables")
    kinds = (DENSE_GRADIENTS, SPARSE_GRADIENTS)
    of = "of all rows, or only of looked-up rows; Adam then does not change the others"
    add("--table-gradients", choices=kinds, default=DENSE_GRADIENTS, help=of)
    add("--second-momentum", type=float, default=0.999, help="of Adam (beta 2)")
    add("--epsilon", type=float, default=1e-8, help="of Adam")
    add("--dropout", type=float, default=0.5, help="share of values dropped after a hidden layer")
    epoch = "length of an epoch of synthetic data"
    add("--epoch-samples", type=positive, default=EPOCH_SAMPLES, metavar="N", help=epoch)
    parser.set_defaults(optimizer=ADAM, momentum=0.9, weight_decay=0.0, clip_norm=None)
    parser.set_defaults(schedule="constant", epochs=1, warmup_epochs=0, warmup_updates=0)
