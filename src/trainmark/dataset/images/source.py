"""The source of a conversion: the pictures of an image folder or list, with the labels that all workers use."""

import hashlib
import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainmark.dataset.images.folder import require_folder
from trainmark.dataset.images.layout import ListEntry, class_of, find_lists, read_list
from trainmark.dataset.images.manifest import read_manifest
from trainmark.dataset.images.spec import Split
from trainmark.errors import InputError

SUFFIXES = (".jpg", ".jpeg")
"""The pictures that trainmark's workers read; only these are converted."""


@dataclass(frozen=True, slots=True)
class SourcePicture:
    """A picture to convert: ``path`` is relative to the source's folder, ``label`` counts classes from 0."""

    path: str
    label: int
    class_name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class ImageSource:
    """The pictures to convert. ``notes`` describe skipped pictures and other surprises for the user.

    ``digest`` (SHA-256, hexadecimal) covers the names, labels and sizes of the pictures, but no pixels;
    ``training_digest`` is the digest without validation pictures.
    """

    directory: Path
    splits: Mapping[Split, Sequence[SourcePicture]]
    classes: int
    digest: str
    training_digest: str
    notes: tuple[str, ...]


def read_source(path: Path) -> ImageSource:
    """Find the pictures of ``path``: a folder of class folders, one with ``train`` and ``val``, or a list file.

    Classes are numbered in the order of their folder names in the training split, as in the workers; without class
    folders, the labels come from the lists. A list file is read as the training split.

    Raises ``InputError`` if the path is none of these, it has no JPEG file, a list has invalid lines or names a missing
    file, a class of ``val`` is missing from ``train``, or pictures that the manifest names are missing.
    """
    if path.is_file():
        return _from_list_file(path)
    require_folder(path)
    manifest = read_manifest(path)
    source = _from_folder(path)
    found = sum(len(pictures) for pictures in source.splits.values())
    if manifest and found != manifest.images:
        raise InputError(
            f"{path}: has {found} of its {manifest.images} pictures; "
            f"'trainmark data verify {path}' lists the problems"
        )
    return source


def shuffled(pictures: Sequence[SourcePicture], seed: int) -> list[SourcePicture]:
    """Return the pictures in the order of writing, which is the same for every form.

    Readers of TFRecord and RecordIO read files sequentially and shuffle only within a window, so classes must be mixed.
    """
    order = list(pictures)
    random.Random(seed).shuffle(order)  # noqa: S311 -- not a secret
    return order


def _from_list_file(file: Path) -> ImageSource:
    entries = _entries(file.parent, file)
    pictures = [_listed(file.parent, entry) for entry in entries]
    return _source(file.parent, {Split.TRAIN: pictures}, ())


def _from_folder(directory: Path) -> ImageSource:
    lists = {file.stem.removesuffix("_list"): file for file in reversed(find_lists(directory))}
    root = directory / Split.TRAIN
    if not root.is_dir():
        training = lists.get(Split.TRAIN)
        if training is None or _class_folders(directory):
            return _source(directory, {Split.TRAIN: _from_classes(directory, "", _numbers(directory))}, ())
        return _source(directory, _from_lists(directory, lists), ())
    numbers = _numbers(root)
    if not numbers:
        if Split.TRAIN not in lists:
            raise InputError(
                f"{root}: has no class folders, and no list file gives the labels of its pictures"
            )
        return _source(directory, _from_lists(directory, lists), ())
    splits = {Split.TRAIN: _from_classes(directory, f"{Split.TRAIN}/", numbers)}
    notes = []
    validation = directory / Split.VAL
    if _class_folders(validation):
        splits[Split.VAL] = _from_classes(directory, f"{Split.VAL}/", numbers)
    elif Split.VAL in lists:
        entries = _entries(directory, lists[Split.VAL])
        splits[Split.VAL] = [_listed(directory, entry) for entry in entries]
    elif validation.is_dir():
        notes.append(f"{validation} is skipped: it has no class folders and no list {Split.VAL}_list.txt")
    if Split.TRAIN in lists:
        notes += _contradiction(directory, lists[Split.TRAIN], splits[Split.TRAIN])
    return _source(directory, splits, tuple(notes))


def _from_lists(directory: Path, lists: Mapping[str, Path]) -> dict[Split, list[SourcePicture]]:
    return {
        split: [_listed(directory, entry) for entry in _entries(directory, lists[split])]
        for split in Split
        if split in lists
    }


def _class_folders(root: Path) -> list[str]:
    if not root.is_dir():
        return []
    try:
        with os.scandir(root) as entries:
            return sorted(
                entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(".")
            )
    except OSError as error:
        raise InputError(f"{root}: cannot be read ({error.strerror})") from None


def _numbers(root: Path) -> dict[str, int]:
    return {name: number for number, name in enumerate(_class_folders(root))}


def _from_classes(directory: Path, base: str, numbers: Mapping[str, int]) -> list[SourcePicture]:
    pictures = []
    for name in _class_folders(directory / base):
        if name not in numbers:
            raise InputError(f"{directory / base / name}: the training split has no class {name}")
        try:
            with os.scandir(directory / base / name) as entries:
                files = sorted(
                    (entry.name, entry.stat().st_size)
                    for entry in entries
                    if entry.name.lower().endswith(SUFFIXES)
                )
        except OSError as error:
            raise InputError(f"{error.filename or directory}: cannot be read ({error.strerror})") from None
        pictures += [SourcePicture(f"{base}{name}/{file}", numbers[name], name, size) for file, size in files]
    return pictures


def _entries(directory: Path, file: Path) -> Sequence[ListEntry]:
    listed = read_list(directory, file)
    if listed.bad_lines:
        raise InputError(f"{listed.first_bad}: is not 'path label' ({file})")
    return listed.entries


def _listed(directory: Path, entry: ListEntry) -> SourcePicture:
    try:
        size = (directory / entry.path).stat().st_size
    except OSError as error:
        raise InputError(f"{directory / entry.path}: {entry.where} names it ({error.strerror})") from None
    return SourcePicture(entry.path, entry.label, class_of(entry.path) or str(entry.label), size)


def _contradiction(directory: Path, file: Path, pictures: Sequence[SourcePicture]) -> list[str]:
    labels = {picture.path: picture.label for picture in pictures}
    for entry in _entries(directory, file):
        label = labels.get(entry.path, entry.label)
        if label != entry.label:
            return [
                f"{entry.where} gives label {entry.label}, but the order of the class folders gives {label}, "
                f"which is used (to use the list's labels, convert {file})"
            ]
    return []


def _source(
    directory: Path, splits: Mapping[Split, Sequence[SourcePicture]], notes: tuple[str, ...]
) -> ImageSource:
    if not splits.get(Split.TRAIN):
        raise InputError(f"{directory}: holds no JPEG files to train on")
    classes = max(picture.label for pictures in splits.values() for picture in pictures) + 1
    training = {Split.TRAIN: splits[Split.TRAIN]}
    return ImageSource(directory, splits, classes, _digest(splits), _digest(training), notes)


def _digest(splits: Mapping[Split, Sequence[SourcePicture]]) -> str:
    digest = hashlib.sha256()
    for split, pictures in splits.items():
        for picture in pictures:
            line = f"{split}\0{picture.path}\0{picture.label}\0{picture.bytes}\n"
            digest.update(line.encode(errors="surrogateescape"))
    return digest.hexdigest()
