"""The axes of masked language modelling."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from trainmark.schema.case import Count
from trainmark.schema.recipe import RecipeAxis
from trainmark.schema.task_catalogue import TaskAxes

Percent = Annotated[int, Field(strict=True, ge=0, lt=50)]


class Optimizer(StrEnum):
    """The optimizers, both with decoupled weight decay."""

    ADAMW = "adamw"
    LAMB = "lamb"


def usual_predictions(length: int) -> int:
    """Return how many words BERT's pre-training hides of so many tokens: 20 of 128, 80 of 512, else that share."""
    return max(1, length * 5 // 32)


def with_usual_predictions(given: Any) -> Any:
    """Return what is given of a length, with as many ``predictions`` as are usual for it where none are given."""
    if not isinstance(given, Mapping) or "predictions" in given:
        return given
    length = given.get("sequence_length")
    return {**given, "predictions": usual_predictions(length)} if isinstance(length, int) else given


class MaskedAxes(TaskAxes):
    """``sequence_length`` is in tokens, of which ``predictions`` are hidden, by default as many as are usual.

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

    @model_validator(mode="before")
    @classmethod
    def _hide(cls, given: Any) -> Any:
        return with_usual_predictions(given)

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
