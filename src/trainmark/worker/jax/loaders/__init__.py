"""The ``loader`` axis in JAX: who reads and decodes real images."""

from __future__ import annotations

from ...arguments import Settings
from ...feed import Feed
from ...outcomes import UNSUPPORTED, RunError
from ..ranks import Ranks

LOADERS = ("native",)


def check_loader(name: str) -> None:
    """Raise ``RunError`` if there is no such loader."""
    if name not in LOADERS:
        raise RunError(UNSUPPORTED, f"JAX has no loader {name!r}; it has {', '.join(LOADERS)}")


def open_loader(settings: Settings, ranks: Ranks) -> Feed:
    """Return the feed of the loader that was asked for; its first images are already being read."""
    from .native import open_native

    return open_native(settings, ranks)
