"""Click logs in the shape of Criteo's: a label, 13 dense and 26 categorical fields per sample."""

from typing import TYPE_CHECKING

from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.dataset.clicks.conversion import convert
    from trainmark.dataset.clicks.make import make_clicks, state
    from trainmark.dataset.clicks.manifest import ClickSpec, describe, recognise, spec_from
    from trainmark.dataset.clicks.verification import verify
    from trainmark.dataset.resume_state import DatasetState

__all__ = [
    "ClickSpec",
    "DatasetState",
    "convert",
    "describe",
    "make_clicks",
    "recognise",
    "spec_from",
    "state",
    "verify",
]

__getattr__ = attach(
    __name__,
    {
        ".conversion": ("convert",),
        ".manifest": ("ClickSpec", "describe", "recognise", "spec_from"),
        ".make": ("make_clicks", "state"),
        ".verification": ("verify",),
        "trainmark.dataset.resume_state": ("DatasetState",),
    },
)
