"""NVIDIA DeepLearningExamples, TensorFlow 1 ConvNets."""

from collections.abc import Iterator

from trainmark.programs.options import NONE, Dialect, Parameters, RecipeSetting, flag, typed, words
from trainmark.schema.recipe import RecipeAxis


def read(parameters: Parameters) -> Iterator[RecipeSetting]:
    """Yield the axes that the program prints."""
    yield from words(
        parameters,
        {
            "data_format": "layout",
            "label_smoothing": RecipeAxis.LABEL_SMOOTHING,
            "mixup": "mixup",
            "momentum": RecipeAxis.MOMENTUM,
            "weight_decay": RecipeAxis.WEIGHT_DECAY,
        },
    )
    for name in ("xla", "use_xla"):
        if (xla := flag(parameters, name)) is not None:
            yield RecipeAxis.COMPILER, "xla" if xla else "none", parameters[name]
    for name in ("cosine_lr", "use_cosine_lr"):
        if (cosine := flag(parameters, name)) is not None:
            yield RecipeAxis.LR_SCHEDULE, "cosine" if cosine else "step", parameters[name]
    real = "data_dir" in parameters and parameters["data_dir"].value.lower() not in NONE
    if "data_dir" in parameters:
        yield RecipeAxis.DATA, "tfrecord" if real else "synthetic", parameters["data_dir"]
    for name in ("dali", "use_dali"):
        if real and (dali := flag(parameters, name)) is not None:
            yield RecipeAxis.LOADER, "dali" if dali else "native", parameters[name]
    if flag(parameters, "amp") and (static := flag(parameters, "use_static_loss_scaling")) is not None:
        yield (
            RecipeAxis.LOSS_SCALING,
            "static" if static else "dynamic",
            parameters["use_static_loss_scaling"],
        )
        for name in ("static_loss_scale", "loss_scale"):
            if static and name in parameters:
                yield RecipeAxis.LOSS_SCALE, typed(parameters[name].value), parameters[name]
                break


DIALECT = Dialect(
    name="NVIDIA DeepLearningExamples TensorFlow ConvNets main.py",
    marks=(("data_idx_dir", "label_smoothing", "arch"),),
    read=read,
    flags={
        "layout": "--data_format {value}",
        "compiler": "--xla",
        "loader": "--dali",
        "label_smoothing": "--label_smoothing {value}",
        "mixup": "--mixup {value}",
        "loss_scale": "--static_loss_scale {value}",
        "batch_per_device": "--batch_size {value}",
    },
    values={"layout": {"nhwc": "NHWC", "nchw": "NCHW"}},
)
