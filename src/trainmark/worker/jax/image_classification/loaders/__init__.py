"""The ``loader`` axis in JAX: who reads and decodes real images."""

from __future__ import annotations

from ....core.feed import Feed
from ....tasks.image_classification.settings import ImageSettings
from ...ranks import Group

LOADERS = ("native",)


def open_loader(settings: ImageSettings, group: Group) -> Feed:
    """Return the feed of the loader that was asked for; its first images are already being read."""
    from .native import open_native

    return open_native(settings, group)
