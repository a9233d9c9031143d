"""``native`` of text and clicks: torch's DataLoader, whose processes read batches by the numbers of their samples."""

from __future__ import annotations

from typing import Any, Callable, Iterator, Tuple

import torch
from torch.utils.data import DataLoader, Dataset

from ..core.feed import LoadedFeed
from ..core.outcomes import RunError
from ..core.place import Place
from ..core.queues import AHEAD
from ..core.settings import Settings
from ..tasks.by_numbers import ByNumbers
from ..tasks.causal_lm.tokens import dealt


class Batches(Dataset):
    """Whole batches by the numbers of their samples: each is made by one process, in one piece."""

    def __init__(self, batch_of: Callable[[Any], Tuple[Any, ...]]) -> None:
        """Keep what every loader process needs: what reads the samples of some numbers, as arrays."""
        self.read = ByNumbers(batch_of)

    def __getitem__(self, numbers: Any) -> Any:
        """Return the batch as tensors, or the ``RunError`` that tells what went wrong."""
        batch = self.read(numbers)
        return batch if isinstance(batch, RunError) else tuple(map(torch.from_numpy, batch))


class Dealt:
    """The numbers of a rank's batches, without end, in the order of the seed; it can be pickled."""

    def __init__(self, *given: Any) -> None:
        """Take what ``dealt`` takes."""
        self._given = given

    def __iter__(self) -> Iterator[Any]:
        """Yield them from the first batch on."""
        return dealt(*self._given)


def open_native(
    samples: int,
    batch_of: Callable[[Any], Tuple[Any, ...]],
    settings: Settings,
    place: Place,
    device: Any,
    ready: Callable[[Tuple[Any, ...]], Any],
) -> LoadedFeed:
    """Start the loader processes of this rank and return the feed that they fill; ``ready`` gets tensors.

    They are at most ``AHEAD``: each has a batch in hand.
    """
    batches, workers = Batches(batch_of), min(settings.loader_workers, AHEAD)
    loader = DataLoader(
        batches,
        batch_size=None,
        sampler=Dealt(samples, settings.batch_per_device, place, settings.seed),
        num_workers=workers,
        collate_fn=_as_it_is,
        pin_memory=device.type == "cuda",
        prefetch_factor=AHEAD // workers if workers else None,
    )
    ahead = AHEAD // workers * workers if workers else 0
    feed = LoadedFeed(iter(loader), ready, samples, None, ahead, batches.read.produced)
    feed.workers = workers
    return feed


def _as_it_is(batch: Any) -> Any:
    return batch
