"""The number formats of a training step. Light to import: reading a log needs them and no other document."""

from enum import StrEnum


class Precision(StrEnum):
    """The number formats of a training step; ``fp32`` means that TF32 is off.

    ``fp8`` has one scale for each tensor or row.
    """

    FP32 = "fp32"
    TF32 = "tf32"
    AMP_FP16 = "amp-fp16"
    AMP_BF16 = "amp-bf16"
    FP16 = "fp16"
    BF16 = "bf16"
    FP8 = "fp8"

    @property
    def of_products(self) -> "Precision":
        """The format in which matrices are multiplied: that of mixed precision is its narrow one."""
        return {Precision.AMP_FP16: Precision.FP16, Precision.AMP_BF16: Precision.BF16}.get(self, self)

    @property
    def published(self) -> str:
        """The name in published log names and databases: ``amp`` means FP16 there, so BF16 needs another name."""
        return {"amp-fp16": "amp", "amp-bf16": "amp_bf16"}.get(self.value, self.value)


class NarrowPrecision(StrEnum):
    """The narrow formats of published figures and other programs, which no built-in program trains in.

    ``amp-fp8`` has one scale for each tensor or row, ``mxfp8`` and ``nvfp4`` one for each block of a row.
    """

    AMP_FP8 = "amp-fp8"
    MXFP8 = "mxfp8"
    NVFP4 = "nvfp4"

    @property
    def published(self) -> str:
        """The word in log names and databases."""
        return self.value


class UnknownPrecision(StrEnum):
    """The precision of another program that did not state it."""

    UNKNOWN = "unknown"

    @property
    def published(self) -> str:
        """The word in log names and databases."""
        return self.value


SINGLE = frozenset({Precision.FP32, Precision.TF32})
"""Precisions that programs and published names call ``fp32``; the name does not say whether TF32 was off."""

HALF = (frozenset({Precision.FP16, Precision.AMP_FP16}), frozenset({Precision.BF16, Precision.AMP_BF16}))
"""Precisions with one name elsewhere: mixed precision, and training entirely in the narrow type."""
