"""Convert an image folder to TFRecord shards or RecordIO: parallel, resumable and atomic.

All files are written into a hidden folder next to the destination, ``.NAME.converting``, which is renamed to the
destination when it is complete.
"""

import errno
import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from trainmark.dataset.images.converted import (
    WRITER_VERSION,
    ConversionRecipe,
    Converted,
    ConvertedManifest,
    describe_converted,
    read_converted,
)
from trainmark.dataset.images.features import FIRST_LABEL
from trainmark.dataset.images.join import join_parts
from trainmark.dataset.images.parts import RecordPart, finished_part, write_part
from trainmark.dataset.images.shards import Shard, tfrecord_split
from trainmark.dataset.images.source import ImageSource, read_source, shuffled
from trainmark.dataset.images.spec import Split
from trainmark.dataset.manifest import (
    MANIFEST_NAME,
    SUMS_NAME,
    format_sums,
    sha256,
    sha256_of_file,
    write_manifest,
)
from trainmark.dataset.processes import ProgressListener, map_in_processes
from trainmark.dataset.work import ProgressCounter, exclusive_folder, write_error
from trainmark.errors import InputError
from trainmark.files import to_json, write_atomically
from trainmark.tasks.image_classification.axes import Form

_IMAGES_PER_SHARD = 1251
"""As in ImageNet: 1 281 167 training pictures in 1024 shards."""
_FEWEST_SHARDS, _MOST_SHARDS = 8, 1024
_TRAINING_PER_VALIDATION_SHARD = 8
"""As in ImageNet: 1024 training shards and 128 validation shards."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """The result of a conversion: the data set, and notes on pictures that were left out or written differently."""

    converted: Converted
    manifest: ConvertedManifest
    notes: tuple[str, ...]
    existed: bool


def convert(
    source: Path,
    destination: Path,
    to: Form,
    *,
    shards: int | None = None,
    seed: int = 0,
    jobs: int = 1,
    progress: ProgressListener | None = None,
) -> Conversion:
    """Write the pictures of ``source`` (see ``read_source``) to ``destination`` in the form ``to``.

    ``shards`` is the number of training files of TFRecord: by default one per 1251 pictures, at least 8 and at most
    1024. ``seed`` determines the order of the training pictures. The bytes depend on neither ``jobs`` nor
    interruptions. A complete conversion is left unchanged, an interrupted one is resumed. ``progress`` is called with
    (pictures done, total).

    Raises ``InputError`` if the source is unusable, one of its files is damaged, or the destination contains anything
    else; ``TrainmarkError`` on a full disk or another write error, after which the same call resumes.
    """
    if to is Form.IMAGE_FOLDER:
        raise InputError("an image folder is the source of conversions; convert to tfrecord or recordio")
    if to is Form.OFRECORD:
        raise InputError(
            "trainmark cannot convert to ofrecord; OneFlow-Benchmark's tool does (imagenet_ofrecord.py)"
        )
    found = read_source(source)
    target = destination.resolve()
    if target == found.directory.resolve() or found.directory.resolve() in target.parents:
        raise InputError(f"{destination}: is inside {found.directory}; name a folder outside the pictures")
    recipe = ConversionRecipe(
        writer=WRITER_VERSION,
        form=to,
        source_digest=found.digest,
        seed=seed,
        shards=_shards(shards, len(found.splits[Split.TRAIN])) if to is Form.TFRECORD else 1,
    )
    notes = found.notes
    there = _complete(destination, recipe, found.training_digest)
    if there and there.recipe != recipe:
        notes += (
            f"{destination} was converted from the training pictures only; remove it to convert the others too",
        )
    work = destination.parent / f".{destination.name}.converting"
    if there is None:
        done = ProgressCounter("pictures", sum(len(pictures) for pictures in found.splits.values()), progress)
        try:
            with exclusive_folder(work, f"{destination}: another process is converting to it; wait for it"):
                (work / "data").mkdir(exist_ok=True)
                _convert(found, recipe, work, jobs, done)
                _publish(work / "data", destination)
        except OSError as error:
            raise write_error(error, destination, done) from None
    shutil.rmtree(work, ignore_errors=True)
    converted = describe_converted(destination)
    assert converted.manifest is not None
    return Conversion(converted, converted.manifest, notes, there is not None)


def _shards(requested: int | None, images: int) -> int:
    if requested is None:
        return min(images, max(_FEWEST_SHARDS, min(_MOST_SHARDS, -(-images // _IMAGES_PER_SHARD))))
    if not 1 <= requested <= images:
        raise InputError(
            f"{requested} shards: there must be at least 1 and at most {images}, the number of pictures"
        )
    return requested


def _complete(destination: Path, recipe: ConversionRecipe, training_digest: str) -> ConvertedManifest | None:
    """Return the manifest if the conversion exists, None if the destination is missing or empty.

    A conversion from before the source got validation pictures counts, because its training data is the same.
    """
    if not destination.exists():
        return None
    if not destination.is_dir():
        raise InputError(f"{destination}: is a file; a data set is a folder")
    if not any(destination.iterdir()):
        return None
    manifest = read_converted(destination)
    if manifest is None:
        raise InputError(
            f"{destination}: is not empty and has no {MANIFEST_NAME}; name an empty or new folder"
        )
    if manifest.recipe != recipe.model_copy(update={"source_digest": training_digest}):
        _require_same(destination, manifest.recipe, recipe)
    describe_converted(destination)
    return manifest


def _convert(
    source: ImageSource, recipe: ConversionRecipe, work: Path, jobs: int, done: ProgressCounter
) -> None:
    _begin(work, recipe)
    parts = _plan(source, recipe, work)
    written = {part.name: finished for part in parts if (finished := finished_part(part))}
    for finished in written.values():
        done.add(finished.records)
    todo = [part for part in parts if part.name not in written]
    with closing(map_in_processes(write_part, todo, jobs)) as results:
        for result in results:
            written[result.name] = result
            done.add(result.records)
    sums: dict[str, str] = {}
    if recipe.form is Form.TFRECORD:
        for part in parts:
            sums[part.name] = written[part.name].sha256
            sums[part.index] = sha256((work / "data" / part.index).read_bytes())
    else:
        for split in source.splits:
            pieces = [written[part.name] for part in parts if part.split is split]
            names = join_parts(work, split, pieces)
            sums |= {name: sha256_of_file(work / "data" / name) for name in names}
    text = format_sums(sums)
    write_atomically(work / "data" / SUMS_NAME, text)
    manifest = ConvertedManifest(
        recipe=recipe,
        classes=source.classes,
        first_label=FIRST_LABEL if recipe.form is Form.TFRECORD else 0,
        records={split: len(pictures) for split, pictures in source.splits.items()},
        bytes=sum(done.bytes for done in written.values()),
        encoded_anew=tuple(sorted(path for done in written.values() for path in done.encoded_anew)),
        sums_sha256=sha256(text.encode()),
    )
    write_manifest(work / "data", manifest)


def _plan(source: ImageSource, recipe: ConversionRecipe, work: Path) -> list[RecordPart]:
    """Return the parts to write, one task each: shards, or equal pieces of a future RecordIO file."""
    parts = []
    for split, found in source.splits.items():
        pictures = shuffled(found, recipe.seed) if split is Split.TRAIN else list(found)
        count = _parts(recipe, split, len(pictures))
        for number, (begin, end) in enumerate(_spans(len(pictures), count)):
            word = tfrecord_split(split) if recipe.form is Form.TFRECORD else split.value
            name = Shard(word, number, count).name
            parts.append(
                RecordPart(work, source.directory, recipe.form, split, name, begin, pictures[begin:end])
            )
    return parts


def _parts(recipe: ConversionRecipe, split: Split, images: int) -> int:
    if recipe.form is Form.RECORDIO:
        return -(-images // _IMAGES_PER_SHARD)
    if split is Split.TRAIN:
        return recipe.shards
    return max(1, min(images, recipe.shards // _TRAINING_PER_VALIDATION_SHARD))


def _spans(images: int, count: int) -> Iterator[tuple[int, int]]:
    for number in range(count):
        yield images * number // count, images * (number + 1) // count


def _begin(work: Path, recipe: ConversionRecipe) -> None:
    """Write the recipe into the work folder; raise ``InputError`` if it contains another one."""
    path = work / "recipe.json"
    try:
        recorded = ConversionRecipe.model_validate(json.loads(path.read_bytes()))
    except FileNotFoundError:
        recorded = recipe
    except (ValueError, ValidationError):
        raise InputError(f"{path}: cannot be read; remove {work} and convert again") from None
    _require_same(work, recorded, recipe)
    write_atomically(path, to_json(recipe.model_dump(mode="json")))


def _require_same(where: Path, there: ConversionRecipe, requested: ConversionRecipe) -> None:
    old, new = there.model_dump(mode="json"), requested.model_dump(mode="json")
    differences = [
        "other pictures" if key == "source_digest" else f"{key} {old[key]}, not {new[key]}"
        for key in new
        if old[key] != new[key]
    ]
    if differences:
        raise InputError(
            f"{where}: holds another conversion ({'; '.join(differences)}); name another folder, or remove it"
        )


def _publish(data: Path, destination: Path) -> None:
    """Rename the finished folder to the destination, replacing an empty folder."""
    for stale in data.rglob(".*.tmp"):
        stale.unlink()
    try:
        data.rename(destination)
    except OSError as error:
        if error.errno in (errno.EBUSY, errno.EXDEV):
            raise InputError(
                f"{destination}: is a mount point, which cannot be replaced atomically; name a folder in it"
            ) from None
        raise
