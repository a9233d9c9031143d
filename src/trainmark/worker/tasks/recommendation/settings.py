"""The own settings of a run of recommendation, and the recipe of each model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from ...core.settings import ADAM, EPOCH, AdamRecipe, Flag, Recipe, Settings, positive
from .architectures import ARCHITECTURES, Dlrm, Recommender

# A gradient of a table has all of its rows, zeros where no sample looked one up, or is a list of those looked up.
DENSE_GRADIENTS, SPARSE_GRADIENTS = "dense", "sparse"
# An epoch of made-up data is as long as the training part that the published pre-processing makes of Criteo's log.
EPOCH_SAMPLES = 36_672_493
# DLPerf's ``deep_vocab_size``, and the default ``deep_embedding_vec_size`` of the program that it measures.
VOCABULARY, EMBEDDING_WIDTH = 2_322_444, 16
# That of DLPerf's scripts; no gradient is clipped.
ADAM_RECIPE: Mapping[str, Any] = {
    "optimizer": ADAM, "second_momentum": 0.999, "epsilon": 1e-8,
    "learning_rate": 1e-3, "clip_norm": None, "warmup_updates": 0,
}  # fmt: skip
# That of MLPerf's reference; its rate is that of the authors' script for Criteo's terabyte (facebookresearch/dlrm),
# whose batch is 2 048.
DLRM_RECIPE: Mapping[str, float] = {"learning_rate": 0.1, "momentum": 0.0, "dropout": 0.0}

DLRM_WIDTH = 128  # embeddings of ``dlrm`` as wide as MLPerf has them

ROWS = "rows of each of Wide & Deep's tables, or of all of DLRM's tables"
DROPOUT = Flag("share of values dropped after a hidden layer", float, 0.5)
OF_ROWS = "of all rows, or only of looked-up rows; Adam then does not change the others"


@dataclass(frozen=True)
class ClickRecipe(AdamRecipe):
    """``dropout``: the share of values that are dropped behind each hidden layer."""

    clip_norm: float | None
    warmup_updates: int
    dropout: Annotated[float, DROPOUT]


@dataclass(frozen=True)
class DescentRecipe(Recipe):
    """Plain SGD, as MLPerf trains DLRM: nothing is dropped, and no table has moments beside it."""

    dropout: Annotated[float, DROPOUT] = 0.0


@dataclass(frozen=True)
class ClickSettings(Settings):
    """The settings of a run of recommendation."""

    epoch_samples: Annotated[int, Flag(EPOCH, positive, EPOCH_SAMPLES)]
    vocabulary: Annotated[int, Flag(ROWS, positive, VOCABULARY)]
    embedding_width: Annotated[int, Flag("of the deep tables", positive, EMBEDDING_WIDTH)]
    table_gradients: Annotated[str, Flag(OF_ROWS, (DENSE_GRADIENTS, SPARSE_GRADIENTS), DENSE_GRADIENTS)]
    recipe: ClickRecipe | DescentRecipe

    @property
    def description(self) -> Recommender:
        """Return what is trained."""
        return ARCHITECTURES[self.model].with_tables(self.vocabulary, self.embedding_width)


def is_dlrm(model: str) -> bool:
    """Return whether a model is DLRM, which has a recipe of its own."""
    return isinstance(ARCHITECTURES.get(model), Dlrm)


def defaults_of(model: str) -> Mapping[str, Any]:
    """Return the recipe of Wide & Deep, or of DLRM."""
    width = {"embedding_width": DLRM_WIDTH} if model == "dlrm" else {}
    return {**ADAM_RECIPE, **DLRM_RECIPE, **width} if is_dlrm(model) else ADAM_RECIPE
