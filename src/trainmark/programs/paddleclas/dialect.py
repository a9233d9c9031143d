"""PaddleClas: the configuration that ``ppcls`` prints, name by name."""

from collections.abc import Iterator

from trainmark.programs.options import Dialect, Parameters, RecipeSetting, flag, typed, words
from trainmark.schema.recipe import RecipeAxis


def read(parameters: Parameters) -> Iterator[RecipeSetting]:
    """Yield the axes that the program prints."""
    yield from words(
        parameters,
        {"data_format": "layout", "num_workers": RecipeAxis.WORKERS, "momentum": RecipeAxis.MOMENTUM},
    )
    if (dali := flag(parameters, "use_dali")) is not None:
        yield RecipeAxis.LOADER, "dali" if dali else "native", parameters["use_dali"]
    if (dynamic := flag(parameters, "use_dynamic_loss_scaling")) is not None:
        yield (
            RecipeAxis.LOSS_SCALING,
            "dynamic" if dynamic else "static",
            parameters["use_dynamic_loss_scaling"],
        )
    if "scale_loss" in parameters:
        yield RecipeAxis.LOSS_SCALE, typed(parameters["scale_loss"].value), parameters["scale_loss"]


DIALECT = Dialect(
    name="PaddleClas",
    marks=(("pretrained_model", "output_dir"),),
    read=read,
)
