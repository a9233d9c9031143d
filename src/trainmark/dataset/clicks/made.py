"""What a folder of clicks is: its file of records, ``dataset.json`` of a made one, and what it is made from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field

from trainmark.dataset import manifest
from trainmark.dataset.resume_state import WORK_NAME, refuse_unfinished
from trainmark.dataset.values import spec_of
from trainmark.errors import InputError
from trainmark.schema.frozen import Frozen
from trainmark.tasks.recommendation.data import Form
from trainmark.worker.tasks.recommendation.architectures import CATEGORIES
from trainmark.worker.tasks.recommendation.clicks import column_sizes
from trainmark.worker.tasks.recommendation.records import COLUMNS, TRAIN

SCHEMA: Literal["trainmark.clicks/1"] = "trainmark.clicks/1"
SPEC_NAME, BEGUN_NAME = "clicks.json", "begun.json"
"""What an unfinished making is of, and an unfinished conversion."""

RECORD = 4 * len(COLUMNS)
"""Bytes of a sample: a word of 4 for each column."""


class ClickSpec(Frozen):
    """A made data set, completely: equal specs give equal files, whatever the machine."""

    samples: int = Field(default=1_000_000, ge=1, le=10**12)
    vocabulary: int = Field(
        default=2_322_444, ge=26, le=2**31, description="categories of all fields together"
    )
    seed: int = Field(default=0, ge=0, lt=2**63)


class ClickManifest(Frozen):
    """The content of ``dataset.json``; it is written last, so a folder that has one was finished."""

    model_config = ConfigDict(populate_by_name=True)

    schema_: Literal["trainmark.clicks/1"] = Field(default=SCHEMA, alias="schema")
    generator: int = 1
    spec: ClickSpec
    form: str
    columns: tuple[str, ...] = COLUMNS
    column_sizes: tuple[int, ...] = Field(
        min_length=CATEGORIES,
        max_length=CATEGORIES,
        description="the categories of C1 to C26: all are below them",
    )
    sums_sha256: str = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of the file SHA256SUMS")


def sizes_of(spec: ClickSpec) -> tuple[int, ...]:
    """Return the categories of each field."""
    return tuple(column_sizes(spec.vocabulary))


def shard_names(form: str, samples: int, shard: int) -> list[str]:
    """Return the names of the files of a converted data set."""
    count = -(-samples // shard)
    return [f"train-{number:05}-of-{count:05}.{form}" for number in range(count)]


def spec_from(values: Mapping[str, Any], where: str) -> ClickSpec:
    """Return the spec that ``values`` describe; unusable ones raise ``InputError``, which begins with ``where``."""
    return spec_of(ClickSpec, values, where)


def recognise(directory: Path) -> bool:
    """Return whether a folder holds clicks that trainmark made or converted, or is at."""
    begun = any((directory / WORK_NAME / name).is_file() for name in (SPEC_NAME, BEGUN_NAME))
    return begun or manifest.names_schema(directory, SCHEMA)


def verb_of(directory: Path) -> str:
    """Return the command that goes on with what was begun in a folder."""
    return "convert-clicks" if (directory / WORK_NAME / BEGUN_NAME).is_file() else "make-clicks"


def read_manifest(directory: Path) -> ClickManifest | None:
    """Return the manifest of a made data set, None where there is none; raises ``InputError`` if unusable."""
    return manifest.read_manifest(directory, ClickManifest)


def describe(directory: Path) -> ClickManifest | None:
    """Return what the folder says it holds, after a look at the file's size; no sample is read.

    Raises ``InputError`` where there are no clicks, or not those that ``dataset.json`` names.
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
            f"{directory}: has no {TRAIN}; 'trainmark data verify {directory}' names what is wrong"
        )
    if made is not None and path.stat().st_size != made.spec.samples * RECORD:
        raise InputError(
            f"{path}: has {path.stat().st_size} of {made.spec.samples * RECORD} bytes; "
            f"'trainmark data verify {directory}' names what is wrong"
        )
    return made
