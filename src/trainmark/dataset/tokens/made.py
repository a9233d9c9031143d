"""What a folder of tokens is: its files, ``dataset.json`` of a made one, and what it is made from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from trainmark.dataset import manifest
from trainmark.dataset.manifest import MANIFEST_NAME
from trainmark.dataset.resume_state import WORK_NAME, refuse_unfinished
from trainmark.dataset.values import spec_of
from trainmark.errors import InputError
from trainmark.schema.frozen import Frozen

SCHEMA: Literal["trainmark.tokens/1"] = "trainmark.tokens/1"
TRAIN, VALIDATION = "train.bin", "val.bin"
"""nanoGPT's names."""


SMALL_VOCABULARY = 1 << 16
"""The largest vocabulary of which a token has room in 2 bytes."""


class TokenSpec(Frozen):
    """A made data set, completely: equal specs give equal files, whatever the machine."""

    tokens: int = Field(default=1_000_000, ge=2, le=10**12, description="for training")
    validation: int = Field(default=0, ge=0, le=10**12)
    vocabulary: int = Field(default=50257, ge=2, le=2**31)
    seed: int = Field(default=0, ge=0, lt=2**63)

    @property
    def type_name(self) -> str:
        """``uint16`` where every token has room in it, else ``uint32``."""
        return "uint16" if self.vocabulary <= SMALL_VOCABULARY else "uint32"

    @property
    def files(self) -> Mapping[str, int]:
        """The tokens of each file."""
        return {TRAIN: self.tokens, **({VALIDATION: self.validation} if self.validation else {})}


class TokenManifest(Frozen):
    """The content of ``dataset.json``; it is written last, so a folder that has one was finished."""

    model_config = ConfigDict(populate_by_name=True)

    schema_: Literal["trainmark.tokens/1"] = Field(default=SCHEMA, alias="schema")
    generator: int = 1
    spec: TokenSpec
    type: str
    vocabulary: int = Field(description="all tokens are below it")
    sums_sha256: str = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of the file SHA256SUMS")


def spec_from(values: Mapping[str, Any], where: str) -> TokenSpec:
    """Return the spec that ``values`` describe; ``validation`` None, or none, is a twentieth of the tokens.

    ``where`` begins the message of the ``InputError`` that unusable values raise.
    """
    if values.get("validation") is not None:
        return spec_of(TokenSpec, values, where)
    spec = spec_of(TokenSpec, {**values, "validation": 0}, where)
    return spec.model_copy(update={"validation": spec.tokens // 20})


def recognise(directory: Path) -> bool:
    """Return whether a folder holds tokens, or some that are being made."""
    there = (directory / TRAIN).is_file() or (directory / WORK_NAME / TRAIN).is_file()
    return there or manifest.names_schema(directory, SCHEMA)


def read_manifest(directory: Path) -> TokenManifest | None:
    """Return the manifest of a made data set, None where there is none; raises ``InputError`` if unusable."""
    return manifest.read_manifest(directory, TokenManifest)


def describe(directory: Path) -> TokenManifest | None:
    """Return what the folder says it holds, after a look at names and sizes; no token is read.

    Raises ``InputError`` where there are no tokens, or not those that ``dataset.json`` names.
    """
    if not directory.is_dir():
        raise InputError(f"{directory}: no such folder; 'trainmark data make-tokens {directory}' makes one")
    made = read_manifest(directory)
    refuse_unfinished(directory, made, "make-tokens")
    if not (directory / TRAIN).is_file():
        raise InputError(
            f"{directory}: has no {TRAIN}; 'trainmark data verify {directory}' names what is wrong"
        )
    if made is not None:
        for name, count in made.spec.files.items():
            wanted = count * np.dtype(made.type).itemsize
            found = (directory / name).stat().st_size if (directory / name).is_file() else 0
            if found != wanted:
                raise InputError(
                    f"{directory / name}: has {found} of {wanted} bytes; "
                    f"'trainmark data verify {directory}' names what is wrong in {MANIFEST_NAME}'s data set"
                )
    return made


def read_part(path: Path, kind: np.dtype[Any], start: int, count: int) -> NDArray[Any]:
    """Return ``count`` tokens from ``start``, or as many as there are; raises ``OSError``."""
    with path.open("rb") as file:
        file.seek(start * kind.itemsize)
        data = file.read(count * kind.itemsize)
    whole = len(data) - len(data) % kind.itemsize
    return np.frombuffer(data[:whole], kind)
