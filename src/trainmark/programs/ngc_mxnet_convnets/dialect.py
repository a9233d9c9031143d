"""NVIDIA DeepLearningExamples, MXNet RN50v1.5."""

from collections.abc import Iterator

from trainmark.programs.options import Dialect, Parameters, Said, backend, flag, words
from trainmark.words.recipe import Axis


def read(parameters: Parameters) -> Iterator[Said]:
    """Yield the axes that the program prints."""
    yield from words(
        parameters,
        {
            "conv_layout": Axis.LAYOUT,
            "label_smoothing": Axis.LABEL_SMOOTHING,
            "mixup": Axis.MIXUP,
            "lr_schedule": Axis.LR_SCHEDULE,
            "optimizer": Axis.OPTIMIZER,
            "mom": Axis.MOMENTUM,
            "wd": Axis.WEIGHT_DECAY,
            "kv_store": Axis.DISTRIBUTION,
            "dali_threads": Axis.WORKERS,
            "dali_prefetch_queue": Axis.PREFETCH,
        },
    )
    yield from backend(parameters, "data_backend", "recordio")
    fused = [flag(parameters, name) for name in ("fuse_bn_relu", "fuse_bn_add_relu")]
    if None not in fused:
        yield Axis.FUSED_BATCH_NORM, all(fused), parameters["fuse_bn_relu"]


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
