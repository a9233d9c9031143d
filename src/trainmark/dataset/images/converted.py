"""``dataset.json`` of a converted data set, and the quick check that its files exist."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field

from trainmark.dataset.images.shards import Shard, find_shards, recognise, shard_of
from trainmark.dataset.images.spec import Split
from trainmark.dataset.manifest import MANIFEST_NAME, SUMS_NAME, read_manifest, read_sums, sha256
from trainmark.errors import InputError
from trainmark.schema.frozen import Frozen
from trainmark.tasks.image_classification.axes import Form

CONVERTED_SCHEMA: Literal["trainmark.converted/1"] = "trainmark.converted/1"

WRITER_VERSION = 1
"""Raised whenever the same source and options would give other bytes."""


class ConversionRecipe(Frozen):
    """Everything besides the pictures that determines the bytes of a converted data set."""

    writer: int = Field(description="version of the writer")
    form: Literal[Form.TFRECORD, Form.RECORDIO]
    source_digest: str = Field(
        pattern="^[0-9a-f]{64}$", description="SHA-256 of the source's names, labels and sizes"
    )
    seed: int = Field(description="of the order of the training pictures")
    shards: int = Field(ge=1, description="files of the training split")


class ConvertedManifest(Frozen):
    """The content of ``dataset.json``."""

    model_config = ConfigDict(populate_by_name=True)

    schema_: Literal["trainmark.converted/1"] = Field(default=CONVERTED_SCHEMA, alias="schema")
    recipe: ConversionRecipe
    classes: int = Field(ge=1)
    first_label: int = Field(description="the label of the first class")
    records: Mapping[Split, int] = Field(description="records of each split")
    bytes: int = Field(ge=1, description="bytes of all files of records")
    encoded_anew: tuple[str, ...] = Field(
        description="pictures other than RGB or grey JPEG, re-encoded as JPEG"
    )
    sums_sha256: str = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of the file SHA256SUMS")

    @property
    def images(self) -> int:
        """Return the number of pictures of all splits."""
        return sum(self.records.values())


@dataclass(frozen=True, slots=True)
class Converted:
    """A data set in records. ``digest`` is the SHA-256 of its ``dataset.json``, which covers every byte.

    ``manifest`` and ``digest`` are None if another program converted it.
    """

    directory: Path
    form: Form
    digest: str | None
    manifest: ConvertedManifest | None


def read_converted(directory: Path) -> ConvertedManifest | None:
    """Return the manifest of a converted data set, None if it has none; raise ``InputError`` if it is invalid."""
    return read_manifest(directory, ConvertedManifest, "convert the data set again")


def describe_converted(directory: Path) -> Converted:
    """Return the converted data set in ``directory``, from the names of its files; read no record.

    Raises ``InputError`` if there is no data set in records, or if its files are missing.
    """
    form = recognise(directory)
    if form is Form.IMAGE_FOLDER:
        raise InputError(
            f"{directory}: holds no TFRecord shards (train-00000-of-00008) and no RecordIO file (train.rec)"
        )
    manifest = read_converted(directory)
    missing = _missing_of_manifest(directory) if manifest else _missing_by_name(directory, form)
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InputError(
            f"{directory}: {missing[0]} is missing{more}; "
            f"'trainmark data verify {directory}' lists all problems"
        )
    digest = sha256((directory / MANIFEST_NAME).read_bytes()) if manifest else None
    return Converted(directory, form, digest, manifest)


def _missing_of_manifest(directory: Path) -> list[str]:
    try:
        names = read_sums(directory)
    except OSError:
        return [SUMS_NAME]
    return [name for name in names if not (directory / name).is_file()]


def _missing_by_name(directory: Path, form: Form) -> list[str]:
    if form is Form.RECORDIO:
        return [name for name in ("train.rec", "train.idx") if not (directory / name).is_file()]
    training = [shard for shard in find_shards(directory) if shard.split == Split.TRAIN]
    return missing_shards([shard.name for shard in training]) if training else ["train-00000-of-…"]


def missing_shards(names: list[str]) -> list[str]:
    """Return the missing shards of a split: those that its shards' names (``…-of-00008``) imply but do not include."""
    shards = [shard for name in names if (shard := shard_of(name))]
    expected = {
        Shard(shard.split, number, shard.count).name for shard in shards for number in range(shard.count)
    }
    return sorted(expected - set(names))
