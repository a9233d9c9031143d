"""NVIDIA's PyTorch BERT pre-training: its printed arguments or its command line."""

from collections.abc import Iterator

from trainmark.programs.options import Dialect, Parameters, RecipeSetting, words
from trainmark.schema.recipe import RecipeAxis


def read(parameters: Parameters) -> Iterator[RecipeSetting]:
    """Yield the axes that the program prints; ``run_pretraining.py`` has one optimizer, LAMB."""
    yield from words(
        parameters,
        {
            "max_predictions_per_seq": RecipeAxis.MAX_PREDICTIONS,
            "max_seq_length": RecipeAxis.SEQUENCE_LENGTH,
            "gradient_accumulation_steps": RecipeAxis.ACCUMULATION_STEPS,
        },
    )
    yield RecipeAxis.OPTIMIZER, "lamb", parameters["max_predictions_per_seq"]


DIALECT = Dialect(
    name="NVIDIA DeepLearningExamples PyTorch BERT run_pretraining.py",
    marks=(("gradient_accumulation_steps", "max_predictions_per_seq"),),
    read=read,
    flags={
        RecipeAxis.MAX_PREDICTIONS: "--max_predictions_per_seq={value}",
        RecipeAxis.ACCUMULATION_STEPS: "--gradient_accumulation_steps={value}",
    },
)
