"""The ``loader`` axis in JAX: who reads and decodes real images."""

from __future__ import annotations

from ...arguments import Settings
from ...feed import Feed
from ..ranks import Group

LOADERS = ("native",)


def open_loader(settings: Settings, group: Group) -> Feed:
    """Return the feed of the loader that was asked for; its first images are already being read."""
    from .native import open_native

    return open_native(settings, group)
