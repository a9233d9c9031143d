"""The ``precision`` axis in JAX: what is computed in which type, and what a device cannot do."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional

import jax
import jax.numpy as jnp
from flax.training.dynamic_scale import DynamicScale

from ..core.choices import one_of
from ..core.outcomes import UNSUPPORTED, RunError
from ..core.settings import Recipe
from .device import CPU


class Precision(NamedTuple):
    """``compute`` is the type of the layers' inputs and outputs; ``weights`` that in which their weights are kept.

    ``matmul`` is JAX's own word for what an FP32 product or convolution may round its inputs to on a GPU; a CPU
    computes as it is written. Products of 16 bits are left to JAX's default: ``highest`` would be asked of them too.
    ``scaled`` says that the loss is scaled so that gradients do not vanish in FP16.
    """

    compute: Any
    weights: Any
    matmul: Optional[str] = None
    scaled: bool = False


PRECISIONS: Dict[str, Precision] = {
    "fp32": Precision(jnp.float32, jnp.float32, matmul="highest"),
    "tf32": Precision(jnp.float32, jnp.float32, matmul="tensorfloat32"),
    "amp-bf16": Precision(jnp.bfloat16, jnp.float32),
    "amp-fp16": Precision(jnp.float16, jnp.float32, scaled=True),
    "bf16": Precision(jnp.bfloat16, jnp.bfloat16),
}


def biased(product: Any, bias: Any) -> Any:
    """Return the product with its bias, in the product's type.

    They are added in FP32: the gradient of a bias is the sum over all that it is added to, and 16 bits lose it.
    """
    return (product.astype(jnp.float32) + bias).astype(product.dtype)


def choose_precision(name: str) -> Precision:
    """Return the precision, and let all of JAX's products follow it; raise ``RunError`` where there is none."""
    one_of("JAX", "precision", name, PRECISIONS)
    precision = PRECISIONS[name]
    jax.config.update("jax_default_matmul_precision", precision.matmul)
    return precision


def check_generation(name: str, device: Any) -> None:
    """Raise ``RunError`` if a GPU is too old for the precision; a CPU never is."""
    if device.platform == CPU:
        return
    precision, have = PRECISIONS[name], str(device.compute_capability)
    needs_ampere = precision.matmul == "tensorfloat32" or precision.compute == jnp.bfloat16
    if needs_ampere and int(have.split(".", maxsplit=1)[0]) < 8:
        raise RunError(UNSUPPORTED, f"{name} needs compute capability 8.0 or later; this GPU has {have}")


def loss_scale(precision: Precision, recipe: Recipe) -> Optional[DynamicScale]:
    """Return Flax's loss scaling, or None for the precisions that do not scale.

    Its scale, the test for overflow and the choice between old and new weights stay on the device. The defaults
    (65536, doubled after 2000 good steps, halved after a bad one) are also torch's. A fixed scale never grows.
    """
    if not precision.scaled:
        return None
    steps = jnp.zeros((), jnp.int32)
    if recipe.loss_scale is None:
        return DynamicScale(fin_steps=steps, scale=jnp.float32(65536.0))
    never = 2_000_000_000
    return DynamicScale(growth_interval=never, fin_steps=steps, scale=jnp.float32(recipe.loss_scale))
