"""The axes of masked language modelling."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from trainmark.words.case import Count, TaskAxes
from trainmark.words.recipe import RecipeAxis

Percent = Annotated[int, Field(strict=True, ge=0, lt=50)]


class Optimizer(StrEnum):
    """What moves the weights; both with decoupled decay."""

    ADAMW = "adamw"
    LAMB = "lamb"


class MaskedAxes(TaskAxes):
    """``sequence_length`` is in tokens, of which ``predictions`` are hidden; with 512 tokens 80 are usual.

    ``padding`` is in percent of the tokens of made-up sequences; those that are read have their own.

    A device's batch is ``accumulation`` parts, passed one after another.
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

    def id_words(self, compiler: str) -> tuple[str, ...]:
        """Return the compiler, ``128tok``, ``20pred``, ``25pad``, ``lamb``, ``acc4``; of the last three what is set.

        That is: padding, an optimizer other than AdamW, and a batch that is cut.
        """
        return (
            compiler,
            f"{self.sequence_length}tok",
            f"{self.predictions}pred",
            *([f"{self.padding}pad"] if self.padding else []),
            *([self.optimizer.value] if self.optimizer is not Optimizer.ADAMW else []),
            *([f"acc{self.accumulation}"] if self.accumulation > 1 else []),
        )
