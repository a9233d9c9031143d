"""Packed tokens: files of whole numbers of 2 or 4 bytes, one after another, as nanoGPT and Megatron-LM keep text."""

from typing import TYPE_CHECKING

from trainmark.lazy import attach

if TYPE_CHECKING:
    from trainmark.dataset.resume_state import State
    from trainmark.dataset.tokens.made import TokenSpec, describe, recognise, spec_from
    from trainmark.dataset.tokens.make import make_tokens, state
    from trainmark.dataset.tokens.verification import verify

__all__ = [
    "State",
    "TokenSpec",
    "describe",
    "make_tokens",
    "recognise",
    "spec_from",
    "state",
    "verify",
]

__getattr__ = attach(
    __name__,
    {
        "trainmark.dataset.resume_state": ("State",),
        ".made": ("TokenSpec", "describe", "recognise", "spec_from"),
        ".make": ("make_tokens", "state"),
        ".verification": ("verify",),
    },
)
