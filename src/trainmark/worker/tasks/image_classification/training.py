"""The base of every framework's training of an image network."""

from __future__ import annotations

from ...core.training import Training
from . import TASK
from .settings import ImageSettings


class ImageTraining(Training):
    """One rank that trains an image network.

    Its batch is made of images (batch, 3, size, size) in float32 and labels (batch,) in int64; ``seen`` returns the
    ``Seen`` of ``facts.py`` and ``observe`` the ``Observation`` of ``observing.py``. Names and shapes of weights are
    those of ``Architecture.shapes``.
    """

    task = TASK
    settings: ImageSettings
