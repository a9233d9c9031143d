"""Verification of the samples: which ones a run read, with which labels, and whether its ranks share them.

A loader records the number of each sample that it makes (``SampleCounter``), which costs the window nothing more than
its count did. After the window some more batches are fetched from the same loader, without training, and compared
row by row. Synthetic data have one batch, which is compared between the ranks.
"""

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from .settings import Settings
from .task import Verified
from .training import Training

ROWS, VALUES = 16, 64  # the compared samples of a batch, and values of each array of a row that show a copy
SAMPLES, LEAST_BATCHES, MOST_BATCHES = 64, 5, 16  # to compare, and the batches that are fetched for them
IMPROBABLE = 1e-6  # a chance below this is no coincidence
# The share of distinct samples, of those expected in a shuffled order, below which a run repeats its samples. Samples
# drawn with replacement, the worst case of a correct loader, have 0.63.
FEW_DISTINCT = 0.5
# The share of samples that follow their predecessor in the list, from which on the order is not shuffled. If it is, it
# is 1 / n for n samples; several loader processes that take turns lower it by a few percent.
IN_ORDER = 0.5
# The share of rows that equal another row of their batch, from which on batches are filled with copies. Samples drawn
# with replacement from four batches' worth, the worst case of a correct loader, have 0.12.
COPIES = 0.3
SHARED = 0.5  # the share of the compared samples that two ranks may have in common


def survey_samples(training: Training, settings: Settings, batches: Sequence[Any]) -> Verified:
    """Check the samples of ``batches`` after the window, and of more if the data are read. All ranks must call it."""
    rows, ranks, is_read = settings.batch_per_device, training.ranks.place.world_size, not settings.synthetic
    # An epoch in batches of all ranks.
    epoch = training.epoch_samples / (rows * ranks)
    found = [batch for batch in batches if batch is not None]
    if is_read and found:
        wanted = min(MOST_BATCHES, max(LEAST_BATCHES, math.ceil(SAMPLES / rows)))
        for _ in range(wanted - len(found)):
            batch = training.read_batch()
            assert batch is not None
            found.append(batch)
            training.batch = training.feed.next()
    survey, digests = Verified(), [_row_digests(batch, rows) for batch in found]
    if is_read:
        survey.add(_compare_rows(digests, training.epoch_samples, is_large=epoch >= 2))
    # A batch of a small data set spans epochs, and may have a sample twice.
    survey.add(_find_copies([] if is_read and epoch < 4 else found, rows))
    if ranks > 1:
        survey.add(_compare_ranks(training, settings, [] if is_read and epoch < 2 else digests))
    if is_read:
        survey.add(_check_numbers(training, settings))
    survey.add(_check_labels(training, settings, found if is_read else found[:1]))
    survey.data = {"samples": survey.data}
    return survey


def _arrays_of(batch: Sequence[Any], rows: int) -> list[Any]:
    """Return the arrays of a batch that have a row for each sample."""
    return [array for array in batch if getattr(array, "shape", ())[:1] == (rows,)]


def _row_digests(batch: Sequence[Any], rows: int) -> list[int]:
    """Return 63 bits of a digest of each of the first samples; empty if no array has a row for each sample."""
    arrays, digests = _arrays_of(batch, rows), []
    for row in range(min(rows, ROWS) if arrays else 0):
        digest = hashlib.blake2b(digest_size=8)
        for array in arrays:
            digest.update(array[row].tobytes())
        digests.append(int.from_bytes(digest.digest(), "big") >> 1)
    return digests


def _compare_rows(digests: Sequence[Sequence[int]], epoch_samples: int, is_large: bool) -> Verified:
    every = [digest for batch in digests for digest in batch]
    if not every:
        return Verified({"compared": None, "distinct": None}, not_checked=["samples"])
    distinct = len(set(every))
    found = Verified({"compared": len(every), "distinct": distinct})
    batches = list(map(tuple, digests))
    later = next((index for index, batch in enumerate(batches) if batch in batches[:index]), None)
    if later is not None and len(digests[0]) >= 4 and is_large:
        earlier = batches.index(batches[later])
        sentence = f"The loader repeats its batches: batch {later} after the window is batch {earlier} again."
        found.doubt("batches-repeat", sentence)
    elif distinct < FEW_DISTINCT * min(len(every), epoch_samples):
        sentence = f"Only {distinct} of {len(every)} samples after the window are distinct."
        found.doubt("samples-repeat", sentence)
    return found


def _find_copies(batches: Sequence[Sequence[Any]], rows: int) -> Verified:
    """Find rows that are copies of another row of the same batch, and their share over all batches."""
    compared = [[one.reshape(rows, -1) for one in _arrays_of(batch, rows) if one.size] for batch in batches]
    if rows < 4 or not any(compared):
        return Verified({"copies": None})
    share = sum(map(_copies, compared)) / (rows * sum(map(bool, compared)))
    found = Verified({"copies": share})
    if share >= COPIES:
        copies = f"{share:.0%} of the samples after the window are copies"
        found.doubt("batch-has-copies", f"{copies} of another sample of the same batch.")
    return found


def _copies(arrays: Sequence[Any]) -> int:
    """Return the number of rows that equal an earlier row in all arrays, each (rows, values)."""
    some = [array[:, :: max(1, array.shape[1] // VALUES)] for array in arrays]
    first: dict[bytes, int] = {}
    count = 0
    for row in range(len(arrays[0]) if arrays else 0):
        # Rows that agree in some values are compared whole.
        other = first.setdefault(b"".join(values[row].tobytes() for values in some), row)
        count += other < row and all(bool((array[row] == array[other]).all()) for array in arrays)
    return count


def _compare_ranks(training: Training, settings: Settings, digests: Sequence[Sequence[int]]) -> Verified:
    """Compare the ranks' samples of the same steps; all ranks exchange the same number of digests."""
    # Synthetic data have one batch a rank, of which the second one may be a copy.
    compared = digests[:1] if settings.synthetic else digests
    own = [digest for batch in compared for digest in batch]
    if not own:
        return Verified({"shared_by_ranks": None}, not_checked=["samples shared by ranks"])
    ranks = training.gather(own)
    # In a small data set later batches are of another epoch, and may have the others' samples: by batches then.
    is_one_epoch = settings.synthetic or training.epoch_samples >= 2 * len(own) * len(ranks)
    part = len(own) if is_one_epoch else len(compared[0])
    parts = [[{*rank[start : start + part]} for start in range(0, len(own), part)] for rank in ranks]
    share, one, other = max(
        (sum(len(mine & theirs) for mine, theirs in zip(parts[one], parts[other])) / len(own), one, other)
        for other in range(1, len(ranks))
        for one in range(other)
    )
    found = Verified({"shared_by_ranks": share})
    if share >= SHARED:
        sentence = f"Ranks {one} and {other} train on the same samples: {share:.0%} of those compared."
        found.doubt("ranks-share-samples", sentence)
    return found


def _check_numbers(training: Training, settings: Settings) -> Verified:
    """Compare the loader's own record with an independent count of the data set."""
    produced, task, epoch = training.feed.produced, training.task, training.epoch_samples
    numbers = [] if produced is None else produced.numbers()
    is_first = training.ranks.place.rank == 0
    there = task.count_samples(settings) if is_first else None
    found = Verified({"data_set": there, "read": None, "read_distinct": None, "read_digest": None})
    if there is None:
        found.not_checked.append("size of the data set")
    elif there != epoch:
        sentence = f"An epoch has {epoch} samples, but the data set has {there}."
        found.doubt("samples-left-out", sentence)
    if not numbers:
        found.not_checked.append("numbers of the samples")
        return found
    distinct, enough = len(set(numbers)), len(numbers) >= ROWS
    if enough and distinct < FEW_DISTINCT * min(len(numbers), there or epoch):
        read = f"The loader read {len(numbers)} samples, and only {distinct} different ones"
        found.doubt("samples-repeat", f"{read}; the data set has {there or epoch}.")
    in_order = _share_in_order(numbers, task.list_samples(settings) if is_first else None)
    if in_order is not None and enough and in_order >= IN_ORDER:
        found.doubt(
            "samples-not-shuffled",
            f"The loader reads the data set in the order of its list: {in_order:.0%} of {len(numbers)} samples follow "
            "their predecessor there, but a shuffled order was requested.",
        )
    digest = hashlib.blake2b(",".join(map(str, sorted(numbers))).encode(), digest_size=8).hexdigest()
    found.data.update(read=len(numbers), read_distinct=distinct, read_digest=digest, in_order=in_order)
    return found


def _share_in_order(numbers: Sequence[int], listed: Sequence[int] | None) -> float | None:
    """Return the share of samples that follow their predecessor in the list; None if the list does not have them."""
    places = {number: place for place, number in enumerate(listed or ())}
    found = [places[number] for number in numbers if number in places]
    if len(places) < ROWS or len(found) < max(len(numbers) // 2, 2):
        return None
    following = sum((place - last) % len(places) == 1 for last, place in pairwise(found))
    return following / (len(found) - 1)


def _check_labels(training: Training, settings: Settings, batches: Sequence[Sequence[Any]]) -> Verified:
    labelled = (training.task.labels(settings, batch) for batch in batches)
    known = [labels for labels in labelled if labels is not None]
    if not known:
        return Verified({"labels": None}, not_checked=["labels"])
    values = np.concatenate([np.ravel(labels) for labels, _ in known])
    counts = Counter(values.tolist())
    ((value, most),) = counts.most_common(1)
    shares = {"count": len(values), "distinct": len(counts), "most_frequent_share": most / len(values)}
    found = Verified({"labels": shares})
    if len(counts) == 1 and known[0][1] ** (len(values) - 1.0) < IMPROBABLE:
        found.doubt("labels-all-equal", f"All {len(values)} labels after the window are {value:g}.")
    return found
