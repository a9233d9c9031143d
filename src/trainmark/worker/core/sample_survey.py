"""Verification of the samples: which ones a run read, with which labels, and whether its ranks share them.

A loader records the number of each sample that it makes (``produced.py``), which costs the window nothing more than
its count did. After the window some more batches are fetched from the same loader, without training, and compared
row by row. Synthetic data have one batch, which is compared between the ranks.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from .settings import Settings
from .training import Training

Doubts = list[tuple[str, str]]

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
) -> tuple[dict[str, Any], Doubts, list[str]]:
    """Return the events' data of the samples, the doubts, and the names of the checks that could not be done.

    ``batches`` were trained on after the window; if the data are read, more are fetched. All ranks must call it.
    """
    found = [batch for batch in batches if batch is not None]
    if not settings.synthetic and found:
        found += _more_batches(training, settings, len(found))
    digests = [_row_digests(batch, settings.batch_per_device) for batch in found]
    doubts: Doubts = []
    not_checked: list[str] = []
    report = {
        **_compare_rows(training, settings, digests, doubts, not_checked),
        **_find_copies(training, settings, found, doubts),
        **_compare_ranks(training, settings, digests, doubts, not_checked),
        **_check_numbers(training, settings, doubts, not_checked),
        **_check_labels(training, settings, found, doubts, not_checked),
    }
    return report, doubts, not_checked


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


def _compare_rows(
    training: Training,
    settings: Settings,
    digests: Sequence[Sequence[int]],
    doubts: Doubts,
    not_checked: list[str],
) -> dict[str, Any]:
    if settings.synthetic:
        return {}
    every = [digest for batch in digests for digest in batch]
    if not every:
        not_checked.append("samples")
        return {"compared": None, "distinct": None}
    distinct, expected = len(set(every)), min(len(every), training.epoch_samples)
    again = _repeated_batch(digests)
    global_batch = settings.batch_per_device * training.ranks.place.world_size
    if again is not None and len(digests[0]) >= 4 and training.epoch_samples >= 2 * global_batch:
        later, earlier = again
        sentence = f"The loader repeats its batches: batch {later} after the window is batch {earlier} again."
        doubts.append(("batches-repeat", sentence))
    elif distinct < FEW_DISTINCT * expected:
        sentence = f"Only {distinct} of {len(every)} samples after the window are distinct."
        doubts.append(("samples-repeat", sentence))
    return {"compared": len(every), "distinct": distinct}


def _find_copies(
    training: Training, settings: Settings, batches: Sequence[Sequence[Any]], doubts: Doubts
) -> dict[str, Any]:
    """Return the share of rows that are copies of another row of the same batch, over all batches."""
    global_batch = settings.batch_per_device * training.ranks.place.world_size
    # A batch of a small data set spans epochs, and may have a sample twice.
    if not settings.synthetic and training.epoch_samples < 4 * global_batch:
        return {"copies": None}
    compared = [_rows_of(batch, settings.batch_per_device) for batch in batches]
    rows = settings.batch_per_device * sum(map(bool, compared))
    if settings.batch_per_device < 4 or not rows:
        return {"copies": None}
    share = sum(map(_copies, compared)) / rows
    if share >= COPIES:
        sentence = (
            f"{share:.0%} of the samples after the window are copies of another sample of the same batch."
        )
        doubts.append(("batch-has-copies", sentence))
    return {"copies": share}


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


def _compare_ranks(
    training: Training,
    settings: Settings,
    digests: Sequence[Sequence[int]],
    doubts: Doubts,
    not_checked: list[str],
) -> dict[str, Any]:
    """Compare the ranks' samples of the same steps; all ranks exchange the same number of digests."""
    world_size = training.ranks.place.world_size
    if world_size == 1:
        return {}
    # Synthetic data have one batch a rank, of which the second one may be a copy.
    compared = digests[:1] if settings.synthetic else digests
    own = [digest for batch in compared for digest in batch]
    epoch, rows = training.epoch_samples, len(compared[0]) if compared else 0
    if not own or (not settings.synthetic and epoch < 2 * settings.batch_per_device * world_size):
        not_checked.append("samples shared by ranks")
        return {"shared_by_ranks": None}
    ranks = training.gather(own)
    # In a small data set later batches are of another epoch, and may have the others' samples: by batches then.
    part = len(own) if settings.synthetic or epoch >= 2 * len(own) * world_size else rows
    share, one, other = _most_shared(ranks, part)
    if share >= SHARED:
        sentence = f"Ranks {one} and {other} train on the same samples: {share:.0%} of those compared."
        doubts.append(("ranks-share-samples", sentence))
    return {"shared_by_ranks": share}


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


def _check_numbers(
    training: Training, settings: Settings, doubts: Doubts, not_checked: list[str]
) -> dict[str, Any]:
    """Return what the loader's own record and an independent count of the data set give."""
    if settings.synthetic:
        return {}
    produced = training.feed.produced
    numbers = [] if produced is None else produced.numbers()
    rank = training.ranks.place.rank
    there = training.task.count_samples(settings) if rank == 0 else None
    if there is None:
        not_checked.append("size of the data set")
    elif there != training.epoch_samples:
        sentence = f"An epoch has {training.epoch_samples} samples, but the data set has {there}."
        doubts.append(("samples-left-out", sentence))
    if not numbers:
        not_checked.append("numbers of the samples")
        return {"data_set": there, "read": None, "read_distinct": None, "read_digest": None}
    distinct = len(set(numbers))
    expected = min(len(numbers), there or training.epoch_samples)
    if len(numbers) >= ROWS and distinct < FEW_DISTINCT * expected:
        sentence = (
            f"The loader read {len(numbers)} samples, and only {distinct} different ones; "
            f"the data set has {there or training.epoch_samples}."
        )
        doubts.append(("samples-repeat", sentence))
    in_order = _share_in_order(numbers, training.task.list_samples(settings) if rank == 0 else None)
    if in_order is not None and len(numbers) >= ROWS and in_order >= IN_ORDER:
        sentence = (
            f"The loader reads the data set in the order of its list: {in_order:.0%} of {len(numbers)} samples follow "
            "their predecessor there, but a shuffled order was requested."
        )
        doubts.append(("samples-not-shuffled", sentence))
    digest = hashlib.blake2b(",".join(map(str, sorted(numbers))).encode(), digest_size=8)
    return {
        "data_set": there,
        "read": len(numbers),
        "read_distinct": distinct,
        "read_digest": digest.hexdigest(),
        "in_order": in_order,
    }


def _share_in_order(numbers: Sequence[int], listed: Sequence[int] | None) -> float | None:
    """Return the share of samples that follow their predecessor in the list; None if the list does not have them."""
    places = {number: place for place, number in enumerate(listed or ())}
    found = [places[number] for number in numbers if number in places]
    if len(places) < ROWS or len(found) < max(len(numbers) // 2, 2):
        return None
    steps = [found[place] - found[place - 1] for place in range(1, len(found))]
    following = sum(step % len(places) == 1 for step in steps)
    return following / (len(found) - 1)


def _check_labels(
    training: Training,
    settings: Settings,
    batches: Sequence[Sequence[Any]],
    doubts: Doubts,
    not_checked: list[str],
) -> dict[str, Any]:
    import numpy as np

    found = [training.task.labels(settings, batch) for batch in batches]
    if settings.synthetic:
        found = found[:1]
    known = [labels for labels in found if labels is not None]
    if not known:
        not_checked.append("labels")
        return {"labels": None}
    values = np.concatenate([np.ravel(labels) for labels, _ in known])
    counts = Counter(values.tolist())
    value, most = counts.most_common(1)[0]
    if len(counts) == 1 and known[0][1] ** (len(values) - 1.0) < IMPROBABLE:
        doubts.append(("labels-all-equal", f"All {len(values)} labels after the window are {value:g}."))
    return {
        "labels": {"count": len(values), "distinct": len(counts), "most_frequent_share": most / len(values)}
    }
