"""``dataset.json`` of a made image folder, and the note of one that is being made: what it is made from."""

import json
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field, ValidationError

from trainmark.dataset import manifest
from trainmark.dataset.images.spec import ImageFolderSpec, Split
from trainmark.errors import InputError
from trainmark.schema.frozen import Frozen

MADE_SCHEMA: Literal["trainmark.dataset/1"] = "trainmark.dataset/1"
WORK_NAME = ".making"
"""The folder inside an unfinished data set that holds its recipe and the files being written."""
BEGUN_NAME = "recipe.json"


class ConversionRecipe(Frozen):
    """Everything that decides the bytes of a made data set."""

    generator: int = Field(description="version of the picture generator")
    encoder: str
    val_encoder: str | None = Field(
        default=None, description="of the validation pictures, where they were made later by another one"
    )
    spec: ImageFolderSpec

    def encoder_of(self, split: Split) -> str:
        """Return the encoder that made the pictures of ``split``."""
        return self.val_encoder if split is Split.VAL and self.val_encoder else self.encoder


class DatasetManifest(Frozen):
    """The content of ``dataset.json``; it is written last, so a folder that has one was finished."""

    model_config = ConfigDict(populate_by_name=True)

    schema_: Literal["trainmark.dataset/1"] = Field(default=MADE_SCHEMA, alias="schema")
    recipe: ConversionRecipe
    images: int = Field(ge=1, description="pictures of all splits")
    bytes: int = Field(ge=1, description="bytes of all pictures")
    sums_sha256: str = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of the file SHA256SUMS")
    training_sha256: str | None = Field(
        default=None,
        pattern="^[0-9a-f]{64}$",
        description="SHA-256 of this file as it was when there were training pictures alone",
    )


def read_manifest(directory: Path) -> DatasetManifest | None:
    """Return the manifest of a made data set, None where there is none; raises ``InputError`` if unusable."""
    return manifest.read_manifest(directory, DatasetManifest)


def read_begun(directory: Path) -> ConversionRecipe | None:
    """Return what is being made in ``directory``, or was when it was interrupted; raises ``InputError`` if unusable."""
    path = directory / WORK_NAME / BEGUN_NAME
    try:
        return ConversionRecipe.model_validate(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, ValidationError):
        raise InputError(f"{path}: cannot be read; remove the folder and make the data set anew") from None
