"""Verification of the samples: which ones a run read, with which labels, and whether its ranks share them.

A loader records the number of each sample that it makes (``SampleCounter``), which costs the window nothing more than
its count did. After the window some more batches are fetched from the same loader, without training, and compared
row by row. Synthetic data have one batch, which is compared between the ranks.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from .settings import Settings
from .task import Verified
from .training import Training

ROWS = 16
"""The samples of each batch that are compared."""

SAMPLES, LEAST_BATCHES, MOST_BATCHES = 64, 5, 16
"""The samples to compare after the window, and the fewest and most batches that are fetched for them."""

IMPROBABLE = 1e-6
"""A chance below this is no coincidence."""

FEW_DISTINCT = 0.5
"""The share of distinct samples, of those expected in a shuffled order, below which a run repeats its samples.

Samples drawn with replacement, the worst case of a correct loader, have 0.63.
"""

IN_ORDER = 0.5
"""The share of samples that follow their predecessor in the list, from which on the order is not shuffled.

In a shuffled order it is 1 / n for n samples; several loader processes that take turns lower it by a few percent.
"""

COPIES = 0.3
"""The share of rows that equal another row of their batch from which on batches are filled with copies.

Samples drawn with replacement from four batches' worth, the worst case of a correct loader, have 0.12.
"""

VALUES = 64
"""The values of each array of a row by which equal rows are found; rows that agree in these are compared whole."""

SHARED = 0.5
"""The share of the compared samples that two ranks may have in common."""


def survey_samples(
    training: Training, settings: Settings, batches: Sequence[Sequence[Any] | None]
) -> Verified:
    """Check the samples of ``batches``, which were trained on after the window, and of more if the data are read.

    All ranks must call it.
    """
    found = [batch for batch in batches if batch is not None]
    if not settings.synthetic and found:
        found += _more_batches(training, settings, len(found))
    digests = [_row_digests(batch, settings.batch_per_device) for batch in found]
    survey = Verified()
    if not settings.synthetic:
        survey.add(_compare_rows(training, settings, digests))
    survey.add(_find_copies(training, settings, found))
    if training.ranks.place.world_size > 1:
        survey.add(_compare_ranks(training, settings, digests))
    if not settings.synthetic:
        survey.add(_check_numbers(training, settings))
    survey.add(_check_labels(training, settings, found))
    survey.data = {"samples": survey.data}
    return survey


def _global_batch(training: Training, settings: Settings) -> int:
    return settings.batch_per_device * training.ranks.place.world_size


def _more_batches(training: Training, settings: Settings, there: int) -> list[Sequence[Any]]:
    wanted = min(MOST_BATCHES, max(LEAST_BATCHES, math.ceil(SAMPLES / settings.batch_per_device)))
    more: list[Sequence[Any]] = []
    for _ in range(wanted - there):
        batch = training.read_batch()
        assert batch is not None
        more.append(batch)
        training.batch = training.feed.next()
    return more


def _row_digests(batch: Sequence[Any], rows: int) -> list[int]:
    """Return 63 bits of a digest of each of the first samples; empty if no array has a row for each sample."""
    arrays = [array for array in batch if getattr(array, "shape", ())[:1] == (rows,)]
    if not arrays:
        return []
    digests = []
    for row in range(min(rows, ROWS)):
        digest = hashlib.blake2b(digest_size=8)
        for array in arrays:
            digest.update(array[row].tobytes())
        digests.append(int.from_bytes(digest.digest(), "big") >> 1)
    return digests


def _compare_rows(training: Training, settings: Settings, digests: Sequence[Sequence[int]]) -> Verified:
    every = [digest for batch in digests for digest in batch]
    if not every:
        return Verified({"compared": None, "distinct": None}, not_checked=["samples"])
    distinct, expected = len(set(every)), min(len(every), training.epoch_samples)
    found = Verified({"compared": len(every), "distinct": distinct})
    again = _repeated_batch(digests)
    if (
        again is not None
        and len(digests[0]) >= 4
        and training.epoch_samples >= 2 * _global_batch(training, settings)
    ):
        later, earlier = again
        found.doubt(
            "batches-repeat",
            f"The loader repeats its batches: batch {later} after the window is batch {earlier} again.",
        )
    elif distinct < FEW_DISTINCT * expected:
        found.doubt(
            "samples-repeat", f"Only {distinct} of {len(every)} samples after the window are distinct."
        )
    return found


def _find_copies(training: Training, settings: Settings, batches: Sequence[Sequence[Any]]) -> Verified:
    """Find rows that are copies of another row of the same batch, and their share over all batches."""
    batch_rows = settings.batch_per_device
    compared = [_rows_of(batch, batch_rows) for batch in batches]
    rows = batch_rows * sum(map(bool, compared))
    # A batch of a small data set spans epochs, and may have a sample twice.
    is_small = not settings.synthetic and training.epoch_samples < 4 * _global_batch(training, settings)
    if is_small or batch_rows < 4 or not rows:
        return Verified({"copies": None})
    share = sum(map(_copies, compared)) / rows
    found = Verified({"copies": share})
    if share >= COPIES:
        found.doubt(
            "batch-has-copies",
            f"{share:.0%} of the samples after the window are copies of another sample of the same batch.",
        )
    return found


def _rows_of(batch: Sequence[Any], rows: int) -> list[Any]:
    """Return the arrays of a batch that have a row for each sample, each as (rows, values)."""
    arrays = [array for array in batch if getattr(array, "shape", ())[:1] == (rows,)]
    return [array.reshape(rows, -1) for array in arrays if array.size]


def _copies(arrays: Sequence[Any]) -> int:
    """Return the number of rows that equal an earlier row in all arrays."""
    some = [array[:, :: max(1, array.shape[1] // VALUES)] for array in arrays]
    earlier: dict[bytes, list[int]] = {}
    count = 0
    for row in range(len(arrays[0]) if arrays else 0):
        alike = earlier.setdefault(b"".join(values[row].tobytes() for values in some), [])
        if any(all(bool((array[row] == array[other]).all()) for array in arrays) for other in alike[:1]):
            count += 1
        alike.append(row)
    return count


def _repeated_batch(digests: Sequence[Sequence[int]]) -> tuple[int, int] | None:
    """Return the indices of a batch and of an equal one before it."""
    first: dict[tuple[int, ...], int] = {}
    for index, batch in enumerate(map(tuple, digests)):
        if batch in first:
            return index, first[batch]
        first[batch] = index
    return None


def _compare_ranks(training: Training, settings: Settings, digests: Sequence[Sequence[int]]) -> Verified:
    """Compare the ranks' samples of the same steps; all ranks exchange the same number of digests."""
    synthetic, world_size = settings.synthetic, training.ranks.place.world_size
    # Synthetic data have one batch a rank, of which the second one may be a copy.
    compared = digests[:1] if synthetic else digests
    own = [digest for batch in compared for digest in batch]
    epoch, rows = training.epoch_samples, len(compared[0]) if compared else 0
    if not own or (not synthetic and epoch < 2 * _global_batch(training, settings)):
        return Verified({"shared_by_ranks": None}, not_checked=["samples shared by ranks"])
    ranks = training.gather(own)
    # In a small data set later batches are of another epoch, and may have the others' samples: by batches then.
    part = len(own) if synthetic or epoch >= 2 * len(own) * world_size else rows
    share, one, other = _most_shared(ranks, part)
    found = Verified({"shared_by_ranks": share})
    if share >= SHARED:
        found.doubt(
            "ranks-share-samples",
            f"Ranks {one} and {other} train on the same samples: {share:.0%} of those compared.",
        )
    return found


def _most_shared(ranks: Sequence[Sequence[int]], part: int) -> tuple[float, int, int]:
    """Return the largest share of samples that two ranks have in common in the same part, and the two ranks."""
    shares = []
    for other in range(1, len(ranks)):
        for one in range(other):
            common = sum(
                len({*ranks[one][start : start + part]} & {*ranks[other][start : start + part]})
                for start in range(0, len(ranks[one]), part)
            )
            shares.append((common / len(ranks[one]), one, other))
    return max(shares)


def _check_numbers(training: Training, settings: Settings) -> Verified:
    """Compare the loader's own record with an independent count of the data set."""
    produced, task = training.feed.produced, training.task
    numbers = [] if produced is None else produced.numbers()
    is_first = training.ranks.place.rank == 0
    there = task.count_samples(settings) if is_first else None
    in_epoch = there or training.epoch_samples
    found = Verified({"data_set": there, "read": None, "read_distinct": None, "read_digest": None})
    if there is None:
        found.not_checked.append("size of the data set")
    elif there != training.epoch_samples:
        found.doubt(
            "samples-left-out",
            f"An epoch has {training.epoch_samples} samples, but the data set has {there}.",
        )
    if not numbers:
        found.not_checked.append("numbers of the samples")
        return found
    distinct, enough = len(set(numbers)), len(numbers) >= ROWS
    if enough and distinct < FEW_DISTINCT * min(len(numbers), in_epoch):
        found.doubt(
            "samples-repeat",
            f"The loader read {len(numbers)} samples, and only {distinct} different ones; the data set has {in_epoch}.",
        )
    in_order = _share_in_order(numbers, task.list_samples(settings) if is_first else None)
    if in_order is not None and enough and in_order >= IN_ORDER:
        found.doubt(
            "samples-not-shuffled",
            f"The loader reads the data set in the order of its list: {in_order:.0%} of {len(numbers)} samples follow "
            "their predecessor there, but a shuffled order was requested.",
        )
    digest = hashlib.blake2b(",".join(map(str, sorted(numbers))).encode(), digest_size=8)
    found.data.update(
        read=len(numbers), read_distinct=distinct, read_digest=digest.hexdigest(), in_order=in_order
    )
    return found


def _share_in_order(numbers: Sequence[int], listed: Sequence[int] | None) -> float | None:
    """Return the share of samples that follow their predecessor in the list; None if the list does not have them."""
    places = {number: place for place, number in enumerate(listed or ())}
    found = [places[number] for number in numbers if number in places]
    if len(places) < ROWS or len(found) < max(len(numbers) // 2, 2):
        return None
    steps = [found[place] - found[place - 1] for place in range(1, len(found))]
    following = sum(step % len(places) == 1 for step in steps)
    return following / (len(found) - 1)


def _check_labels(training: Training, settings: Settings, batches: Sequence[Sequence[Any]]) -> Verified:
    import numpy as np

    compared = batches[:1] if settings.synthetic else batches
    labelled = [training.task.labels(settings, batch) for batch in compared]
    known = [labels for labels in labelled if labels is not None]
    if not known:
        return Verified({"labels": None}, not_checked=["labels"])
    values = np.concatenate([np.ravel(labels) for labels, _ in known])
    counts = Counter(values.tolist())
    value, most = counts.most_common(1)[0]
    share = most / len(values)
    found = Verified(
        {"labels": {"count": len(values), "distinct": len(counts), "most_frequent_share": share}}
    )
    if len(counts) == 1 and known[0][1] ** (len(values) - 1.0) < IMPROBABLE:
        found.doubt("labels-all-equal", f"All {len(values)} labels after the window are {value:g}.")
    return found
