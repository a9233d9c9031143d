"""Sequences with hidden words as a kind of data set."""

from collections.abc import Mapping
from pathlib import Path

from trainmark.dataset.given import require_given
from trainmark.dataset.masked.made import describe, spec_from
from trainmark.dataset.masked.make import make_masked
from trainmark.dataset.processes import ProgressListener
from trainmark.errors import InputError
from trainmark.tasks.masked_lm.data import GIVEN, Form


class MaskedSets:
    """Folders of TFRecords with the published features: there is one form of them."""

    first = Form.MASKED

    def told(self, location: Path, _form: str, _made: bool) -> Path:
        """Return the folder itself; a program reads all of its ``*.tfrecord``."""
        return location

    def make(
        self, location: Path, values: Mapping[str, int], key: str, _jobs: int, progress: ProgressListener
    ) -> None:
        """Make sequences."""
        make_masked(location, spec_from(values, key), progress)

    def look_at(self, location: Path, form: str) -> None:
        """Look at names."""
        if form in GIVEN:
            require_given(location)
        else:
            describe(location)

    def is_convertible(self, _form: str) -> bool:
        """Tell that there is nothing to convert to."""
        return False

    def convert(
        self, source: Path, _location: Path, form: str, _jobs: int, _progress: ProgressListener
    ) -> None:
        """Refuse."""
        raise InputError(f"{source}: sequences with hidden words have no form '{form}'")


KIND = MaskedSets()
