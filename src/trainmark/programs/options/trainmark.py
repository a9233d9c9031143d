"""trainmark's own workers: the axes of every task by name, and the optimizer's settings under ``optimizer``."""

from collections.abc import Iterator, Mapping

from trainmark.programs.options import NONE, Dialect, Parameters, RecipeSetting, words
from trainmark.schema.recipe import Condition, RecipeAxis
from trainmark.tasks import own_axes, recipe_axis


def _read(parameters: Parameters) -> Iterator[RecipeSetting]:
    """Yield the axes that the program prints."""
    yield from words(
        parameters,
        {axis: recipe_axis(axis) for axis in own_axes()}
        | {
            "data": RecipeAxis.DATA,
            "loader": RecipeAxis.LOADER,
            "loader_workers": RecipeAxis.WORKERS,
            "optimizer.name": RecipeAxis.OPTIMIZER,
            "optimizer.momentum": RecipeAxis.MOMENTUM,
            "optimizer.weight_decay": RecipeAxis.WEIGHT_DECAY,
            "optimizer.label_smoothing": RecipeAxis.LABEL_SMOOTHING,
            "optimizer.schedule": RecipeAxis.LR_SCHEDULE,
            "framework_version": Condition.FRAMEWORK_VERSION,
            "cuda": Condition.CUDA,
            "cudnn": Condition.CUDNN,
        },
    )
    if "compiler" in parameters:
        # "none" is a value of the compiler axis here, not an unset option.
        yield RecipeAxis.COMPILER, parameters["compiler"].value, parameters["compiler"]
    if "optimizer.loss_scale" in parameters and parameters["optimizer.loss_scale"].value.lower() not in NONE:
        scale = parameters["optimizer.loss_scale"]
        yield RecipeAxis.LOSS_SCALING, "dynamic" if scale.value == "dynamic" else "static", scale


DIALECTS: Mapping[str, Dialect] = {
    "trainmark": Dialect(
        name="trainmark's own workers",
        marks=(
            ("schema", "compiler", "batch_per_device"),
            ("compiler", "optimizer.name", "batch_per_device"),
        ),
        read=_read,
    ),
}
