"""The ``loader`` axis in MXNet: who reads and decodes real images."""

from __future__ import annotations

from typing import Any, Callable, Dict

from ....core.choices import one_of
from ....core.feed import LoadedFeed
from ....core.place import Place
from ....tasks.image_classification.settings import ImageSettings
from ..feed import ToDevice
from .folder import open_folder
from .records import open_records

LOADERS: Dict[str, Callable[[ImageSettings, Place, ToDevice], LoadedFeed]] = {
    "native": open_records,
    "native-folder": open_folder,
}


def open_loader(settings: ImageSettings, place: Place, context: Any) -> LoadedFeed:
    """Return the feed of the loader that was asked for; its first images are already being read."""
    one_of("MXNet", "loader", settings.loader, LOADERS)
    return LOADERS[settings.loader](settings, place, ToDevice(settings, context))
