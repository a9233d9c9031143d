"""``dataset.json`` of a made image folder: what it was made from."""

from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field

from trainmark.dataset import manifest
from trainmark.dataset.images.spec import ImageFolderSpec
from trainmark.words.frozen import Frozen

MADE_SCHEMA: Literal["trainmark.dataset/1"] = "trainmark.dataset/1"
CONVERTED_SCHEMA: Literal["trainmark.converted/1"] = "trainmark.converted/1"


class Recipe(Frozen):
    """Everything that decides the bytes of a made data set."""

    generator: int = Field(description="version of the picture generator")
    encoder: str
    spec: ImageFolderSpec


class DatasetManifest(Frozen):
    """The content of ``dataset.json``; it is written last, so a folder that has one was finished."""

    model_config = ConfigDict(populate_by_name=True)

    schema_: Literal["trainmark.dataset/1"] = Field(default=MADE_SCHEMA, alias="schema")
    recipe: Recipe
    images: int = Field(ge=1, description="pictures of all splits")
    bytes: int = Field(ge=1, description="bytes of all pictures")
    sums_sha256: str = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of the file SHA256SUMS")


def read_manifest(directory: Path) -> DatasetManifest | None:
    """Return the manifest of a made data set, None where there is none; raises ``InputError`` if unusable."""
    others: dict[str, str] = {
        CONVERTED_SCHEMA: "holds a converted data set, and an image folder is needed here"
    }
    return manifest.read_manifest(
        directory, DatasetManifest, others, "remove the folder and make the data set again"
    )
