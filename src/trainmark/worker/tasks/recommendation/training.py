"""The base of every framework's training of a recommender, and the observations of its first step."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...core.choices import one_of
from ...core.feed import Feed, LoadedFeed, Loader, Numbered
from ...core.outcomes import RunError
from ...core.place import Place
from ...core.queues import AHEAD, SampleCounter
from ...core.settings import NATIVE
from ...core.task import Task
from ...core.training import Training
from . import TASK
from .records import READERS, ClickFile, read_ahead
from .settings import ClickSettings


class ClickTraining(Training):
    """One rank that trains a recommender.

    Its batch is the ``Batch`` of ``records.py``. In ``observed_config`` the type is of the first layer's result;
    ``observed_step`` returns the ``ObservedLayers`` of ``products.py``. Names and shapes of weights are those of
    ``WideDeep.shapes``.
    """

    task: Task[Any] = TASK
    settings: ClickSettings

    def axes(self, table: Sequence[int], gradients: str) -> dict[str, Any]:
        """Return the observed axes: of the deep table's own shape, and how its gradient reaches the optimizer."""
        return {"vocabulary": table[0], "embedding_width": table[1], "table_gradients": gradients}

    def readers(self) -> Mapping[str, Callable[[str, int], Any]]:
        """Return what opens the data of each loader but the framework's own."""
        return READERS

    def open_loader(self, settings: Any, place: Place) -> Feed | None:
        """Return this rank's feed. Of another loader than the framework's own one thread reads ``AHEAD`` batches ahead.

        With no loader workers they are read when they are needed.
        """
        if settings.loader == NATIVE:
            file = ClickFile(settings.data, settings.vocabulary)
            return self.open_numbers(Numbered(file.samples, file.batch, self.from_loader), settings, place)
        readers, produced = self.readers(), SampleCounter()
        one_of(settings.framework, "loader", settings.loader, (NATIVE, *readers))
        source = readers[settings.loader](settings.data, settings.vocabulary)

        def batches() -> Iterator[Any]:
            try:
                for batch in source.batches(settings.batch_per_device, place, settings.seed):
                    produced.add(len(batch.labels))
                    yield batch
            except RunError as stopped:
                yield stopped

        threads = int(settings.loader_workers > 0)
        loader = Loader(source.samples, None, AHEAD * threads, produced, threads)
        items = read_ahead(batches(), AHEAD) if threads else batches()
        return LoadedFeed(items, lambda batch: self.to_batch(*batch), loader)
