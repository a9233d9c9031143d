"""A suite's data sets on this machine: where each lies in each form, and making or converting what is not there."""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

from trainmark import dataset as datasets
from trainmark.dataset import Form
from trainmark.errors import InputError
from trainmark.words.suite import Dataset

TRAINING = "train"
"""The folder of the training images in an ImageNet-like data set."""

Preparing = Callable[[str, int, int], None]
"""Hears what is being prepared, and how many of how many images are done."""


class DataSets:
    """Finds data sets by their names in the suite; ``home`` is trainmark's own folder."""

    def __init__(self, suite: Mapping[str, Dataset], home: Path, cores: int) -> None:
        self._suite = suite
        self._folder = home / "datasets"
        self._cores = cores

    def location(self, name: str, form: Form) -> Path:
        """Return where the data set lies, or will lie, in a form."""
        dataset = self._suite[name]
        if form in _forms(dataset):
            return Path(_forms(dataset)[form])
        if form is Form.IMAGE_FOLDER:
            return Path(dataset.path) if dataset.path else self._folder / _folder_name(name, dataset)
        return self._folder / f"{_folder_name(name, dataset)}.{form}"

    def given(self, name: str, form: Form) -> Path:
        """Return the folder that a program is told; of an image folder that is the training split's."""
        location = self.location(name, form)
        split = location / TRAINING
        made = self._suite[name].make is not None
        return split if form is Form.IMAGE_FOLDER and (made or split.is_dir()) else location

    def prepare(self, name: str, form: Form, preparing: Preparing) -> None:
        """See that the data set is there in the form: make what may be made, and convert what is missing.

        Raises ``TrainmarkError`` with the reason why it cannot be had.
        """
        location = self.location(name, form)
        if form is Form.OFRECORD:
            self._require_ofrecord(name)
            return
        if form in _forms(self._suite[name]):
            found = datasets.describe_converted(location)
            if found.form is not form:
                raise InputError(f"{location}: holds {found.form}, and {form} is needed")
            return
        pictures = self._prepare_pictures(name, preparing)
        if form is Form.IMAGE_FOLDER:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        what = f"converting data set '{name}' to {form}"
        datasets.convert(
            pictures,
            location,
            form,
            jobs=self._cores,
            progress=lambda done, total: preparing(what, done, total),
        )

    def _require_ofrecord(self, name: str) -> None:
        given = _forms(self._suite[name]).get(Form.OFRECORD)
        if given is None:
            raise InputError(
                "is not there as ofrecord, and nothing converts to it: give 'formats: {ofrecord: FOLDER}'"
            )
        datasets.require_ofrecord(Path(given))

    def _prepare_pictures(self, name: str, preparing: Preparing) -> Path:
        dataset, location = self._suite[name], self.location(name, Form.IMAGE_FOLDER)
        if dataset.path is None and dataset.make is None:
            known = ", ".join(_forms(dataset))
            raise InputError(f"is there as {known} only; give the 'path' of its pictures to have other forms")
        if dataset.make is not None:
            spec = datasets.spec_from(dict(dataset.make), f"datasets.{name}.make")
            what = f"making data set '{name}'"
            datasets.make_image_folder(
                location, spec, self._cores, lambda done, total: preparing(what, done, total)
            )
        datasets.describe(location)
        return location


def _forms(dataset: Dataset) -> dict[Form, str]:
    return {Form(form): folder for form, folder in dataset.formats.items()}


def _folder_name(name: str, dataset: Dataset) -> str:
    """Return a name that no other data set has: by what it is made from, or by where its pictures lie."""
    if dataset.path:
        return f"{name}-{hashlib.sha256(dataset.path.encode()).hexdigest()[:12]}"
    made: Mapping[str, object] = dataset.make or {}
    return "-".join([name, *(f"{key[0]}{value}" for key, value in made.items())])
