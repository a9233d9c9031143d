"""The records of a log epoch by epoch, in blocks: an epoch may be as long as the log, which is never in memory."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from trainmark.logs.columns import BLOCK_VALUES
from trainmark.logs.model import Records


@dataclass(frozen=True, slots=True)
class Part:
    """The records ``start`` … ``stop`` of one epoch; it ``begins`` with them, or goes on from the part before."""

    begins: bool
    start: int
    stop: int


def parts(records: Records, skipped: int) -> Iterator[Part]:
    """Yield the parts of the epochs after the first ``skipped`` records; without epochs all are of one."""
    before = np.nan
    for first in range(skipped, records.count, BLOCK_VALUES):
        stop = min(first + BLOCK_VALUES, records.count)
        if records.epoch is None:
            yield Part(first == skipped, first, stop)
            continue
        numbers = records.epoch.array(first, stop)
        turns = np.flatnonzero(np.diff(numbers, prepend=before)).tolist()
        begins = turns[:1] == [0]
        for start, end in zip([0, *turns[begins:]], [*turns[begins:], len(numbers)], strict=True):
            yield Part(begins or start > 0, first + start, first + end)
        before = float(numbers[-1])
