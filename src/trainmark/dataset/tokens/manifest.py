"""The spec, manifest and quick description of a folder of tokens."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from trainmark.dataset import manifest
from trainmark.dataset.resume_state import WORK_NAME, refuse_unfinished
from trainmark.dataset.values import parse_spec
from trainmark.errors import InputError
from trainmark.schema.frozen import Frozen

SCHEMA: Literal["trainmark.tokens/1"] = "trainmark.tokens/1"
TRAIN, VALIDATION = "train.bin", "val.bin"
"""nanoGPT's names."""


SMALL_VOCABULARY = 1 << 16
"""The largest vocabulary whose tokens fit in 2 bytes."""


class TokenSpec(Frozen):
    """The full description of a created data set: equal specs give equal files on every machine."""

    tokens: int = Field(default=1_000_000, ge=2, le=10**12, description="for training")
    validation: int = Field(default=0, ge=0, le=10**12)
    vocabulary: int = Field(default=50257, ge=2, le=2**31)
    seed: int = Field(default=0, ge=0, lt=2**63)

    @property
    def type_name(self) -> str:
        """``uint16`` if every token fits, else ``uint32``."""
        return "uint16" if self.vocabulary <= SMALL_VOCABULARY else "uint32"

    @property
    def files(self) -> Mapping[str, int]:
        """The number of tokens of each file."""
        return {TRAIN: self.tokens, **({VALIDATION: self.validation} if self.validation else {})}


class TokenManifest(Frozen):
    """The content of ``dataset.json``, which is written last and so marks a complete data set."""

    model_config = ConfigDict(populate_by_name=True)

    schema_: Literal["trainmark.tokens/1"] = Field(default=SCHEMA, alias="schema")
    generator: int = 1
    spec: TokenSpec
    type: str
    vocabulary: int = Field(description="all tokens are below it")
    sums_sha256: str = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of the file SHA256SUMS")


def spec_from(values: Mapping[str, Any], where: str) -> TokenSpec:
    """Return the spec described by ``values``; ``validation`` defaults to a twentieth of the tokens.

    Invalid values raise ``InputError`` that begins with ``where``.
    """
    if values.get("validation") is not None:
        return parse_spec(TokenSpec, values, where)
    spec = parse_spec(TokenSpec, {**values, "validation": 0}, where)
    return spec.model_copy(update={"validation": spec.tokens // 20})


def recognise(directory: Path) -> bool:
    """Return whether a folder contains tokens, complete or unfinished."""
    there = (directory / TRAIN).is_file() or (directory / WORK_NAME / TRAIN).is_file()
    return there or manifest.mentions_schema(directory, SCHEMA)


def read_manifest(directory: Path) -> TokenManifest | None:
    """Return the manifest of a created data set, None if it has none; raise ``InputError`` if it is invalid."""
    return manifest.read_manifest(directory, TokenManifest)


def describe(directory: Path) -> TokenManifest | None:
    """Return the folder's manifest after checking names and sizes; read no token.

    Raises ``InputError`` if there are no tokens, or if the files do not match ``dataset.json``.
    """
    if not directory.is_dir():
        raise InputError(f"{directory}: no such folder; 'trainmark data make-tokens {directory}' makes one")
    made = read_manifest(directory)
    refuse_unfinished(directory, made, "make-tokens")
    if not (directory / TRAIN).is_file():
        raise InputError(
            f"{directory}: has no {TRAIN}; 'trainmark data verify {directory}' lists the problems"
        )
    if made is not None:
        for name, count in made.spec.files.items():
            wanted = count * np.dtype(made.type).itemsize
            found = (directory / name).stat().st_size if (directory / name).is_file() else 0
            if found != wanted:
                raise InputError(
                    f"{directory / name}: has {found} of {wanted} bytes; "
                    f"'trainmark data verify {directory}' lists the problems"
                )
    return made


def read_part(path: Path, kind: np.dtype[Any], start: int, count: int) -> NDArray[Any]:
    """Return up to ``count`` tokens from ``start``; raise ``OSError`` if the file is unreadable."""
    with path.open("rb") as file:
        file.seek(start * kind.itemsize)
        data = file.read(count * kind.itemsize)
    whole = len(data) - len(data) % kind.itemsize
    return np.frombuffer(data[:whole], kind)
