"""The axes of masked language modelling, and the data sets of sequences with hidden words that a suite can create."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from trainmark.schema.frozen import Count, Frozen
from trainmark.schema.recipe import RecipeAxis
from trainmark.tasks.declaration import TaskAxes

Percent = Annotated[int, Field(strict=True, ge=0, lt=50)]


class Optimizer(StrEnum):
    """The optimizers, both with decoupled weight decay."""

    ADAMW = "adamw"
    LAMB = "lamb"


def usual_predictions(length: int) -> int:
    """Return the number of words that BERT's pre-training hides: 20 of 128 tokens, 80 of 512, otherwise that share."""
    return max(1, length * 5 // 32)


def with_usual_predictions(given: Any) -> Any:
    """Return the given axes, with the usual number of ``predictions`` for the length if it is missing."""
    if not isinstance(given, Mapping) or "predictions" in given:
        return given
    length = given.get("sequence_length")
    return {**given, "predictions": usual_predictions(length)} if isinstance(length, int) else given


class MaskedAxes(TaskAxes):
    """The axes; ``sequence_length`` is in tokens, of which ``predictions`` are hidden (default: the usual number).

    ``padding`` is in percent of the tokens of synthetic sequences; real sequences have their own.

    A device's batch is passed in ``accumulation`` parts.
    """

    recipe_names: ClassVar = {
        "predictions": RecipeAxis.MAX_PREDICTIONS,
        "accumulation": RecipeAxis.ACCUMULATION_STEPS,
    }

    sequence_length: Count = 128
    predictions: Count = 20
    padding: Percent = 0
    optimizer: Optimizer = Optimizer.ADAMW
    accumulation: Count = 1

    @model_validator(mode="before")
    @classmethod
    def _hide(cls, given: Any) -> Any:
        return with_usual_predictions(given)

    def id_words(self, compiler: str) -> tuple[str, ...]:
        """Return the compiler, ``128tok``, ``20pred``, ``25pad``, ``lamb``, ``acc4``.

        The last three appear only with padding, with another optimizer than AdamW, and if the batch is split.
        """
        return (
            compiler,
            f"{self.sequence_length}tok",
            f"{self.predictions}pred",
            *([f"{self.padding}pad"] if self.padding else []),
            *([self.optimizer.value] if self.optimizer is not Optimizer.ADAMW else []),
            *([f"acc{self.accumulation}"] if self.accumulation > 1 else []),
        )


class Form(StrEnum):
    """The forms of masked sequences on disk: TFRecords with the features of BERT's published pre-processing."""

    MASKED = "masked-tfrecord"


GIVEN = ("hdf5", "ofrecord")
"""Forms that must already exist: HDF5 as NVIDIA's pre-processing writes it, and OneFlow's OFRecord."""


class MakeMasked(Frozen):
    """A data set that trainmark creates if it is missing; see ``trainmark data make-masked``."""

    sequences: Count
    sequence_length: Count = 128
    predictions: Count = 20
    vocabulary: Count = 30_522
    short: Annotated[int, Field(strict=True, ge=0, le=100)] = 10
    shards: Count = 4
    seed: Annotated[int, Field(strict=True, ge=0)] = 0

    @model_validator(mode="before")
    @classmethod
    def _hide(cls, given: Any) -> Any:
        return with_usual_predictions(given)
