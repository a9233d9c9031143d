"""The records of a log epoch by epoch, in blocks: an epoch may be as long as the log, which is never in memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from trainmark.logs.columns import BLOCK_VALUES
from trainmark.logs.model import Records, Restart


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


def parts(records: Records, skipped: int, restarts: Sequence[Restart] = ()) -> Iterator[Part]:
    """Yield the parts of the epochs after the first ``skipped`` records; without epochs all are of one.

    A run that went on at the start of an epoch begins that epoch anew there. Where it went on in the midst of one, the
    rest of that epoch is in no part: what its averages are of is not known.
    """
    for part in _of_epochs(records, skipped):
        yield from _cut(part, restarts)


def _cut(part: Part, restarts: Sequence[Restart]) -> Iterator[Part]:
    for one in restarts:
        if one.until <= part.start or one.record >= part.stop:
            continue
        if one.record > part.start:
            yield replace(part, stop=one.record)
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
