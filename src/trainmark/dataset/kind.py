"""The interface of a kind of data set: create, convert and check it, and find the folder to train on."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol

from trainmark.dataset.processes import ProgressListener
from trainmark.errors import InputError


class DatasetKind(Protocol):
    """One kind of data set: ``KIND`` in the ``kind.py`` of its folder. Methods raise ``TrainmarkError`` on failure."""

    base_form: str
    """The form of a suite's ``path``, and the source of conversions to other forms."""

    def training_folder(self, location: Path, form: str, made: bool) -> Path:
        """Return the folder to pass to a program as its training data."""

    def make(
        self, location: Path, values: Mapping[str, int], key: str, jobs: int, progress: ProgressListener
    ) -> None:
        """Create a data set in its base form from the values under ``key`` of a suite, unless it exists."""

    def check_folder(self, location: Path, form: str) -> None:
        """Check that the folder contains a data set in this form."""

    def is_convertible(self, form: str) -> bool:
        """Return whether the kind can convert to this form."""

    def convert(self, source: Path, location: Path, form: str, jobs: int, progress: ProgressListener) -> None:
        """Convert from the base form."""


class FlatFolderKind(ABC):
    """A kind whose data sets are a few files in one folder, which programs read directly.

    ``external_forms`` are forms that trainmark cannot create, convert or check; ``noun`` names the samples in messages.
    """

    base_form: str
    external_forms: Collection[str]
    noun: str

    def training_folder(self, location: Path, _form: str, _made: bool) -> Path:
        """Return the folder itself."""
        return location

    def check_folder(self, location: Path, form: str) -> None:
        """Check names and sizes of files."""
        if form in self.external_forms:
            require_nonempty(location)
        else:
            self.check_own(location, form)

    @abstractmethod
    def check_own(self, location: Path, form: str) -> None:
        """Check that the folder contains a data set in a form that trainmark can create."""

    def is_convertible(self, _form: str) -> bool:
        """Return False: the kind has no other form."""
        return False

    def convert(
        self, source: Path, _location: Path, form: str, _jobs: int, _progress: ProgressListener
    ) -> None:
        """Raise ``InputError``: the kind has no other form."""
        raise InputError(f"{source}: {self.noun} have no form '{form}'")


def require_nonempty(location: Path) -> None:
    """Raise ``InputError`` if the folder is empty or unreadable."""
    try:
        if not any(location.iterdir()):
            raise InputError(f"{location}: is empty")
    except OSError as error:
        raise InputError(f"{location}: cannot be read ({error.strerror})") from None
