"""The ``precision`` axis in OneFlow: which types."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Dict, NamedTuple

import oneflow as flow

from ..core.choices import one_of
from .compilers import GRAPH


class Precision(NamedTuple):
    """``compute`` is the type of convolutions; the weights are FP32 in all of them."""

    compute: str
    mixed: bool = False
    tf32: bool = False


PRECISIONS: Dict[str, Precision] = {
    "fp32": Precision("float32"),
    "tf32": Precision("float32", tf32=True),
    "amp-fp16": Precision("float16", mixed=True),
    "amp-bf16": Precision("bfloat16", mixed=True),
}

TF32_SWITCH = "ONEFLOW_EP_CUDA_ENABLE_TF32_EXECUTION"
"""The variable that OneFlow's CUDA streams read when they are made; TF32 is on without it (``cuda_stream.cpp``)."""


def choose_precision(name: str) -> Precision:
    """Return the precision and set OneFlow's TF32 switch for it, before anything was put on a GPU.

    Raises ``RunError`` (unsupported) for one that this worker does not have. Two are gaps (``gaps.json``): OneFlow's
    autocast turns itself off on a CPU, with no more than a warning (``amp/autocast_mode.py``), and its ``GradScaler``
    works in ``nn.Graph`` alone.
    """
    one_of("OneFlow's worker", "precision", name, PRECISIONS)
    precision = PRECISIONS[name]
    os.environ[TF32_SWITCH] = "1" if precision.tf32 else "0"
    return precision


def autocast(precision: Precision, compiler: str) -> "AbstractContextManager[Any]":
    """Return the context of an eager forward pass; a graph is rewritten for its precision as a whole instead."""
    if not precision.mixed or compiler == GRAPH:
        return nullcontext()
    return flow.autocast("cuda", dtype=getattr(flow, precision.compute))
