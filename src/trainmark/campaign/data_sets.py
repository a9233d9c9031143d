"""A suite's data sets on this machine: their folders by format, and creating or converting missing ones."""

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

from trainmark.dataset import DatasetKind, kind_of
from trainmark.errors import InputError
from trainmark.schema.suite import Dataset
from trainmark.tasks import find_task, task_of_model

Preparing = Callable[[str, int, int], None]
"""Receives the description of a preparation, and how many of how many samples are done."""


class DataSets:
    """Finds data sets by their names in the suite; ``home`` is trainmark's own folder."""

    def __init__(self, suite: Mapping[str, Dataset], home: Path, cores: int) -> None:
        self._suite = suite
        self._folder = home / "datasets"
        self._cores = cores

    def location(self, name: str, form: str) -> Path:
        """Return the folder of a data set in a format, whether or not it exists yet."""
        dataset = self._suite[name]
        if form in _forms(dataset):
            return Path(_forms(dataset)[form])
        if form == self._kind(name).base_form:
            return Path(dataset.path) if dataset.path else self._folder / _folder_name(name, dataset)
        return self._folder / f"{_folder_name(name, dataset)}.{form}"

    def given(self, name: str, form: str) -> Path:
        """Return the folder that a program receives for its training data."""
        return self._kind(name).training_folder(
            self.location(name, form), form, self._suite[name].make is not None
        )

    def prepare(self, name: str, form: str, preparing: Preparing) -> None:
        """Make a data set available in a format: create it if the suite allows that, and convert it if needed.

        Raises ``TrainmarkError`` with the reason if that is impossible.
        """
        kind, location = self._kind(name), self.location(name, form)
        if form in _forms(self._suite[name]):
            kind.check_folder(location, form)
            return
        if form != kind.base_form and not kind.is_convertible(form):
            raise InputError(
                f"is missing as {form}, and cannot be converted to it: add 'formats: {{{form}: FOLDER}}'"
            )
        source = self._prepare_first(name, kind, preparing)
        if form == kind.base_form:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        what = f"converting data set '{name}' to {form}"
        kind.convert(source, location, form, self._cores, lambda done, total: preparing(what, done, total))

    def _prepare_first(self, name: str, kind: DatasetKind, preparing: Preparing) -> Path:
        dataset, location = self._suite[name], self.location(name, kind.base_form)
        if dataset.path is None and dataset.make is None:
            known = ", ".join(_forms(dataset))
            raise InputError(
                f"is available only as {known}; add the 'path' of its {kind.base_form}, from which others are converted"
            )
        if dataset.make is not None:
            what = f"making data set '{name}'"
            key = f"datasets.{name}.make"
            kind.make(
                location, dataset.make, key, self._cores, lambda done, total: preparing(what, done, total)
            )
        kind.check_folder(location, kind.base_form)
        return location

    def _kind(self, name: str) -> DatasetKind:
        task = find_task(self._suite[name].task or task_of_model(None))
        if task.data_kind is None:
            raise InputError(f"data set '{name}': the task '{task.name}' has only synthetic data")
        return kind_of(task.data_kind)


def _forms(dataset: Dataset) -> Mapping[str, str]:
    return dataset.formats


def _folder_name(name: str, dataset: Dataset) -> str:
    """Return a name that no other data set has: by its recipe, or by the folder of its base format."""
    if dataset.path:
        return f"{name}-{hashlib.sha256(dataset.path.encode()).hexdigest()[:12]}"
    made: Mapping[str, object] = dataset.make or {}
    return "-".join([name, *(f"{key[0]}{value}" for key, value in made.items())])
