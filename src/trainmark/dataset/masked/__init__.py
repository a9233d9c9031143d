"""Sequences with hidden words: TFRecords with the features of BERT's published pre-processing."""

from typing import TYPE_CHECKING

from trainmark.lazy import attach

if TYPE_CHECKING:
    from trainmark.dataset.masked.made import MaskedSpec, describe, recognise, spec_from
    from trainmark.dataset.masked.make import make_masked, state
    from trainmark.dataset.masked.verification import verify
    from trainmark.dataset.resume_state import State

__all__ = [
    "MaskedSpec",
    "State",
    "describe",
    "make_masked",
    "recognise",
    "spec_from",
    "state",
    "verify",
]

__getattr__ = attach(
    __name__,
    {
        ".made": ("MaskedSpec", "describe", "recognise", "spec_from"),
        ".make": ("make_masked", "state"),
        ".verification": ("verify",),
        "trainmark.dataset.resume_state": ("State",),
    },
)
