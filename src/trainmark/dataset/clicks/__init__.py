"""Click logs in the shape of Criteo's: a label, 13 dense fields and 26 categorical ones a sample."""

from typing import TYPE_CHECKING

from trainmark.lazy import attach

if TYPE_CHECKING:
    from trainmark.dataset.clicks.conversion import convert
    from trainmark.dataset.clicks.made import ClickSpec, describe, recognise, spec_from
    from trainmark.dataset.clicks.make import make_clicks, state
    from trainmark.dataset.clicks.verification import verify
    from trainmark.dataset.resume_state import State

__all__ = [
    "ClickSpec",
    "State",
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
        ".made": ("ClickSpec", "describe", "recognise", "spec_from"),
        ".make": ("make_clicks", "state"),
        ".verification": ("verify",),
        "trainmark.dataset.resume_state": ("State",),
    },
)
