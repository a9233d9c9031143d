"""The records of a log by epochs, in blocks, because a log may be too long for memory and consist of one epoch."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from trainmark.logs.columns import BLOCK_VALUES
from trainmark.logs.model import Records, Restart


class Part(NamedTuple):
    """The records ``start`` … ``stop`` of one epoch; the first part of an epoch ``begins`` it, others continue it.

    The part is ``whole`` if no record of its epoch before it was left out.
    """

    begins: bool
    start: int
    stop: int
    whole: bool = False


def _follows_another(records: Records, at: int) -> bool:
    """Return whether the record at ``at`` is of another epoch than the record before it."""
    if records.epoch is None or not 0 < at < records.count:
        return False
    before, here = records.epoch.array(at - 1, at + 1)
    return bool(before != here)


def parts(records: Records, skipped: int, restarts: Sequence[Restart] = ()) -> Iterator[Part]:
    """Yield the parts of the epochs after the first ``skipped`` records; a log without epochs counts as one epoch.

    A run that resumed at the start of an epoch starts that epoch again. If it resumed within an epoch, the rest of that
    epoch is in no part, because the number of steps in its averages is unknown.
    """
    for part in _of_epochs(records, skipped):
        yield from _cut(part, restarts)


def _cut(part: Part, restarts: Sequence[Restart]) -> Iterator[Part]:
    for one in restarts:
        if one.until <= part.start or one.record >= part.stop:
            continue
        if one.record > part.start:
            yield part._replace(stop=one.record)
        if not one.fresh:
            part = Part(True, min(one.until, part.stop), part.stop)
        elif one.record >= part.start:
            part = Part(True, one.record, part.stop, True)
    if part.start < part.stop:
        yield part


def _of_epochs(records: Records, skipped: int) -> Iterator[Part]:
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
