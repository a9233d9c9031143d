"""The base of every framework's training of a recommender, and the observations of its first step."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...core import facts
from ...core.arguments import NATIVE
from ...core.feed import Feed, Numbered
from ...core.place import Place
from ...core.task import Task
from ..products import DropoutTraining
from . import TASK
from .records import READERS, ClickFile, open_feed
from .settings import ClickSettings


@dataclass(frozen=True)
class ObservedConfig(facts.ObservedConfig):
    """``compute_dtype`` is that of the first layer's result.

    ``vocabulary`` and ``embedding_width`` are the deep table's own; ``table_gradients`` says how its gradient reaches
    the optimizer.
    """

    vocabulary: int | None = None
    embedding_width: int | None = None
    table_gradients: str | None = None


class ClickTraining(DropoutTraining):
    """One rank that trains a recommender.

    Its batch is the ``Batch`` of ``records.py``; ``observed_config`` returns ``ObservedConfig``, ``observed_step`` the
    ``ObservedLayers`` of ``products.py``. Names and shapes of weights are those of ``WideDeep.shapes``.
    """

    task: Task[Any] = TASK
    settings: ClickSettings

    def readers(self) -> Mapping[str, Callable[[str, int], Any]]:
        """Return what opens the data of each loader but the framework's own."""
        return READERS

    def open_loader(self, settings: Any, place: Place) -> Feed | None:
        if settings.loader != NATIVE:
            return open_feed(settings, place, lambda batch: self.as_batch(*batch), self.readers())
        file = ClickFile(settings.data, settings.vocabulary)
        return self.open_numbers(Numbered(file.samples, file.batch, self.from_loader), settings, place)
