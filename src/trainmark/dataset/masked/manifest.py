"""The spec, manifest and quick description of a folder of sequences with hidden words."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from trainmark.dataset import manifest
from trainmark.dataset.manifest import MANIFEST_NAME
from trainmark.dataset.resume_state import WORK_NAME, refuse_unfinished
from trainmark.dataset.values import parse_spec
from trainmark.errors import InputError
from trainmark.schema.frozen import Frozen
from trainmark.tasks.masked_lm.axes import with_usual_predictions

SCHEMA: Literal["trainmark.masked/1"] = "trainmark.masked/1"
PATTERN = "*.tfrecord"

PAD, CLS, SEP, MASK, FIRST_WORD = 0, 101, 102, 103, 104
"""BERT's special tokens in its published vocabulary, and the first token that can be a word here."""


class MaskedSpec(Frozen):
    """The full description of a created data set: equal specs give equal files on every machine.

    ``short`` is the percentage of sequences that are randomly shorter than ``sequence_length``.
    """

    sequences: int = Field(default=10_000, ge=1, le=10**10)
    sequence_length: int = Field(default=128, ge=16, le=65_536)
    predictions: int = Field(default=20, ge=1)
    vocabulary: int = Field(default=30_522, ge=FIRST_WORD + 1, le=2**31 - 1)
    short: int = Field(default=10, ge=0, le=100)
    shards: int = Field(default=4, ge=1, le=100_000)
    seed: int = Field(default=0, ge=0, lt=2**63)

    @model_validator(mode="before")
    @classmethod
    def _hide(cls, given: Any) -> Any:
        return with_usual_predictions(given)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.predictions > self.sequence_length - 3:
            raise ValueError(f"{self.predictions} predictions are too many for {self.sequence_length} tokens")
        if self.shards > self.sequences:
            raise ValueError(f"{self.shards} shards are too many for {self.sequences} sequences")
        return self

    @property
    def files(self) -> Mapping[str, int]:
        """The number of sequences of each file."""
        ends = [self.sequences * shard // self.shards for shard in range(self.shards + 1)]
        return {
            f"train-{shard:05}-of-{self.shards:05}.tfrecord": ends[shard + 1] - ends[shard]
            for shard in range(self.shards)
        }


class MaskedManifest(Frozen):
    """The content of ``dataset.json``, which is written last and so marks a complete data set."""

    model_config = ConfigDict(populate_by_name=True)

    schema_: Literal["trainmark.masked/1"] = Field(default=SCHEMA, alias="schema")
    generator: int = 1
    spec: MaskedSpec
    sums_sha256: str = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of the file SHA256SUMS")


def spec_from(values: Mapping[str, Any], where: str) -> MaskedSpec:
    """Return the spec described by ``values``; raise ``InputError`` that begins with ``where`` for invalid ones."""
    return parse_spec(MaskedSpec, values, where)


def recognise(directory: Path) -> bool:
    """Return whether a folder contains such sequences, complete or unfinished."""
    there = any(any(folder.glob(PATTERN)) for folder in (directory, directory / WORK_NAME))
    return there or manifest.mentions_schema(directory, SCHEMA)


def read_manifest(directory: Path) -> MaskedManifest | None:
    """Return the manifest of a created data set, None if it has none; raise ``InputError`` if it is invalid."""
    return manifest.read_manifest(directory, MaskedManifest)


def describe(directory: Path) -> MaskedManifest | None:
    """Return the folder's manifest after checking the names of its files; read no record.

    Raises ``InputError`` if there are no records, or files that ``dataset.json`` names are missing.
    """
    if not directory.is_dir():
        raise InputError(f"{directory}: no such folder; 'trainmark data make-masked {directory}' makes one")
    made = read_manifest(directory)
    refuse_unfinished(directory, made, "make-masked")
    remedy = f"'trainmark data verify {directory}' lists the problems"
    if not any(directory.glob(PATTERN)):
        raise InputError(f"{directory}: has no {PATTERN}; {remedy}")
    for name in made.spec.files if made else ():
        if not (directory / name).is_file():
            raise InputError(f"{directory / name}: does not exist, but {MANIFEST_NAME} names it; {remedy}")
    return made
