"""Packed tokens: files of consecutive integers of 2 or 4 bytes, the text format of nanoGPT and Megatron-LM."""

from typing import TYPE_CHECKING

from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.dataset.resume_state import DatasetState
    from trainmark.dataset.tokens.make import make_tokens, state
    from trainmark.dataset.tokens.manifest import TokenSpec, describe, recognise, spec_from
    from trainmark.dataset.tokens.verification import verify

__all__ = [
    "DatasetState",
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
        "trainmark.dataset.resume_state": ("DatasetState",),
        ".manifest": ("TokenSpec", "describe", "recognise", "spec_from"),
        ".make": ("make_tokens", "state"),
        ".verification": ("verify",),
    },
)
