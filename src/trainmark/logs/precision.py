"""Conversion of printed settings to trainmark's precisions; shared by the formats."""

import re

from trainmark.schema.precision import Precision

_YES, _NO = ("true", "1", "yes"), ("false", "0", "no", "none")


def is_on(word: str) -> bool | None:
    """Return whether a switch is printed as on; ``None`` for a word that is no spelling of on or off."""
    lowered = word.strip("'\" ").lower()
    return True if lowered in _YES else False if lowered in _NO else None


def precision_from_switch(word: str | None, when_on: Precision) -> Precision | None:
    """Return ``when_on`` for a switch printed as on, ``fp32`` for off, ``None`` if it was not printed.

    ``fp32`` is the requested precision; whether TF32 was on is decided later, from the device.
    """
    on = is_on(word) if word is not None else None
    return None if on is None else when_on if on else Precision.FP32


_MIXED = re.compile(
    rb"--(?:use_|enable_)?(?:fp16|amp)\b(?![ =](?:False|false|0|off))"
    rb"|\b(?:fp16|use_(?:amp|fp16)) *[:=] *['\"]?True|\bmixed_precision *[:=] *['\"]?(?:True|fp16|bf16)"
    rb"|\b(?i:use amp to train|training in mixed precision)|\bAMP level"
)
_NOT_MIXED = re.compile(rb"\b(?:use_)?(?:fp16|amp) *[:=] *['\"]?(?:False|None|off)\b", re.IGNORECASE)


def mentions_mixed_precision(text: bytes) -> bool | None:
    """Return whether ``text`` (output or a command) enables mixed precision.

    ``None`` if it does not mention it: a switch may be in a file that is not printed.
    """
    words = text.lower().replace(b"ampl", b"")  # "samples" and "examples" occur in every line
    if not any(word in words for word in (b"amp", b"fp16", b"mixed")):
        return None
    if _MIXED.search(text):
        return True
    return False if _NOT_MIXED.search(text) else None
