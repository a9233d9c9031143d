"""``dataset.json`` of a created image folder, and the recipe of an unfinished one."""

import json
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field, ValidationError

from trainmark.dataset import manifest
from trainmark.dataset.images.spec import ImageFolderSpec, Split
from trainmark.dataset.resume_state import WORK_NAME
from trainmark.errors import InputError
from trainmark.schema.frozen import Frozen

MADE_SCHEMA: Literal["trainmark.dataset/1"] = "trainmark.dataset/1"

RECIPE_NAME = "recipe.json"


class ImageRecipe(Frozen):
    """Everything that determines the bytes of a created data set."""

    generator: int = Field(description="version of the picture generator")
    encoder: str
    val_encoder: str | None = Field(
        default=None, description="of the validation pictures, if another encoder created them later"
    )
    spec: ImageFolderSpec

    def encoder_of(self, split: Split) -> str:
        """Return the encoder of the pictures of ``split``."""
        return self.val_encoder if split is Split.VAL and self.val_encoder else self.encoder


class DatasetManifest(Frozen):
    """The content of ``dataset.json``, which is written last and so marks a complete data set."""

    model_config = ConfigDict(populate_by_name=True)

    schema_: Literal["trainmark.dataset/1"] = Field(default=MADE_SCHEMA, alias="schema")
    recipe: ImageRecipe
    images: int = Field(ge=1, description="pictures of all splits")
    bytes: int = Field(ge=1, description="bytes of all pictures")
    sums_sha256: str = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 of the file SHA256SUMS")
    training_sha256: str | None = Field(
        default=None,
        pattern="^[0-9a-f]{64}$",
        description="SHA-256 of this file before validation pictures were added",
    )


def read_manifest(directory: Path) -> DatasetManifest | None:
    """Return the manifest of a created data set, None if it has none; raise ``InputError`` if it is invalid."""
    return manifest.read_manifest(directory, DatasetManifest)


def read_unfinished_recipe(directory: Path) -> ImageRecipe | None:
    """Return the recipe of an unfinished creation in ``directory``, or None; raise ``InputError`` if it is invalid."""
    path = directory / WORK_NAME / RECIPE_NAME
    try:
        return ImageRecipe.model_validate(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, ValidationError):
        raise InputError(f"{path}: cannot be read; remove the folder and make the data set again") from None
