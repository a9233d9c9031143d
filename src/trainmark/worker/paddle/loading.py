"""``native`` of text and clicks: paddle.io.DataLoader, whose processes read batches by the numbers of their samples."""

from __future__ import annotations

from typing import Any, Callable, Iterator, List, Tuple

import numpy as np
from paddle.io import DataLoader, Dataset

from ..core.feed import LoadedFeed
from ..core.outcomes import RunError
from ..core.place import Place
from ..core.queues import AHEAD
from ..core.settings import Settings
from ..tasks.by_numbers import ByNumbers
from ..tasks.causal_lm.tokens import dealt


class Batches(Dataset):
    """Whole batches by the numbers of their samples: each is made by one process, in one piece."""

    def __init__(self, samples: int, batch_of: Callable[[Any], Tuple[Any, ...]]) -> None:
        """Keep what every loader process needs: what reads the samples of some numbers, as arrays."""
        super().__init__()
        self._samples, self.read = samples, ByNumbers(batch_of)

    def __len__(self) -> int:
        """Return the samples."""
        return self._samples

    def __getitem__(self, numbers: Any) -> Any:
        """Return the batch, or a ``RunError`` beside an array.

        Paddle's loader takes a batch without any array in it for the end of the data.
        """
        batch = self.read(numbers)
        return (np.zeros(1, np.uint8), batch) if isinstance(batch, RunError) else batch


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

    def __init__(
        self,
        samples: int,
        batch_of: Callable[[Any], Tuple[Any, ...]],
        settings: Settings,
        place: Place,
        ready: Callable[[Any], Any] = tuple,
    ) -> None:
        """Start the loader processes of this rank, at most ``AHEAD``: each has a batch in hand.

        ``ready`` makes of a loaded batch what the step needs.
        """
        batches, workers = Batches(samples, batch_of), min(settings.loader_workers, AHEAD)
        loader = DataLoader(
            batches,
            batch_sampler=Dealt(samples, settings.batch_per_device, place, settings.seed),
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
        super().__init__(_read(self._loader), ready, samples, None, ahead, batches.read.produced)
        self.workers = workers

    def close(self) -> None:
        """End the loader processes."""
        super().close()
        self._loader._try_shutdown_all()


def _as_it_is(batches: List[Any]) -> Any:
    return batches[0]


def _read(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        yield batch[-1] if isinstance(batch[-1], RunError) else batch
