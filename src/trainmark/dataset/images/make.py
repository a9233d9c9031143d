"""Create an image folder: in parallel, reproducible, and marked as complete only at the end."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from trainmark.dataset.images.folder import ImageFolder, describe
from trainmark.dataset.images.jpeg import encode, encoder_name, find_fault
from trainmark.dataset.images.manifest import (
    RECIPE_NAME,
    DatasetManifest,
    ImageRecipe,
    read_manifest,
    read_unfinished_recipe,
)
from trainmark.dataset.images.picture import GENERATOR_VERSION, paint
from trainmark.dataset.images.spec import ImageFolderSpec, Picture, Split, counts, pictures
from trainmark.dataset.manifest import (
    MANIFEST_NAME,
    SUMS_NAME,
    format_sums,
    read_sums,
    sha256,
    write_manifest,
)
from trainmark.dataset.problems import Depth
from trainmark.dataset.processes import ProgressListener, map_in_processes
from trainmark.dataset.resume_state import WORK_NAME
from trainmark.dataset.work import ProgressCounter, exclusive_folder, write_error
from trainmark.errors import InputError, TrainmarkError
from trainmark.files import to_json, write_atomically

_BATCH = 16
"""Pictures per task: a fifth of a second of work, which is the longest delay of Ctrl-C."""


class FolderState(StrEnum):
    """The progress of a data set's creation."""

    ABSENT = "absent"
    UNFINISHED = "unfinished"
    """Its creation was interrupted, or it lacks the requested validation pictures."""
    DAMAGED = "damaged"
    """It was complete, but files are missing now."""
    COMPLETE = "complete"


def folder_state(directory: Path, spec: ImageFolderSpec) -> FolderState:
    """Return the state of the data set ``spec`` in ``directory``, from names; read no content.

    Raises ``InputError`` if the folder contains anything else: another data set, or other files.
    """
    try:
        if not directory.exists():
            return FolderState.ABSENT
        names = {path.name for path in directory.iterdir()}
    except NotADirectoryError:
        raise InputError(f"{directory}: is a file; a data set is a folder") from None
    except OSError as error:
        raise InputError(f"{directory}: cannot be read ({error.strerror})") from None
    manifest, unfinished = read_manifest(directory), read_unfinished_recipe(directory)
    for recipe in (unfinished, manifest.recipe if manifest else None):
        if recipe:
            _require_same(directory, recipe, spec)
    if manifest:
        there = manifest.recipe.spec
        if _missing_lists(directory, there) or any(_missing(directory, there)):
            return FolderState.DAMAGED
        return FolderState.COMPLETE if there == spec else FolderState.UNFINISHED
    if unfinished:
        return FolderState.UNFINISHED
    if names - {WORK_NAME}:
        raise InputError(
            f"{directory}: is not empty and has no {MANIFEST_NAME}; a data set needs an empty or new folder"
        )
    return FolderState.ABSENT


def make_image_folder(
    directory: Path, spec: ImageFolderSpec, jobs: int, progress: ProgressListener | None = None
) -> ImageFolder:
    """Create the data set ``spec`` in ``directory`` with ``jobs`` processes, and return its description.

    A complete data set is left unchanged; an interrupted one is resumed with its intact pictures; missing files of a
    complete one are recreated; missing validation pictures are added without changing its ``digest``. ``progress`` is
    called with (pictures done, total). The bytes depend on ``spec``, the generator's version and the encoder, not on
    ``jobs``.

    Raises ``InputError`` if the folder contains anything else, and ``TrainmarkError`` on a full disk or another write
    error, after which the data set is marked as unfinished and the same call resumes.
    """
    if folder_state(directory, spec) is FolderState.COMPLETE:
        return describe(directory)
    done = ProgressCounter("pictures", spec.images + spec.val_images, progress)
    work = directory / WORK_NAME
    try:
        with exclusive_folder(work, f"{directory}: another process is making this data set; wait for it"):
            if folder_state(directory, spec) is FolderState.DAMAGED:
                _repair(directory, jobs, done)
            if folder_state(directory, spec) is not FolderState.COMPLETE:
                _make(directory, spec, jobs, done)
            shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise write_error(error, directory, done) from None
    return describe(directory)


def _make(directory: Path, spec: ImageFolderSpec, jobs: int, done: ProgressCounter) -> None:
    """Create the training pictures, publish them as a data set, and then add the validation pictures."""
    manifest = read_manifest(directory)
    recipe = _begin(directory, spec, manifest)
    if manifest is None:
        training_only = recipe.model_copy(update={"spec": spec.model_copy(update={"val_images": 0})})
        made = _make_split(directory, spec, Split.TRAIN, jobs, done)
        manifest = _publish(directory, training_only, made.sums, made.bytes)
    else:
        done.count, done.total = 0, spec.val_images
    if manifest.recipe.spec == spec:
        return
    # Compare the training part only: an interrupted call may have added validation pictures already.
    sums = {path: digest for path, digest in read_sums(directory).items() if not path.startswith(Split.VAL)}
    if sha256(format_sums(sums).encode()) != manifest.sums_sha256:
        raise InputError(
            f"{directory / SUMS_NAME}: its SHA-256 differs from the one in {MANIFEST_NAME}; "
            f"'trainmark data verify {directory}' lists the problems"
        )
    made = _make_split(directory, spec, Split.VAL, jobs, done)
    training = sha256((directory / MANIFEST_NAME).read_bytes())
    _publish(directory, recipe, sums | made.sums, manifest.bytes + made.bytes, training)


def _begin(directory: Path, spec: ImageFolderSpec, manifest: DatasetManifest | None) -> ImageRecipe:
    """Write the recipe of the creation; existing training pictures stay unchanged."""
    here, unfinished = encoder_name(), read_unfinished_recipe(directory)
    split = Split.VAL if manifest else Split.TRAIN
    there = os.path.lexists(directory / split)
    if there and unfinished is None:
        raise InputError(
            f"{directory / split}: is not part of this data set; move it away and run the same command again"
        )
    if there and unfinished and unfinished.encoder_of(split) != here:
        raise InputError(
            f"{directory}: was started with {unfinished.encoder_of(split)}, but the encoder is now {here}; "
            f"remove {directory / split} and run the same command again"
        )
    recipe = ImageRecipe(generator=GENERATOR_VERSION, encoder=here, spec=spec)
    if manifest and manifest.recipe.encoder != here:
        recipe = recipe.model_copy(update={"encoder": manifest.recipe.encoder, "val_encoder": here})
    write_atomically(directory / WORK_NAME / RECIPE_NAME, to_json(recipe.model_dump(mode="json")))
    return recipe


@dataclass(frozen=True, slots=True)
class _SplitFiles:
    """The checksums of a split's pictures and its list, and the total bytes of its pictures."""

    sums: dict[str, str]
    bytes: int


def _make_split(
    directory: Path, spec: ImageFolderSpec, split: Split, jobs: int, done: ProgressCounter
) -> _SplitFiles:
    todo = [picture for picture in pictures(spec) if picture.split is split]
    for folder in {os.path.dirname(picture.path) for picture in todo}:  # noqa: PTH120 -- a million Paths cost seconds
        (directory / folder).mkdir(parents=True, exist_ok=True)
    written = _write_pictures(directory, spec, todo, jobs, done)
    name, text = _list_name(split), _list_text(spec, split)
    write_atomically(directory / name, text)
    sums = {picture.path: written[picture.path].sha256 for picture in todo}
    return _SplitFiles({**sums, name: sha256(text.encode())}, sum(file.bytes for file in written.values()))


def _publish(
    directory: Path, recipe: ImageRecipe, sums: Mapping[str, str], size: int, training: str | None = None
) -> DatasetManifest:
    text = format_sums(sums)
    write_atomically(directory / SUMS_NAME, text)
    manifest = DatasetManifest(
        recipe=recipe,
        images=sum(counts(recipe.spec).values()),
        bytes=size,
        sums_sha256=sha256(text.encode()),
        training_sha256=training,
    )
    write_manifest(directory, manifest)
    return manifest


def _repair(directory: Path, jobs: int, done: ProgressCounter) -> None:
    """Recreate the missing files of a complete data set as its manifest describes them."""
    manifest = read_manifest(directory)
    assert manifest is not None
    spec, remedy = manifest.recipe.spec, "remove the folder and make the data set again"
    if not (directory / SUMS_NAME).is_file():
        raise InputError(f"{directory / SUMS_NAME}: is missing; {remedy}")
    todo = list(_missing(directory, spec))
    if {manifest.recipe.encoder_of(picture.split) for picture in todo} - {encoder_name()}:
        raise InputError(
            f"{directory}: files are missing, and {encoder_name()} cannot reproduce them; {remedy}"
        )
    done.total = len(todo)
    for picture in todo:
        (directory / picture.path).parent.mkdir(parents=True, exist_ok=True)
    written = _write_pictures(directory, spec, todo, jobs, done)
    for split in counts(spec):
        write_atomically(directory / _list_name(split), _list_text(spec, split))
    sums = read_sums(directory)
    for path, file in written.items():
        if sums.get(path) != file.sha256:
            raise TrainmarkError(
                f"{directory / path}: its recreated content does not match {SUMS_NAME}; {remedy}"
            )


def _missing(directory: Path, spec: ImageFolderSpec) -> Iterator[Picture]:
    return (picture for picture in pictures(spec) if not (directory / picture.path).is_file())


def _missing_lists(directory: Path, spec: ImageFolderSpec) -> bool:
    names = [SUMS_NAME, *map(_list_name, counts(spec))]
    return not all((directory / name).is_file() for name in names)


def _list_name(split: Split) -> str:
    return f"{split}_list.txt"


def _list_text(spec: ImageFolderSpec, split: Split) -> str:
    return "".join(
        f"{picture.path} {picture.label}\n" for picture in pictures(spec) if picture.split is split
    )


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
    directory: Path, spec: ImageFolderSpec, todo: Sequence[Picture], jobs: int, done: ProgressCounter
) -> dict[str, _Written]:
    size = max(1, min(_BATCH, len(todo) // max(1, jobs)))
    batches = [_Batch(directory, spec, todo[at : at + size]) for at in range(0, len(todo), size)]
    written: dict[str, _Written] = {}
    with closing(map_in_processes(_write_batch, batches, jobs)) as results:
        for result in results:
            written.update((file.path, file) for file in result)
            done.add(len(result))
    return written


def _write_batch(batch: _Batch) -> list[_Written]:
    result = []
    for picture in batch.pictures:
        data = _intact_file(batch.directory / picture.path)
        if data is None:
            data = encode(paint(batch.spec, picture), batch.spec.quality)
            _write_picture(batch.directory, picture.path, data)
        result.append(_Written(picture.path, sha256(data), len(data)))
    return result


def _intact_file(path: Path) -> bytes | None:
    """Return the picture that an interrupted call left at ``path``; None if missing or damaged (by a power cut)."""
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


def _require_same(directory: Path, there: ImageRecipe, spec: ImageFolderSpec) -> None:
    """Raise ``InputError`` unless the existing data set has this spec, apart from missing validation pictures.

    The encoder may differ.
    """
    old, new = there.spec.model_dump(mode="json"), spec.model_dump(mode="json")
    if not old["val_images"]:
        del new["val_images"]
    differences = [
        f"{key.replace('val_images', 'validation')} {old[key]}, not {new[key]}"
        for key in new
        if old[key] != new[key]
    ]
    if there.generator != GENERATOR_VERSION:
        differences.append(f"generator {there.generator}, not {GENERATOR_VERSION}")
    if differences:
        raise InputError(
            f"{directory}: holds another data set ({'; '.join(differences)}); name another folder, or remove this one"
        )
