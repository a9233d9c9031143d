"""The ``loader`` axis in PyTorch: who reads and decodes real images."""

from __future__ import annotations

from typing import Any, Callable, Dict

from ...arguments import Settings
from ...outcomes import UNSUPPORTED, RunError
from ...place import Place
from ..feed import Feed


def open_loader(settings: Settings, place: Place, device: Any, dtype: Any) -> Feed:
    """Return the feed of the loader that was asked for; its first images are already being read."""
    if settings.loader not in LOADERS:
        raise RunError(UNSUPPORTED, f"PyTorch has no loader {settings.loader!r}; it has {', '.join(LOADERS)}")
    return LOADERS[settings.loader](settings, place, device, dtype)


def _native(settings: Settings, place: Place, device: Any, dtype: Any) -> Feed:
    from .native import open_native

    return open_native(settings, place, device, dtype)


def _nvjpeg(settings: Settings, place: Place, device: Any, dtype: Any) -> Feed:
    from .nvjpeg import open_nvjpeg

    return open_nvjpeg(settings, place, device, dtype)


LOADERS: Dict[str, Callable[[Settings, Place, Any, Any], Feed]] = {"native": _native, "nvjpeg": _nvjpeg}
