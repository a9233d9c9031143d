"""The quick description of an image folder: for run manifests, and as the check before a run."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from trainmark.dataset.images.layout import class_of, files_in, find_lists, is_picture, read_list
from trainmark.dataset.images.manifest import (
    DatasetManifest,
    read_manifest,
    read_unfinished_recipe,
)
from trainmark.dataset.images.spec import ImageFolderSpec
from trainmark.dataset.manifest import MANIFEST_NAME, SUMS_NAME, sha256
from trainmark.dataset.resume_state import WORK_NAME
from trainmark.errors import InputError


@dataclass(frozen=True, slots=True)
class ImageFolder:
    """An image folder. ``spec`` is None unless trainmark created it.

    ``classes`` is the number of class folders or, in a flat layout, of labels in the lists; None if there is neither.
    ``lists`` are the names of the list files.

    ``digest`` (SHA-256, hexadecimal) identifies the data. For a folder that trainmark created it is that of
    ``dataset.json`` without validation pictures, which covers every byte to train on; for any other folder it covers
    the names and sizes of the pictures and the list files, but no pixels.
    """

    directory: Path
    images: int
    classes: int | None
    mean_bytes: float
    digest: str
    lists: tuple[str, ...]
    spec: ImageFolderSpec | None


def describe(directory: Path) -> ImageFolder:
    """Return the description of ``directory``, from names and sizes; open no picture.

    Raises ``InputError`` if it is missing, not a folder, without pictures, has an empty list, is unfinished, or has
    lost pictures that its manifest names.
    """
    require_folder(directory)
    manifest = read_manifest(directory)
    pictures = sorted(path for path in files_in(directory) if is_picture(path))
    lists = tuple(path.name for path in find_lists(directory))
    if manifest:
        return _describe_made(directory, manifest, len(pictures), lists)
    if not pictures:
        raise InputError(f"{directory}: holds no pictures; 'trainmark data make {directory}' makes some")

    digest = hashlib.sha256()
    total = 0
    for path in pictures:
        try:
            size = (directory / path).stat().st_size
        except OSError as error:
            raise InputError(f"{directory / path}: cannot be read ({error.strerror})") from None
        total += size
        digest.update(f"{path}\0{size}\n".encode(errors="surrogateescape"))
    labels: set[int] = set()
    for name in lists:
        read = read_list(directory, directory / name)
        if not read.entries:
            raise InputError(f"{directory / name}: has no line 'path label'")
        labels.update(entry.label for entry in read.entries)
        digest.update(f"{name}\0{sha256((directory / name).read_bytes())}\n".encode())
    classes = len({class_of(path) for path in pictures} - {None}) or len(labels) or None
    return ImageFolder(
        directory, len(pictures), classes, total / len(pictures), digest.hexdigest(), lists, None
    )


def require_folder(directory: Path) -> None:
    """Raise ``InputError`` unless ``directory`` is a folder without an unfinished data set."""
    if not directory.exists():
        raise InputError(
            f"{directory}: no such folder; 'trainmark data make {directory}' makes a data set there"
        )
    if not directory.is_dir():
        raise InputError(f"{directory}: is a file, not a folder of pictures")
    if _interrupted(directory):
        raise InputError(
            f"{directory}: its creation was interrupted; run 'trainmark data make' again with the same options"
        )


def _interrupted(directory: Path) -> bool:
    """Return whether a creation is unfinished; validation pictures are created after the manifest."""
    if not (directory / WORK_NAME).exists():
        return False
    manifest, recipe = read_manifest(directory), read_unfinished_recipe(directory)
    return manifest is None or (recipe is not None and recipe.spec != manifest.recipe.spec)


def _describe_made(
    directory: Path, manifest: DatasetManifest, found: int, lists: tuple[str, ...]
) -> ImageFolder:
    if found != manifest.images or not (directory / SUMS_NAME).is_file() or not lists:
        raise InputError(
            f"{directory}: has {found} of its {manifest.images} pictures and {len(lists)} list files; "
            f"'trainmark data verify {directory}' lists the problems"
        )
    return ImageFolder(
        directory,
        manifest.images,
        manifest.recipe.spec.classes,
        manifest.bytes / manifest.images,
        manifest.training_sha256 or sha256((directory / MANIFEST_NAME).read_bytes()),
        lists,
        manifest.recipe.spec,
    )
