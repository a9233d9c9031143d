"""The spec, manifest and quick description of a folder of clicks."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field

from trainmark.dataset import manifest
from trainmark.dataset.resume_state import WORK_NAME, refuse_unfinished
from trainmark.dataset.values import parse_spec
from trainmark.errors import InputError
from trainmark.schema.frozen import Frozen
from trainmark.tasks.recommendation.axes import Form
from trainmark.worker.core.feed import TRAIN
from trainmark.worker.tasks.recommendation.architectures import CATEGORIES
from trainmark.worker.tasks.recommendation.records import COLUMNS, column_sizes

SCHEMA: Literal["trainmark.clicks/1"] = "trainmark.clicks/1"
SPEC_NAME, CONVERSION_NAME = "clicks.json", "begun.json"
"""Files in the work folder that identify an unfinished creation and an unfinished conversion."""

RECORD = 4 * len(COLUMNS)
"""Bytes of a sample: a word of 4 for each column."""


class ClickSpec(Frozen):
    """The full description of a created data set: equal specs give equal files on every machine."""

    samples: int = Field(default=1_000_000, ge=1, le=10**12)
    vocabulary: int = Field(default=2_322_444, ge=26, le=2**31, description="total categories of all fields")
    seed: int = Field(default=0, ge=0, lt=2**63)


class ClickManifest(Frozen):
    """The content of ``dataset.json``, which is written last and so marks a complete data set."""

    model_config = ConfigDict(populate_by_name=True)

    schema_: Literal["trainmark.clicks/1"] = Field(default=SCHEMA, alias="schema")
    generator: int = 1
    spec: ClickSpec
    form: str
    columns: tuple[str, ...] = COLUMNS
    column_sizes: tuple[int, ...] = Field(
        min_length=CATEGORIES,
        max_length=CATEGORIES,
        description="number of categories of C1 to C26: values are below it",
    )
    sums_sha256: str = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of the file SHA256SUMS")


def sizes_of(spec: ClickSpec) -> tuple[int, ...]:
    """Return the number of categories of each field."""
    return tuple(column_sizes(spec.vocabulary))


def shard_names(form: str, samples: int, shard: int) -> list[str]:
    """Return the names of the files of a converted data set."""
    count = -(-samples // shard)
    return [f"train-{number:05}-of-{count:05}.{form}" for number in range(count)]


def spec_from(values: Mapping[str, Any], where: str) -> ClickSpec:
    """Return the spec described by ``values``; raise ``InputError`` that begins with ``where`` for invalid ones."""
    return parse_spec(ClickSpec, values, where)


def recognise(directory: Path) -> bool:
    """Return whether a folder contains clicks that trainmark created, converted, or started to."""
    unfinished = any((directory / WORK_NAME / name).is_file() for name in (SPEC_NAME, CONVERSION_NAME))
    return unfinished or manifest.mentions_schema(directory, SCHEMA)


def verb_of(directory: Path) -> str:
    """Return the command that resumes the unfinished work in a folder."""
    return "convert-clicks" if (directory / WORK_NAME / CONVERSION_NAME).is_file() else "make-clicks"


def read_manifest(directory: Path) -> ClickManifest | None:
    """Return the manifest of a created data set, None if it has none; raise ``InputError`` if it is invalid."""
    return manifest.read_manifest(directory, ClickManifest)


def describe(directory: Path) -> ClickManifest | None:
    """Return the folder's manifest after checking the file's size; read no sample.

    Raises ``InputError`` if there are no clicks, or if they do not match ``dataset.json``.
    """
    if not directory.is_dir():
        raise InputError(f"{directory}: no such folder; 'trainmark data make-clicks {directory}' makes one")
    made = read_manifest(directory)
    refuse_unfinished(directory, made, verb_of(directory))
    if made is not None and made.form != Form.RAW:
        return made
    path = directory / TRAIN
    if not path.is_file():
        raise InputError(
            f"{directory}: has no {TRAIN}; 'trainmark data verify {directory}' lists the problems"
        )
    if made is not None and path.stat().st_size != made.spec.samples * RECORD:
        raise InputError(
            f"{path}: has {path.stat().st_size} of {made.spec.samples * RECORD} bytes; "
            f"'trainmark data verify {directory}' lists the problems"
        )
    return made
