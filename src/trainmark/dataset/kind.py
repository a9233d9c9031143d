"""What a kind of data set offers a suite: making, converting and looking at it, and the folder a program is told."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from trainmark.dataset.processes import ProgressListener


class DatasetKind(Protocol):
    """A folder of this room has one as ``KIND`` in its ``kind.py``. What cannot be had raises ``TrainmarkError``."""

    first: str
    """The form by which a suite's ``path`` names a data set, and from which others are converted."""

    def told(self, location: Path, form: str, made: bool) -> Path:
        """Return the folder that a program is told for its training data."""

    def make(
        self, location: Path, values: Mapping[str, int], key: str, jobs: int, progress: ProgressListener
    ) -> None:
        """Make a data set in its first form by the values under ``key`` of a suite, unless it is there."""

    def look_at(self, location: Path, form: str) -> None:
        """See that a data set that somebody gave lies there in this form."""

    def is_convertible(self, form: str) -> bool:
        """Tell whether anything converts to this form."""

    def convert(self, source: Path, location: Path, form: str, jobs: int, progress: ProgressListener) -> None:
        """Convert from the first form."""
