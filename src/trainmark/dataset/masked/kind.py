"""Sequences with hidden words as a kind of data set."""

from collections.abc import Mapping
from pathlib import Path

from trainmark.dataset.kind import FlatFolderKind
from trainmark.dataset.masked.make import make_masked
from trainmark.dataset.masked.manifest import describe, spec_from
from trainmark.dataset.processes import ProgressListener
from trainmark.tasks.masked_lm.axes import GIVEN, Form


class MaskedSets(FlatFolderKind):
    """Folders of TFRecords with the published features; programs read all files."""

    base_form = Form.MASKED
    external_forms = GIVEN
    noun = "sequences with hidden words"

    def make(
        self, location: Path, values: Mapping[str, int], key: str, _jobs: int, progress: ProgressListener
    ) -> None:
        """Create sequences."""
        make_masked(location, spec_from(values, key), progress)

    def check_own(self, location: Path, _form: str) -> None:
        """Check the names of the files."""
        describe(location)


KIND = MaskedSets()
