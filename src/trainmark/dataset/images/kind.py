"""Image folders, and the record files converted from them, as a kind of data set."""

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
from trainmark.tasks.image_classification.axes import Form

TRAINING = "train"
"""The folder of the training images in an ImageNet-like data set."""


class ImageSets:
    """Folders of pictures, convertible to TFRecord and RecordIO; OFRecord must come from another program."""

    base_form = Form.IMAGE_FOLDER

    def training_folder(self, location: Path, form: str, made: bool) -> Path:
        """Return the folder of the training split if it exists, else the whole folder."""
        split = location / TRAINING
        return split if form == self.base_form and (made or split.is_dir()) else location

    def make(
        self, location: Path, values: Mapping[str, int], key: str, jobs: int, progress: ProgressListener
    ) -> None:
        """Create an image folder."""
        make_image_folder(location, spec_from(dict(values), key), jobs, progress)

    def check_folder(self, location: Path, form: str) -> None:
        """Check the names and sizes of pictures or record files."""
        if form == self.base_form:
            describe(location)
        elif form == Form.OFRECORD:
            require_ofrecord(location)
        elif (found := describe_converted(location)).form != form:
            raise InputError(f"{location}: holds {found.form}, but {form} is needed")

    def is_convertible(self, form: str) -> bool:
        """Return whether trainmark can write the form: any but OFRecord."""
        return form != Form.OFRECORD

    def convert(self, source: Path, location: Path, form: str, jobs: int, progress: ProgressListener) -> None:
        """Convert the pictures."""
        convert(source, location, Form(form), jobs=jobs, progress=progress)


KIND = ImageSets()
