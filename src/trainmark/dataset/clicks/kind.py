"""Click logs as a kind of data set."""

from collections.abc import Mapping
from pathlib import Path

from trainmark.dataset.clicks.conversion import convert
from trainmark.dataset.clicks.make import make_clicks
from trainmark.dataset.clicks.manifest import describe, spec_from
from trainmark.dataset.kind import FlatFolderKind
from trainmark.dataset.processes import ProgressListener
from trainmark.errors import InputError
from trainmark.tasks.recommendation.axes import GIVEN, Form


class ClickSets(FlatFolderKind):
    """Folders of raw records, and their conversions."""

    base_form = Form.RAW
    external_forms = GIVEN
    noun = "clicks"

    def make(
        self, location: Path, values: Mapping[str, int], key: str, _jobs: int, progress: ProgressListener
    ) -> None:
        """Create clicks."""
        make_clicks(location, spec_from(dict(values), key), progress)

    def check_own(self, location: Path, form: str) -> None:
        """Check names, sizes and the form of the files."""
        found = describe(location)
        if found is not None and found.form != form:
            raise InputError(f"{location}: holds {found.form}, but {form} is needed")

    def is_convertible(self, form: str) -> bool:
        """Return whether the form is known."""
        return form in tuple(Form)

    def convert(
        self, source: Path, location: Path, form: str, _jobs: int, progress: ProgressListener
    ) -> None:
        """Convert the samples."""
        convert(source, location, Form(form), progress)


KIND = ClickSets()
