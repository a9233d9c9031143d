"""NVIDIA DeepLearningExamples, MXNet RN50v1.5."""

from collections.abc import Iterator

from trainmark.programs.options import Dialect, Parameters, RecipeSetting, backend, flag, words
from trainmark.schema.recipe import RecipeAxis


def read(parameters: Parameters) -> Iterator[RecipeSetting]:
    """Yield the axes that the program prints."""
    yield from words(
        parameters,
        {
            "conv_layout": "layout",
            "label_smoothing": RecipeAxis.LABEL_SMOOTHING,
            "mixup": "mixup",
            "lr_schedule": RecipeAxis.LR_SCHEDULE,
            "optimizer": RecipeAxis.OPTIMIZER,
            "mom": RecipeAxis.MOMENTUM,
            "wd": RecipeAxis.WEIGHT_DECAY,
            "kv_store": RecipeAxis.DISTRIBUTION,
            "dali_threads": RecipeAxis.WORKERS,
            "dali_prefetch_queue": RecipeAxis.PREFETCH,
        },
    )
    yield from backend(parameters, "data_backend", "recordio")
    fused = [flag(parameters, name) for name in ("fuse_bn_relu", "fuse_bn_add_relu")]
    if None not in fused:
        yield "fused_batch_norm", all(fused), parameters["fuse_bn_relu"]


DIALECT = Dialect(
    name="NVIDIA DeepLearningExamples MXNet RN50v1.5 train.py",
    marks=(("conv_layout", "data_backend", "kv_store"),),
    read=read,
    flags={
        "layout": "--conv-layout {value} --batchnorm-layout {value} --pooling-layout {value}",
        "loader": "--data-backend {value}",
        "label_smoothing": "--label-smoothing {value}",
        "mixup": "--mixup {value}",
        "workers": "--dali-threads {value}",
        "fused_batch_norm": "--fuse-bn-relu 1 --fuse-bn-add-relu 1",
    },
    values={"layout": {"nhwc": "NHWC", "nchw": "NCHW"}, "loader": {"native": "mxnet"}},
)
