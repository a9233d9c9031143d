"""Click logs as a kind of data set."""

from collections.abc import Mapping
from pathlib import Path

from trainmark.dataset.clicks.made import describe, spec_from
from trainmark.dataset.clicks.make import make_clicks
from trainmark.dataset.processes import ProgressListener
from trainmark.errors import InputError
from trainmark.tasks.recommendation.data import Form


class ClickSets:
    """Folders of raw records, and what is converted from them."""

    first = Form.RAW

    def told(self, location: Path, _form: str, _made: bool) -> Path:
        """Return the folder itself."""
        return location

    def make(
        self, location: Path, values: Mapping[str, int], key: str, _jobs: int, progress: ProgressListener
    ) -> None:
        """Make clicks."""
        make_clicks(location, spec_from(dict(values), key), progress)

    def look_at(self, location: Path, _form: str) -> None:
        """Look at names and sizes."""
        describe(location)

    def is_convertible(self, _form: str) -> bool:
        """Tell that there is nothing to convert to."""
        return False

    def convert(
        self, source: Path, _location: Path, form: str, _jobs: int, _progress: ProgressListener
    ) -> None:
        """Refuse."""
        raise InputError(f"{source}: clicks have no form '{form}'")


KIND = ClickSets()
