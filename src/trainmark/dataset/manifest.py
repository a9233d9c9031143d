"""The manifest of a data set, ``dataset.json``, and its checksums, ``SHA256SUMS``."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from trainmark.dataset.problems import DatasetProblem, ProblemKind
from trainmark.errors import InputError, plain_message
from trainmark.files import to_json, write_atomically

MANIFEST_NAME = "dataset.json"
SUMS_NAME = "SHA256SUMS"

Manifest = TypeVar("Manifest", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class FolderContent:
    """The content of a folder with a certain manifest, and a clause about its conversion; both for error messages."""

    noun: str
    conversion: str


CONTENT_BY_SCHEMA: Mapping[str, FolderContent] = {
    "trainmark.dataset/1": FolderContent("an image folder", "'trainmark data convert' converts it"),
    "trainmark.converted/1": FolderContent("record files of pictures", "nothing converts them again"),
    "trainmark.tokens/1": FolderContent("tokens", "nothing converts them"),
    "trainmark.clicks/1": FolderContent("clicks", "'trainmark data convert-clicks' converts them"),
    "trainmark.masked/1": FolderContent("sequences with hidden words", "nothing converts them"),
}


def manifest_text(manifest: BaseModel) -> str:
    """Return the content of ``dataset.json``, without keys for missing facts."""
    return to_json(manifest.model_dump(mode="json", by_alias=True, exclude_none=True))


def write_manifest(directory: Path, manifest: BaseModel) -> None:
    """Write ``dataset.json``, which marks the data set as complete; raise ``OSError`` if that fails."""
    write_atomically(directory / MANIFEST_NAME, manifest_text(manifest))


def read_manifest(
    directory: Path, model: type[Manifest], remedy: str = "remove the folder and make the data set again"
) -> Manifest | None:
    """Return the manifest of ``directory`` as ``model``, or None if the file does not exist.

    Raises ``InputError`` for a damaged file, with ``remedy`` in its message, and for the manifest of another kind of
    data set.
    """
    path = directory / MANIFEST_NAME
    try:
        values = json.loads(path.read_bytes())
        _require_schema(path, values, model.model_fields["schema_"].default)
        return model.model_validate(values)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{path}: {key}: {plain_message(first['msg'])}; {remedy}") from None
    except ValueError:
        raise InputError(f"{path}: is not JSON; {remedy}") from None


def _require_schema(path: Path, values: object, wanted: str) -> None:
    schema = values.get("schema") if isinstance(values, dict) else None
    if schema == wanted:
        return
    if isinstance(schema, str) and (content := CONTENT_BY_SCHEMA.get(schema)):
        expected = CONTENT_BY_SCHEMA[wanted].noun
        raise InputError(f"{path.parent}: holds {content.noun}, not {expected}; {content.conversion}")
    raise InputError(
        f"{path}: schema {schema!r} is not {wanted!r}: another version of trainmark wrote it, or another program"
    )


def mentions_schema(directory: Path, schema: str) -> bool:
    """Return whether the manifest of a folder, even a damaged one, mentions the schema."""
    try:
        return schema in (directory / MANIFEST_NAME).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False


def format_sums(sums: Mapping[str, str]) -> str:
    """Return ``path -> SHA-256`` in the format that ``sha256sum -c`` reads (GNU coreutils)."""
    return "".join(f"{digest}  {path}\n" for path, digest in sums.items())


def read_sums(directory: Path) -> dict[str, str]:
    """Return ``path -> SHA-256`` from ``SHA256SUMS``, skipping malformed lines; raise ``OSError`` if unreadable."""
    text = (directory / SUMS_NAME).read_text(encoding="utf-8", errors="surrogateescape")
    pairs = (line.partition("  ") for line in text.split("\n"))
    return {path: digest for digest, mark, path in pairs if mark and len(digest) == 64}


def read_trusted_sums(directory: Path, sums_sha256: str, problems: list[DatasetProblem]) -> dict[str, str]:
    """Return the recorded checksums; add a damaged ``SHA256SUMS`` to ``problems`` and return its readable lines."""
    try:
        text, sums = (directory / SUMS_NAME).read_bytes(), read_sums(directory)
    except OSError as error:
        kind = ProblemKind.MISSING if isinstance(error, FileNotFoundError) else ProblemKind.UNREADABLE
        problems.append(DatasetProblem(SUMS_NAME, kind, "no checksum can be compared without it"))
        return {}
    if sha256(text) != sums_sha256:
        detail = f"its SHA-256 differs from the one in {MANIFEST_NAME}"
        problems.append(DatasetProblem(SUMS_NAME, ProblemKind.CORRUPTED, detail))
    return sums


def sha256(data: bytes) -> str:
    """Return the SHA-256 of ``data`` in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 of a file of any size in hexadecimal; raise ``OSError`` if unreadable."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
