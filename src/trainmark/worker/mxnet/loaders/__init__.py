"""The ``loader`` axis in MXNet: who reads and decodes real images."""

from __future__ import annotations

from typing import Any, Callable, Dict

from ...arguments import Settings
from ...feed import Feed
from ...outcomes import UNSUPPORTED, RunError
from ...place import Place
from .folder import open_folder
from .records import open_records

LOADERS: Dict[str, Callable[[Settings, Place, Any], Feed]] = {
    "native": open_records,
    "native-folder": open_folder,
}


def open_loader(settings: Settings, place: Place, context: Any) -> Feed:
    """Return the feed of the loader that was asked for; its first images are already being read."""
    if settings.loader not in LOADERS:
        raise RunError(UNSUPPORTED, f"MXNet has no loader {settings.loader!r}; it has {', '.join(LOADERS)}")
    return LOADERS[settings.loader](settings, place, context)
