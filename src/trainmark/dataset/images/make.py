"""Making an image folder: in parallel, the same bytes every time, and never looking complete before it is."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from pydantic import ValidationError

from trainmark.dataset.images.folder import WORK_NAME, ImageFolder, describe
from trainmark.dataset.images.jpeg import encode, encoder_name, find_fault
from trainmark.dataset.images.manifest import DatasetManifest, Recipe, read_manifest
from trainmark.dataset.images.picture import GENERATOR_VERSION, paint
from trainmark.dataset.images.spec import ImageFolderSpec, Picture, counts, pictures
from trainmark.dataset.manifest import (
    MANIFEST_NAME,
    SUMS_NAME,
    format_sums,
    read_sums,
    sha256,
    write_manifest,
)
from trainmark.dataset.problems import Depth
from trainmark.dataset.processes import Progress, spread
from trainmark.dataset.work import Counter, cannot_write, held
from trainmark.errors import InputError, TrainmarkError
from trainmark.files import to_json, write_atomically

_RECIPE_NAME = "recipe.json"
_BATCH = 16
"""Pictures a task: a fifth of a second of work, which is also how long Ctrl-C may have to wait."""


class FolderState(StrEnum):
    """How far the making of a data set has got."""

    ABSENT = "absent"
    UNFINISHED = "unfinished"
    DAMAGED = "damaged"
    """It was finished, and files have been lost since."""
    COMPLETE = "complete"


def folder_state(directory: Path, spec: ImageFolderSpec) -> FolderState:
    """Return how much of the data set ``spec`` is in ``directory``, by names alone; contents are not read.

    Raises ``InputError`` if the folder holds anything else: another data set, or files that are none.
    """
    try:
        if not directory.exists():
            return FolderState.ABSENT
        names = {path.name for path in directory.iterdir()}
    except NotADirectoryError:
        raise InputError(f"{directory}: is a file; a data set is a folder") from None
    except OSError as error:
        raise InputError(f"{directory}: cannot be read ({error.strerror})") from None
    manifest = read_manifest(directory)
    if manifest:
        _require_same(directory, manifest.recipe, spec)
        present = not _missing_lists(directory, spec) and not any(_missing(directory, spec))
        return FolderState.COMPLETE if present else FolderState.DAMAGED
    begun = _read_recipe(directory)
    if begun:
        _require_same(directory, begun, spec)
        return FolderState.UNFINISHED
    if names - {WORK_NAME}:
        raise InputError(
            f"{directory}: is not empty and has no {MANIFEST_NAME}; a data set is made in a folder of its own"
        )
    return FolderState.ABSENT


def make_image_folder(
    directory: Path, spec: ImageFolderSpec, jobs: int, progress: Progress | None = None
) -> ImageFolder:
    """Make the data set ``spec`` in ``directory`` with ``jobs`` processes, and return what is there.

    A complete one is left as it is; an interrupted one is finished, keeping the pictures that are whole; of a
    finished one that has lost files, those are made again. ``progress`` is called with the pictures done, of
    how many. The bytes depend on ``spec``, the generator's version and the encoder, not on ``jobs``.

    Raises ``InputError`` if the folder holds anything else, and ``TrainmarkError`` on a full disk or another
    failure to write; what is there then does not look complete, and the same call goes on.
    """
    if folder_state(directory, spec) is FolderState.COMPLETE:
        return describe(directory)
    done = Counter("pictures", spec.images + spec.val_images, progress)
    work = directory / WORK_NAME
    try:
        with held(work, f"{directory}: another process is making this data set; wait for it"):
            state = folder_state(directory, spec)
            if state is FolderState.DAMAGED:
                _mend(directory, spec, jobs, done)
            elif state is not FolderState.COMPLETE:
                _make(directory, spec, jobs, done)
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise cannot_write(error, directory, done) from None
    return describe(directory)


def _make(directory: Path, spec: ImageFolderSpec, jobs: int, done: Counter) -> None:
    recipe = Recipe(generator=GENERATOR_VERSION, encoder=encoder_name(), spec=spec)
    begun = _read_recipe(directory)
    if begun and begun.encoder != recipe.encoder:
        raise InputError(
            f"{directory}: was begun with {begun.encoder}, and this is {recipe.encoder}; "
            "remove the folder and make the data set anew"
        )
    write_atomically(directory / WORK_NAME / _RECIPE_NAME, to_json(recipe.model_dump(mode="json")))
    todo = list(pictures(spec))
    for folder in {os.path.dirname(picture.path) for picture in todo}:  # noqa: PTH120 -- a million Paths cost seconds
        (directory / folder).mkdir(parents=True, exist_ok=True)
    written = _write_pictures(directory, spec, todo, jobs, done)
    sums = {picture.path: written[picture.path].sha256 for picture in todo}
    for name, text in _list_texts(spec).items():
        write_atomically(directory / name, text)
        sums[name] = sha256(text.encode())
    sums_text = format_sums(sums)
    write_atomically(directory / SUMS_NAME, sums_text)
    manifest = DatasetManifest(
        recipe=recipe,
        images=len(todo),
        bytes=sum(file.bytes for file in written.values()),
        sums_sha256=sha256(sums_text.encode()),
    )
    write_manifest(directory, manifest)


def _mend(directory: Path, spec: ImageFolderSpec, jobs: int, done: Counter) -> None:
    """Make the lost files of a finished data set again; its manifest says what they must be."""
    manifest = read_manifest(directory)
    remedy = "remove the folder and make the data set anew"
    if manifest is None or manifest.recipe.encoder != encoder_name():
        raise InputError(
            f"{directory}: has lost files, and {encoder_name()} cannot make them as they were; {remedy}"
        )
    if not (directory / SUMS_NAME).is_file():
        raise InputError(f"{directory / SUMS_NAME}: is missing; {remedy}")
    todo = list(_missing(directory, spec))
    done.total = len(todo)
    for picture in todo:
        (directory / picture.path).parent.mkdir(parents=True, exist_ok=True)
    written = _write_pictures(directory, spec, todo, jobs, done)
    for name, text in _list_texts(spec).items():
        write_atomically(directory / name, text)
    sums = read_sums(directory)
    for path, file in written.items():
        if sums.get(path) != file.sha256:
            raise TrainmarkError(f"{directory / path}: made again, it is not what {SUMS_NAME} says; {remedy}")


def _missing(directory: Path, spec: ImageFolderSpec) -> Iterator[Picture]:
    return (picture for picture in pictures(spec) if not (directory / picture.path).is_file())


def _missing_lists(directory: Path, spec: ImageFolderSpec) -> bool:
    names = [SUMS_NAME, *(f"{split}_list.txt" for split in counts(spec))]
    return not all((directory / name).is_file() for name in names)


def _list_texts(spec: ImageFolderSpec) -> dict[str, str]:
    lines: dict[str, list[str]] = {f"{split}_list.txt": [] for split in counts(spec)}
    for picture in pictures(spec):
        lines[f"{picture.split}_list.txt"].append(f"{picture.path} {picture.label}\n")
    return {name: "".join(parts) for name, parts in lines.items()}


@dataclass(frozen=True, slots=True)
class _Batch:
    directory: Path
    spec: ImageFolderSpec
    pictures: Sequence[Picture]


@dataclass(frozen=True, slots=True)
class _Written:
    path: str
    sha256: str
    bytes: int


def _write_pictures(
    directory: Path, spec: ImageFolderSpec, todo: Sequence[Picture], jobs: int, done: Counter
) -> dict[str, _Written]:
    size = max(1, min(_BATCH, len(todo) // max(1, jobs)))
    batches = [_Batch(directory, spec, todo[at : at + size]) for at in range(0, len(todo), size)]
    written: dict[str, _Written] = {}
    with closing(spread(_write_batch, batches, jobs)) as results:
        for result in results:
            written.update((file.path, file) for file in result)
            done.add(len(result))
    return written


def _write_batch(batch: _Batch) -> list[_Written]:
    result = []
    for picture in batch.pictures:
        data = _whole_file(batch.directory / picture.path)
        if data is None:
            data = encode(paint(batch.spec, picture), batch.spec.quality)
            _write_picture(batch.directory, picture.path, data)
        result.append(_Written(picture.path, sha256(data), len(data)))
    return result


def _whole_file(path: Path) -> bytes | None:
    """Return what an interrupted call left at ``path``, unless it is no whole picture (after a power cut)."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    return None if find_fault(data, Depth.STRUCTURE) else data


def _write_picture(directory: Path, path: str, data: bytes) -> None:
    temporary = directory / WORK_NAME / f"{os.getpid()}.tmp"
    try:
        temporary.write_bytes(data)
        temporary.replace(directory / path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _read_recipe(directory: Path) -> Recipe | None:
    path = directory / WORK_NAME / _RECIPE_NAME
    try:
        return Recipe.model_validate(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, ValidationError):
        raise InputError(f"{path}: cannot be read; remove the folder and make the data set anew") from None


def _require_same(directory: Path, there: Recipe, spec: ImageFolderSpec) -> None:
    """Raise ``InputError`` unless the data set that is there has this spec; the encoder may be another one."""
    old, new = there.spec.model_dump(mode="json"), spec.model_dump(mode="json")
    differences = [f"{key} {old[key]}, not {new[key]}" for key in new if old[key] != new[key]]
    if there.generator != GENERATOR_VERSION:
        differences.append(f"generator {there.generator}, not {GENERATOR_VERSION}")
    if differences:
        raise InputError(
            f"{directory}: holds another data set ({'; '.join(differences)}); name another folder, or remove this one"
        )
