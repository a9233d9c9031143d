"""``native``: paddle.io.DataLoader, whose processes look clicks up in the file of raw records."""

from __future__ import annotations

from typing import Any, Iterator, List

import numpy as np
from paddle.io import DataLoader, Dataset

from ...core.feed import LoadedFeed
from ...core.outcomes import RunError
from ...core.place import Place
from ...core.produced import Produced
from ...core.queues import AHEAD
from ...tasks.causal_lm.tokens import dealt
from ...tasks.recommendation.records import ClickFile
from ...tasks.recommendation.settings import ClickSettings


class Batches(Dataset):
    """Whole batches by the numbers of their samples: each is made by one process, in one piece."""

    def __init__(self, file: ClickFile) -> None:
        """Keep what every loader process needs."""
        super().__init__()
        self._file, self.produced = file, Produced()

    def __len__(self) -> int:
        """Return the samples."""
        return self._file.samples

    def __getitem__(self, numbers: Any) -> Any:
        """Return the batch, or a ``RunError`` beside an array.

        Paddle's loader takes a batch without any array in it for the end of the data.
        """
        try:
            batch = self._file.batch(numbers)
        except RunError as stopped:
            return np.zeros(1, np.uint8), stopped
        self.produced.add(len(numbers))
        return tuple(batch)


class Dealt:
    """The numbers of a rank's batches, without end, each as the one index of a batch; it can be pickled."""

    def __init__(self, *given: Any) -> None:
        """Take what ``dealt`` takes."""
        self._given = given

    def __iter__(self) -> Iterator[List[Any]]:
        """Yield them from the first batch on."""
        return ([numbers] for numbers in dealt(*self._given))


class DataLoaderFeed(LoadedFeed):
    """Batches of Paddle's loader, which has to be told to end: a thread of its own holds it."""

    def __init__(self, settings: ClickSettings, place: Place) -> None:
        """Start the loader processes of this rank, at most ``AHEAD``: each has a batch in hand."""
        file = ClickFile(settings.data, settings.vocabulary)
        batches, workers = Batches(file), min(settings.loader_workers, AHEAD)
        loader = DataLoader(
            batches,
            batch_sampler=Dealt(file.samples, settings.batch_per_device, place, settings.seed),
            num_workers=workers,
            collate_fn=_as_it_is,
            prefetch_factor=AHEAD // workers if workers else AHEAD,
            # A second queue, of batches on their way to the device: the copy is a small part of a step.
            use_buffer_reader=False,
            use_shared_memory=True,
        )
        self._loader = iter(loader)
        # Without processes a thread works ahead, with a queue that cannot be taken away.
        ahead = AHEAD // workers * workers if workers else AHEAD
        super().__init__(_read(self._loader), tuple, file.samples, None, ahead, batches.produced)
        self.workers = workers

    def close(self) -> None:
        """End the loader processes."""
        super().close()
        self._loader._try_shutdown_all()


def _as_it_is(batches: List[Any]) -> Any:
    return batches[0]


def _read(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        yield batch[1] if isinstance(batch[1], RunError) else batch
