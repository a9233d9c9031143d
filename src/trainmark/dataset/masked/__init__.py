"""Sequences with hidden words: TFRecords with the features of BERT's published pre-processing."""

from typing import TYPE_CHECKING

from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.dataset.masked.make import make_masked, state
    from trainmark.dataset.masked.manifest import MaskedSpec, describe, recognise, spec_from
    from trainmark.dataset.masked.verification import verify
    from trainmark.dataset.resume_state import DatasetState

__all__ = [
    "DatasetState",
    "MaskedSpec",
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
        ".manifest": ("MaskedSpec", "describe", "recognise", "spec_from"),
        ".make": ("make_masked", "state"),
        ".verification": ("verify",),
        "trainmark.dataset.resume_state": ("DatasetState",),
    },
)
