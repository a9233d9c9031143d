"""Grain, whose processes make parts of batches; and ``native`` of text and clicks, which it reads by numbers."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Tuple

import grain
import numpy as np
from absl import flags

from ..core.feed import LoadedFeed
from ..core.place import Place
from ..core.produced import Produced
from ..core.queues import Parts, in_parts, joined
from ..core.settings import Settings
from ..tasks.by_numbers import ByNumbers
from ..tasks.causal_lm.tokens import dealt

TASKS = 4
"""Parts of batches that a loader process of Grain's has, with the shortest queue that it offers; seen, not told."""

WITHOUT_END = 1 << 60
"""What a source says of its length: more than anybody asks for."""


class GrainFeed(LoadedFeed):
    """The batches whose ``parts``, a dataset of Grain's, are made by as many processes as ``share`` says."""

    def __init__(
        self,
        parts: Any,
        share: Parts,
        join: Callable[[List[Any]], Any],
        ready: Callable[[Any], Any],
        samples: int,
        decoder: Optional[str],
        produced: Produced,
        begin: Optional[Callable[[int, int], None]] = None,
    ) -> None:
        """Start the processes, each by ``begin``.

        ``join`` makes a batch of its parts, ``ready`` of it what the step needs.
        """
        # The processes are the parallelism; without any, the batch is made when it is asked for.
        loader = parts.to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
        if share.workers:
            # Grain reads its own flags from absl, which wants to have seen a command line first.
            flags.FLAGS.mark_as_parsed()
            loader = loader.mp_prefetch(grain.MultiprocessingOptions(share.workers, 1), worker_init_fn=begin)
        self._iterator = iter(loader)
        if share.workers:
            self._iterator.start_prefetch()
        batches = joined(self._iterator, share.in_batch, join)
        super().__init__(batches, ready, samples, decoder, share.ahead, produced)
        self.workers = share.workers

    def close(self) -> None:
        """End the loader's processes."""
        super().close()
        self._iterator.close()


class Numbers:
    """The numbers of the samples of each part of a rank's batches; quick for who asks for part after part."""

    def __init__(self, samples: int, batch: int, place: Place, seed: int, parts: int) -> None:
        """Take what ``dealt`` takes, and the parts of a batch."""
        self._given = samples, batch, place, seed, parts
        self._batch, self._parts = batch, parts
        self._begin()

    def _begin(self) -> None:
        samples, batch, place, seed, _parts = self._given
        self._dealt, self._at, self._numbers = dealt(samples, batch, place, seed), -1, np.empty(0, np.int64)

    def __len__(self) -> int:
        """Return more than anybody asks for."""
        return WITHOUT_END

    def __getitem__(self, number: int) -> Any:
        """Return the numbers of a part."""
        batch, part = divmod(int(number), self._parts)
        if batch < self._at:
            self._begin()
        while self._at < batch:
            self._numbers, self._at = next(self._dealt), self._at + 1
        size = self._batch // self._parts
        return self._numbers[part * size : (part + 1) * size]

    def __reduce__(self) -> Tuple[Any, Tuple[Any, ...]]:
        """Let another process begin anew."""
        return Numbers, self._given


def open_native(
    samples: int,
    batch_of: Callable[[Any], Tuple[Any, ...]],
    settings: Settings,
    place: Place,
    ready: Callable[[Tuple[Any, ...]], Any],
) -> LoadedFeed:
    """Start the loader processes of this rank and return the feed that they fill; ``ready`` gets numpy's arrays.

    ``batch_of`` reads the samples of some numbers, in ``loader_workers`` processes; with none it is asked when a batch
    is needed.
    """
    share = in_parts(settings.batch_per_device, settings.loader_workers, TASKS, TASKS)
    numbers = Numbers(samples, settings.batch_per_device, place, settings.seed, share.in_batch)
    read = ByNumbers(batch_of)
    parts = grain.MapDataset.source(numbers).map(read)
    return GrainFeed(parts, share, _join, ready, samples, None, read.produced)


def _join(parts: List[Any]) -> Tuple[Any, ...]:
    return tuple(np.concatenate(arrays) for arrays in zip(*parts))
