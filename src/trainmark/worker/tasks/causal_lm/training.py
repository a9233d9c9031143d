"""The base of every framework's training of a language model."""

from __future__ import annotations

from ...core.task import Task
from ...core.training import Training
from ..language import LanguageSettings
from . import TASK


class LanguageTraining(Training):
    """One rank that trains a language model.

    Its batch is tokens (batch, length + 1) in int64; ``seen`` returns the ``Seen`` of ``facts.py``, ``observe`` the
    ``Observation`` of ``products.py`` and ``watched_step`` the ``LayersSeen`` of ``observing.py``. Names and shapes of
    weights are those of ``Decoder.shapes``.
    """

    task: Task = TASK
    settings: LanguageSettings
