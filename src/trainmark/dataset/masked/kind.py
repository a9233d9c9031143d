"""Sequences with hidden words as a kind of data set."""

from collections.abc import Mapping
from pathlib import Path

from trainmark.dataset.kind import FewFiles
from trainmark.dataset.masked.made import describe, spec_from
from trainmark.dataset.masked.make import make_masked
from trainmark.dataset.processes import ProgressListener
from trainmark.tasks.masked_lm.data import GIVEN, Form


class MaskedSets(FewFiles):
    """Folders of TFRecords with the published features, of which a program reads all."""

    first = Form.MASKED
    given = GIVEN
    noun = "sequences with hidden words"

    def make(
        self, location: Path, values: Mapping[str, int], key: str, _jobs: int, progress: ProgressListener
    ) -> None:
        """Make sequences."""
        make_masked(location, spec_from(values, key), progress)

    def described(self, location: Path, _form: str) -> None:
        """Look at names and sizes."""
        describe(location)


KIND = MaskedSets()
