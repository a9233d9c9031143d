"""The base of every framework's training of a language model."""

from ...core.task import Task
from ...core.training import Training
from ..language import LanguageSettings
from . import TASK


class LanguageTraining(Training):
    """One rank that trains a language model.

    A batch is an int64 array of tokens (batch, length + 1). ``seen`` returns the ``Seen`` of ``facts.py``, ``observe``
    the ``Observation`` of ``products.py`` and ``watched_step`` the ``LayersSeen`` of ``observing.py``.
    ``Decoder.shapes`` has the names and shapes of the weights.
    """

    task: Task = TASK
    settings: LanguageSettings
