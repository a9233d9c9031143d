"""What a kind of data set offers a suite: making, converting and looking at it, and the folder a program is told."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol

from trainmark.dataset.given import require_given
from trainmark.dataset.processes import ProgressListener
from trainmark.errors import InputError


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


class FewFiles(ABC):
    """A kind whose data sets are a few files in a folder, which programs are told, and that has one form.

    ``given`` are forms that somebody else has made; ``noun`` is what is in the files.
    """

    first: str
    given: Collection[str]
    noun: str

    def told(self, location: Path, _form: str, _made: bool) -> Path:
        """Return the folder itself."""
        return location

    def look_at(self, location: Path, form: str) -> None:
        """Look at names and sizes."""
        if form in self.given:
            require_given(location)
        else:
            self.described(location, form)

    @abstractmethod
    def described(self, location: Path, form: str) -> None:
        """See that a data set of ours lies there in this form."""

    def is_convertible(self, _form: str) -> bool:
        """Tell that there is nothing to convert to."""
        return False

    def convert(
        self, source: Path, _location: Path, form: str, _jobs: int, _progress: ProgressListener
    ) -> None:
        """Refuse."""
        raise InputError(f"{source}: {self.noun} have no form '{form}'")
