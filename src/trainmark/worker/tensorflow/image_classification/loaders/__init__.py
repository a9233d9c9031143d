"""The ``loader`` axis in TensorFlow: tf.data on TFRecord shards, or on an image folder."""

from __future__ import annotations

from typing import Callable, Dict

from ....core.choices import one_of
from ....tasks.image_classification.settings import ImageSettings
from .folder import find_folder
from .pipeline import Source, open_loader
from .records import find_records

LOADERS: Dict[str, Callable[[ImageSettings], Source]] = {"native": find_records, "native-folder": find_folder}


def find_source(settings: ImageSettings) -> Source:
    """Return where the images are; raise ``RunError`` if there is no such loader or nothing to read."""
    one_of("TensorFlow", "loader", settings.loader, LOADERS)
    return LOADERS[settings.loader](settings)


__all__ = ["LOADERS", "Source", "find_source", "open_loader"]
