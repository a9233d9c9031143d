"""From the words that programs print to the precisions that trainmark knows; shared by the formats."""

from trainmark.words.case import Precision

_YES, _NO = ("true", "1", "yes"), ("false", "0", "no", "none")


def by_switch(word: str | None, when_on: Precision) -> Precision | None:
    """Return ``when_on`` for a switch printed as on, ``fp32`` for off, ``None`` where it was not printed.

    ``fp32`` here is what was asked for; whether TF32 was on is judged later, from the device.
    """
    if word is None:
        return None
    lowered = word.strip("'\" ").lower()
    if lowered in _YES:
        return when_on
    return Precision.FP32 if lowered in _NO else None


def of_paddle(use_amp: str | None, pure_fp16: str | None) -> Precision | None:
    """Return Paddle's precision from ``use_amp`` and ``use_pure_fp16`` (level O2)."""
    if by_switch(pure_fp16, Precision.FP16) is Precision.FP16:
        return Precision.FP16
    return by_switch(use_amp, Precision.AMP_FP16)
