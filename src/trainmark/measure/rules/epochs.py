"""The records of a log epoch by epoch, in blocks: an epoch may be as long as the log, which is never in memory."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from trainmark.logs.columns import BLOCK_VALUES
from trainmark.logs.model import Records


@dataclass(frozen=True, slots=True)
class Part:
    """The records ``start`` … ``stop`` of one epoch; it ``begins`` with them, or goes on from the part before.

    Of one that is ``whole`` from its start, no record is left out before them: another epoch's stands there.
    """

    begins: bool
    start: int
    stop: int
    whole: bool = False


def _follows_another(records: Records, at: int) -> bool:
    """Say whether the record at ``at`` is of another epoch than the one before it."""
    if records.epoch is None or not 0 < at < records.count:
        return False
    before, here = records.epoch.array(at - 1, at + 1)
    return bool(before != here)


def parts(records: Records, skipped: int) -> Iterator[Part]:
    """Yield the parts of the epochs after the first ``skipped`` records; without epochs all are of one."""
    before = np.nan
    opened = _follows_another(records, skipped)
    for first in range(skipped, records.count, BLOCK_VALUES):
        stop = min(first + BLOCK_VALUES, records.count)
        if records.epoch is None:
            yield Part(first == skipped, first, stop)
            continue
        numbers = records.epoch.array(first, stop)
        turns = np.flatnonzero(np.diff(numbers, prepend=before)).tolist()
        begins = turns[:1] == [0]
        for start, end in zip([0, *turns[begins:]], [*turns[begins:], len(numbers)], strict=True):
            whole = start > 0 or (begins and (first > skipped or opened))
            yield Part(begins or start > 0, first + start, first + end, whole)
        before = float(numbers[-1])
