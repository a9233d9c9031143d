"""The precisions, the same in every framework.

A backend lists those that it has; ``gaps.json`` has the reasons why others are missing.
"""

from collections.abc import Mapping
from typing import NamedTuple

from .outcomes import UNSUPPORTED, RunError

FP32, FP16, BF16 = "float32", "float16", "bfloat16"


class Precision(NamedTuple):
    """The types of a step."""

    compute: str  # of products, and of what goes into the network
    weights: str = FP32  # as they are stored
    tf32: bool = False  # a GPU may round the inputs of FP32 matrix products and convolutions to TF32
    fp8: bool = False  # of the operands of the blocks' products, whose results are of ``compute``

    @property
    def full_fp32(self) -> bool:
        """Return whether products have all digits of FP32."""
        return self.compute == FP32 and not self.tf32

    @property
    def mixed(self) -> bool:
        """Return whether the weights are cast for each use."""
        return self.compute != self.weights

    @property
    def scaled(self) -> bool:
        """Return whether the loss is scaled, so that gradients do not vanish in FP16."""
        return self.compute == FP16

    @property
    def capability(self) -> tuple[int, int]:
        """Return the least compute capability of a GPU that has the types."""
        if self.fp8:
            return (9, 0)
        return (8, 0) if self.tf32 or self.compute == BF16 else (0, 0)


PRECISIONS: Mapping[str, Precision] = {
    "fp32": Precision(FP32),
    "tf32": Precision(FP32, tf32=True),
    "amp-fp16": Precision(FP16),
    "amp-bf16": Precision(BF16),
    "fp16": Precision(FP16, FP16),
    "bf16": Precision(BF16, BF16),
    "fp8": Precision(BF16, fp8=True),
}


def require_capability(name: str, found: tuple[int, int], least: tuple[int, int] = (0, 0)) -> None:
    """Raise ``RunError`` (unsupported) for a GPU too old for a precision, or older than the framework's ``least``."""
    needed = max(PRECISIONS[name].capability, least)
    if found < needed:
        have, need = (".".join(map(str, version)) for version in (found, needed))
        raise RunError(UNSUPPORTED, f"{name} needs compute capability {need} or later; this GPU has {have}")
