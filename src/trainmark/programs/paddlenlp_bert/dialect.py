"""PaddleNLP's BERT pre-training: its printed arguments."""

from collections.abc import Iterator

from trainmark.programs.options import Dialect, Parameters, RecipeSetting, words
from trainmark.schema.recipe import RecipeAxis


def read(parameters: Parameters) -> Iterator[RecipeSetting]:
    """Yield the axes that the program prints; an epsilon of Adam implies the optimizer."""
    yield from words(
        parameters,
        {
            "max_predictions_per_seq": RecipeAxis.MAX_PREDICTIONS,
            "gradient_merge_steps": RecipeAxis.ACCUMULATION_STEPS,
            "weight_decay": RecipeAxis.WEIGHT_DECAY,
        },
    )
    if "adam_epsilon" in parameters:
        yield RecipeAxis.OPTIMIZER, "adam", parameters["adam_epsilon"]


DIALECT = Dialect(
    name="PaddleNLP BERT run_pretrain.py",
    marks=(("gradient_merge_steps", "max_predictions_per_seq"),),
    read=read,
    flags={
        RecipeAxis.MAX_PREDICTIONS: "--max_predictions_per_seq {value}",
        RecipeAxis.ACCUMULATION_STEPS: "--gradient_merge_steps {value}",
    },
)
