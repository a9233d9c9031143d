"""trainmark's own workers: the axes by their own names, the optimizer's settings below ``optimizer``."""

from collections.abc import Iterator

from trainmark.programs.options import NONE, Dialect, Parameters, Said, words
from trainmark.words.recipe import Axis, Place


def read(parameters: Parameters) -> Iterator[Said]:
    """Yield the axes that the program prints."""
    yield from words(
        parameters,
        {
            "layout": Axis.LAYOUT,
            "compiler": Axis.COMPILER,
            "data": Axis.DATA,
            "loader": Axis.LOADER,
            "loader_workers": Axis.WORKERS,
            "image_size": Axis.IMAGE_SIZE,
            "optimizer.name": Axis.OPTIMIZER,
            "optimizer.momentum": Axis.MOMENTUM,
            "optimizer.weight_decay": Axis.WEIGHT_DECAY,
            "optimizer.label_smoothing": Axis.LABEL_SMOOTHING,
            "optimizer.schedule": Axis.LR_SCHEDULE,
            "framework_version": Place.FRAMEWORK_VERSION,
            "cuda": Place.CUDA,
            "cudnn": Place.CUDNN,
        },
    )
    if "optimizer.loss_scale" in parameters and parameters["optimizer.loss_scale"].value.lower() not in NONE:
        scale = parameters["optimizer.loss_scale"]
        yield Axis.LOSS_SCALING, "dynamic" if scale.value == "dynamic" else "static", scale


DIALECT = Dialect(
    name="trainmark's own workers",
    marks=(("layout", "compiler", "batch_per_device"),),
    read=read,
)
