"""``native`` of text and clicks: tf.data, whose threads read batches by the numbers of their samples."""

from __future__ import annotations

from typing import Any, Callable, Iterator, List, Tuple

import tensorflow as tf

from ..core.feed import LoadedFeed
from ..core.outcomes import RunError
from ..core.place import Place
from ..core.queues import AHEAD
from ..core.settings import Settings
from ..tasks.by_numbers import ByNumbers
from ..tasks.causal_lm.tokens import dealt


def open_native(
    samples: int,
    batch_of: Callable[[Any], Tuple[Any, ...]],
    settings: Settings,
    place: Place,
    ready: Callable[[Tuple[Any, ...]], Any],
) -> LoadedFeed:
    """Start the pipeline of this rank and return the feed that it fills; ``ready`` gets numpy's arrays.

    ``batch_of`` reads the samples of some numbers, in ``loader_workers`` threads, at most ``AHEAD`` batches ahead; with
    none it is asked when a batch is needed.
    """
    counted = ByNumbers(batch_of)
    refusals: List[RunError] = []
    workers = min(settings.loader_workers, AHEAD)

    def numbers() -> Iterator[Any]:
        return dealt(samples, settings.batch_per_device, place, settings.seed)

    def read(given: Any) -> Tuple[Any, ...]:
        batch = counted(given)
        if isinstance(batch, RunError):
            refusals.append(batch)
            raise batch
        return batch

    kinds = [tf.as_dtype(array.dtype) for array in batch_of(next(numbers()))]
    drawn = tf.data.Dataset.from_generator(
        numbers, output_signature=tf.TensorSpec((settings.batch_per_device,), tf.int64)
    )
    batches = drawn.map(
        lambda given: tf.numpy_function(read, [given], kinds), num_parallel_calls=workers or None
    )
    options = tf.data.Options()
    options.autotune.enabled = False
    options.threading.private_threadpool_size = max(workers, 1)
    batches = batches.with_options(options)
    if 0 < workers < AHEAD:
        # As many as there are threads are made or wait in the map.
        batches = batches.prefetch(AHEAD - workers)

    def taken() -> Iterator[Any]:
        try:
            yield from batches.as_numpy_iterator()
        except tf.errors.OpError:
            if not refusals:
                raise
            yield refusals[0]

    feed = LoadedFeed(taken(), ready, samples, None, AHEAD if workers else 0, counted.produced)
    feed.workers = workers
    return feed
