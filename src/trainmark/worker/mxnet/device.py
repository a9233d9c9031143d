"""The device of this rank, its threads and its choice of algorithms."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import mxnet as mx

from ..core.choices import own_gpu
from ..core.place import Place


def choose_context(asked: str, place: Place) -> Any:
    """Return the device of this rank; raise ``RunError`` if it does not exist."""
    index = own_gpu("MXNet", asked, 0 if asked == "cpu" else mx.context.num_gpus(), place)
    return mx.cpu() if index is None else mx.gpu(index)


def openmp_threads() -> int:
    """Return the number of threads that OpenMP would start for an operator of the calling thread."""
    return int(ctypes.CDLL("libgomp.so.1").omp_get_max_threads())


def algorithm_search() -> str:
    """Return how MXNet chooses cuDNN's algorithms; by default it measures them in a limited workspace."""
    chosen = os.environ.get("MXNET_CUDNN_AUTOTUNE_DEFAULT", "1")
    return {"0": "cudnn, heuristic", "1": "cudnn, measured, workspace limited"}.get(chosen, "cudnn, measured")
