"""The ``precision`` axis in PaddlePaddle: what is computed in which type, and what a device cannot do."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Dict, NamedTuple, Optional

import paddle

from ..core.choices import one_of
from ..core.outcomes import UNSUPPORTED, RunError
from ..core.settings import Recipe

FP32 = "float32"


class Precision(NamedTuple):
    """``compute`` is the type of the convolutions; weights are FP32 in all of these precisions.

    With ``autocast`` Paddle casts them for each use (its AMP level O1). ``tf32`` lets FP32 matrix products and
    convolutions round their inputs to TF32. ``scaled`` says that the loss is scaled so that gradients do not vanish.
    """

    compute: str
    autocast: bool = False
    tf32: bool = False
    scaled: bool = False


PRECISIONS: Dict[str, Precision] = {
    "fp32": Precision(FP32),
    "tf32": Precision(FP32, tf32=True),
    "amp-fp16": Precision("float16", autocast=True, scaled=True),
    "amp-bf16": Precision("bfloat16", autocast=True),
}


MIXED_ON_A_GPU = {"FLAGS_cudnn_batchnorm_spatial_persistent": True, "FLAGS_max_inplace_grad_add": 8}
"""What PaddleClas sets for AMP (``ppcls/engine/engine.py``): cuDNN's batch norm that reads its input once, and
gradients that are summed in place."""


def choose_precision(name: str, device: str) -> Precision:
    """Return the precision and set Paddle's TF32 switches for it; raise ``RunError`` if the device lacks it.

    ``paddle.amp.auto_cast`` on a CPU only warns and computes in FP32: ``gaps.json`` keeps it from getting that far.
    """
    one_of("the PaddlePaddle worker", "precision", name, PRECISIONS)
    precision = PRECISIONS[name]
    if device == "cpu":
        return precision
    generation = paddle.device.cuda.get_device_capability()
    needed = (7, 0) if precision.compute == "float16" else (8, 0)
    if precision != PRECISIONS["fp32"] and generation < needed:
        have, need = ".".join(map(str, generation)), ".".join(map(str, needed))
        raise RunError(UNSUPPORTED, f"{name} needs compute capability {need} or later; this GPU has {have}")
    paddle.base.core.set_cublas_switch(precision.tf32)
    paddle.base.core.set_cudnn_switch(precision.tf32)
    if precision.autocast:
        paddle.set_flags(MIXED_ON_A_GPU)
    return precision


def auto_cast(precision: Precision) -> AbstractContextManager[Any]:
    """Return a fresh context in which the forward pass and the loss run."""
    if not precision.autocast:
        return nullcontext()
    return paddle.amp.auto_cast(level="O1", dtype=precision.compute)


def type_name(dtype: Any) -> str:
    """Return the name of a type of a tensor (``paddle.float32``) or of a program's value (``DataType.FLOAT32``)."""
    return str(dtype).rpartition(".")[2].lower()


def tf32_seen() -> Dict[str, Any]:
    """Return Paddle's TF32 switches by the fields of ``Seen``; a build for CPUs has none."""
    if not paddle.device.is_compiled_with_cuda():
        return {"tf32_matmul": None, "tf32_convolution": None}
    core = paddle.base.core
    return {"tf32_matmul": bool(core.get_cublas_switch()), "tf32_convolution": bool(core.get_cudnn_switch())}


def loss_scaler(precision: Precision, recipe: Recipe) -> Optional[Any]:
    """Return the gradient scaler, or None for a precision that needs none; with a fixed scale it never changes."""
    if not precision.scaled:
        return None
    if recipe.loss_scale is None:
        return paddle.amp.GradScaler()
    return paddle.amp.GradScaler(init_loss_scaling=recipe.loss_scale, use_dynamic_loss_scaling=False)
