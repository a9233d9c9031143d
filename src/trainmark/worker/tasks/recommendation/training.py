"""The base of every framework's training of a recommender."""

from ...core.task import Task
from ...core.training import Training
from . import TASK
from .settings import ClickSettings


class ClickTraining(Training):
    """One rank that trains a recommender.

    Its batch is the ``Batch`` of ``clicks.py``; ``seen`` returns the ``Seen`` of ``facts.py``, ``observe`` the
    ``Observation`` of ``products.py``, and ``watched_step`` the types of the products by name. Names and shapes of
    weights are those of ``WideDeep.shapes``. With dropout two passes of a batch differ: ``own_pass``
    is None where the framework cannot draw the same places again.
    """

    task: Task = TASK
    settings: ClickSettings
