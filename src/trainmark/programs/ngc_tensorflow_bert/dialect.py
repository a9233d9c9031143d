"""NVIDIA's TensorFlow BERT pre-training: its command line, as ``set -x`` prints it."""

from collections.abc import Iterator

from trainmark.programs.options import Dialect, Parameters, RecipeSetting, flag, words
from trainmark.schema.recipe import RecipeAxis


def read(parameters: Parameters) -> Iterator[RecipeSetting]:
    """Yield the axes in the command; LAMB is the program's default optimizer."""
    yield from words(
        parameters,
        {
            "max_predictions_per_seq": RecipeAxis.MAX_PREDICTIONS,
            "max_seq_length": RecipeAxis.SEQUENCE_LENGTH,
            "num_accumulation_steps": RecipeAxis.ACCUMULATION_STEPS,
            "optimizer_type": RecipeAxis.OPTIMIZER,
        },
    )
    if "optimizer_type" not in parameters:
        yield RecipeAxis.OPTIMIZER, "lamb", parameters["num_accumulation_steps"]
    if (xla := flag(parameters, "use_xla")) is not None:
        yield RecipeAxis.COMPILER, "xla" if xla else "none", parameters["use_xla"]


DIALECT = Dialect(
    name="NVIDIA DeepLearningExamples TensorFlow BERT run_pretraining.py",
    marks=(("num_accumulation_steps", "max_predictions_per_seq"),),
    read=read,
    flags={
        RecipeAxis.MAX_PREDICTIONS: "--max_predictions_per_seq={value}",
        RecipeAxis.ACCUMULATION_STEPS: "--num_accumulation_steps={value}",
    },
)
