"""Image folders as a kind of data set, and the record files made from them."""

from collections.abc import Mapping
from pathlib import Path

from trainmark.dataset.images.conversion import convert
from trainmark.dataset.images.converted import describe_converted
from trainmark.dataset.images.folder import describe
from trainmark.dataset.images.make import make_image_folder
from trainmark.dataset.images.ofrecord import require_ofrecord
from trainmark.dataset.images.spec import spec_from
from trainmark.dataset.processes import ProgressListener
from trainmark.errors import InputError
from trainmark.tasks.image_classification.data import Form

TRAINING = "train"
"""The folder of the training images in an ImageNet-like data set."""


class ImageSets:
    """Folders of pictures; TFRecord and RecordIO are converted from them, and OFRecord can only be given."""

    first = Form.IMAGE_FOLDER

    def told(self, location: Path, form: str, made: bool) -> Path:
        """Return the training split of a folder that has one, else the whole."""
        split = location / TRAINING
        return split if form == self.first and (made or split.is_dir()) else location

    def make(
        self, location: Path, values: Mapping[str, int], key: str, jobs: int, progress: ProgressListener
    ) -> None:
        """Make an image folder."""
        make_image_folder(location, spec_from(dict(values), key), jobs, progress)

    def look_at(self, location: Path, form: str) -> None:
        """Read what describes the pictures or the record files."""
        if form == self.first:
            describe(location)
        elif form == Form.OFRECORD:
            require_ofrecord(location)
        elif (found := describe_converted(location)).form != form:
            raise InputError(f"{location}: holds {found.form}, and {form} is needed")

    def is_convertible(self, form: str) -> bool:
        """Tell that nothing of ours writes OFRecord."""
        return form != Form.OFRECORD

    def convert(self, source: Path, location: Path, form: str, jobs: int, progress: ProgressListener) -> None:
        """Convert the pictures."""
        convert(source, location, Form(form), jobs=jobs, progress=progress)


KIND = ImageSets()
