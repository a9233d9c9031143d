"""The ``precision`` axis in MXNet: FP32, and automatic mixed precision with FP32 weights."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Optional

import numpy as np
from mxnet.contrib import amp

from ..core.choices import one_of
from ..core.outcomes import UNSUPPORTED, RunError
from ..core.settings import Recipe


class Precision(NamedTuple):
    """``compute`` is the type of convolutions; weights are FP32. ``scaled``: the loss is scaled, for FP16."""

    compute: str
    scaled: bool = False


PRECISIONS = {
    "fp32": Precision("float32"),
    "amp-bf16": Precision("bfloat16"),
    "amp-fp16": Precision("float16", scaled=True),
}


def choose_precision(name: str) -> Precision:
    """Return the precision, and switch MXNet to it for good; raise ``RunError`` if the CPU lacks it.

    AMP replaces MXNet's operators by ones that cast what they are given, so it comes before the model.
    """
    one_of("the MXNet worker", "precision", name, PRECISIONS)
    if name == "amp-bf16" and not _has_avx512():
        raise RunError(UNSUPPORTED, "MXNet's BF16 needs a CPU with AVX-512, which this one does not have")
    # MXNet has no switch of its own for TF32: NVIDIA's libraries read this one when they are first used.
    os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
    precision = PRECISIONS[name]
    if precision.compute != "float32":
        amp.init(target_dtype=precision.compute)
    return precision


class LossScale:
    """Scales the loss for FP16: by a number, or by AMP's own scaler, which reads a flag from the GPU each step."""

    def __init__(self, precision: Precision, recipe: Recipe, trainer: Any) -> None:
        """Take Gluon's trainer."""
        self._trainer = trainer
        self.dynamic = precision.scaled and recipe.loss_scale is None
        self.fixed: Optional[float] = recipe.loss_scale if precision.scaled else None
        if self.dynamic:
            amp.init_trainer(trainer)

    @property
    def divisor(self) -> float:
        """Return what the update has to divide the gradients by; AMP's scaler tells the trainer by itself."""
        return self.fixed or 1.0

    @contextmanager
    def scaled(self, loss: Any) -> Iterator[Any]:
        """Yield what to go backward from."""
        if self.dynamic:
            with amp.scale_loss(loss, self._trainer) as scaled:
                yield scaled
        else:
            yield loss if self.fixed is None else loss * self.fixed


def dtype_name(array: Any) -> str:
    """Return ``float32``, ``float16`` or ``bfloat16``: for numpy the last is a structure."""
    dtype = np.dtype(array.dtype)
    return "bfloat16" if dtype.names else str(dtype)


def _has_avx512() -> bool:
    """Return whether the CPU has what oneDNN's BF16 kernels start from."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False
    return "avx512bw" in text
