"""Click logs as a kind of data set."""

from collections.abc import Mapping
from pathlib import Path

from trainmark.dataset.clicks.conversion import convert
from trainmark.dataset.clicks.made import describe, spec_from
from trainmark.dataset.clicks.make import make_clicks
from trainmark.dataset.kind import FewFiles
from trainmark.dataset.processes import ProgressListener
from trainmark.errors import InputError
from trainmark.tasks.recommendation.data import GIVEN, Form


class ClickSets(FewFiles):
    """Folders of raw records, and what is converted from them."""

    first = Form.RAW
    given = GIVEN
    noun = "clicks"

    def make(
        self, location: Path, values: Mapping[str, int], key: str, _jobs: int, progress: ProgressListener
    ) -> None:
        """Make clicks."""
        make_clicks(location, spec_from(dict(values), key), progress)

    def described(self, location: Path, form: str) -> None:
        """Look at names and sizes."""
        found = describe(location)
        if found is not None and found.form != form:
            raise InputError(f"{location}: holds {found.form}, and {form} is needed")

    def is_convertible(self, form: str) -> bool:
        """Tell whether it is one of the forms."""
        return form in tuple(Form)

    def convert(
        self, source: Path, location: Path, form: str, _jobs: int, progress: ProgressListener
    ) -> None:
        """Convert the samples."""
        convert(source, location, Form(form), progress)


KIND = ClickSets()
