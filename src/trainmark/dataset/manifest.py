"""``dataset.json`` and ``SHA256SUMS``: what a made data set is, and the checksum of each of its files."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trainmark.dataset.spec import ImageFolderSpec
from trainmark.errors import InputError
from trainmark.files import to_json, write_atomically

MANIFEST_NAME = "dataset.json"
SUMS_NAME = "SHA256SUMS"
MADE_SCHEMA: Literal["trainmark.dataset/1"] = "trainmark.dataset/1"
CONVERTED_SCHEMA: Literal["trainmark.converted/1"] = "trainmark.converted/1"


class Recipe(BaseModel):
    """Everything that decides the bytes of a made data set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    generator: int = Field(description="version of the picture generator")
    encoder: str
    spec: ImageFolderSpec


class DatasetManifest(BaseModel):
    """The content of ``dataset.json``; it is written last, so a folder that has one was finished."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_: Literal["trainmark.dataset/1"] = Field(default=MADE_SCHEMA, alias="schema")
    recipe: Recipe
    images: int = Field(ge=1, description="pictures of all splits")
    bytes: int = Field(ge=1, description="bytes of all pictures")
    sums_sha256: str = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of the file SHA256SUMS")


def write_manifest(directory: Path, manifest: DatasetManifest) -> None:
    """Write ``dataset.json``; raises ``OSError``."""
    write_atomically(directory / MANIFEST_NAME, to_json(manifest.model_dump(mode="json", by_alias=True)))


def read_manifest(directory: Path) -> DatasetManifest | None:
    """Return the manifest of a made data set, None where there is none; raises ``InputError`` if unusable."""
    path = directory / MANIFEST_NAME
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    remedy = "remove the folder and make the data set again"
    try:
        values = json.loads(text)
        if isinstance(values, dict) and values.get("schema") == CONVERTED_SCHEMA:
            raise InputError(f"{directory}: holds a converted data set, and an image folder is needed here")
        return DatasetManifest.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{path}: {key}: {first['msg']}; {remedy}") from None
    except ValueError:
        raise InputError(f"{path}: is not JSON; {remedy}") from None


def format_sums(sums: Mapping[str, str]) -> str:
    """Return ``path -> SHA-256`` in the format that ``sha256sum -c`` reads (GNU coreutils)."""
    return "".join(f"{digest}  {path}\n" for path, digest in sums.items())


def read_sums(directory: Path) -> dict[str, str]:
    """Return ``path -> SHA-256`` from ``SHA256SUMS``, without lines that are none; raises ``OSError``."""
    text = (directory / SUMS_NAME).read_text(encoding="utf-8", errors="surrogateescape")
    pairs = (line.partition("  ") for line in text.split("\n"))
    return {path: digest for digest, mark, path in pairs if mark and len(digest) == 64}


def sha256(data: bytes) -> str:
    """Return the SHA-256 of ``data`` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 of a file of any size in hexadecimal; raises ``OSError``."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
