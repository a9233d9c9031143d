"""The registry: every log format that trainmark reads, one module each."""

from trainmark.errors import InputError, nearest
from trainmark.logs.format import Format
from trainmark.logs.formats import (
    fairseq,
    gluoncv,
    horovod,
    mlperf,
    mmsegmentation,
    ngc_mxnet_convnets,
    ngc_pytorch_bert,
    ngc_pytorch_convnets,
    ngc_tensorflow_bert,
    ngc_tensorflow_convnets,
    oneflow,
    paddleclas,
    paddlenlp_bert,
    paddlenlp_transformer,
    paddlerec,
    paddleseg,
    pytorch_imagenet,
    tensorflow_models,
    tf_cnn_benchmarks,
    timm,
    trainmark,
)

FORMATS: tuple[Format, ...] = tuple(
    module.FORMAT
    for module in (
        trainmark,
        ngc_pytorch_convnets,
        ngc_tensorflow_convnets,
        ngc_mxnet_convnets,
        ngc_pytorch_bert,
        ngc_tensorflow_bert,
        paddleclas,
        paddlenlp_bert,
        paddlenlp_transformer,
        paddleseg,
        paddlerec,
        fairseq,
        mmsegmentation,
        pytorch_imagenet,
        gluoncv,
        oneflow,
        tensorflow_models,
        tf_cnn_benchmarks,
        timm,
        horovod,
        mlperf,
    )
)
"""In the order in which they are tried; content decides, so the order only breaks ties."""

__all__ = ["FORMATS", "find_format"]


def find_format(name: str) -> Format:
    """Return the format called ``name``; raise ``InputError`` with the nearest name when there is none."""
    for known in FORMATS:
        if known.name == name:
            return known
    raise InputError(
        f"no log format '{name}'{nearest(name, [f.name for f in FORMATS])} (trainmark parse --list-formats)"
    )
