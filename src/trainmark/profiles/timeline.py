"""Intervals of work on lanes (threads or streams), and the division of a stretch of time among their kinds.

Every moment of the stretch goes to exactly one account, so the accounts add up to the stretch:

    some computation runs               to the kinds of all computations that run, in equal parts
    else some copy runs                 copy
    else some communication runs        communication (exposed)
    else the program fetches a batch    data-wait
    else                                idle

Communication and copies that other work covers are summed separately, as hidden.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from trainmark.schema.profile import WorkKind

_HOST = (WorkKind.DATA_WAIT, WorkKind.IDLE)
_COVERED = (WorkKind.COMMUNICATION, WorkKind.COPY)


class Interval(NamedTuple):
    """A stretch of work of one kind, from ``start`` to ``end`` on the trace's clock, by the operation ``name``."""

    start: float
    end: float
    kind: WorkKind
    name: str


class Shares(NamedTuple):
    """The division of a stretch of time: by kind, hidden time by kind, and computing time by operation."""

    kinds: dict[WorkKind, float]
    hidden: dict[WorkKind, float]
    operations: dict[tuple[str, WorkKind], float]


def divide(lanes: Iterable[Sequence[Interval]], start: float, end: float) -> Shares:
    """Divide the time from ``start`` to ``end`` among the intervals of all lanes; they may overlap between lanes."""
    moments: list[tuple[float, int, Interval]] = []
    for interval in (interval for lane in lanes for interval in lane):
        begins, ends = max(interval.start, start), min(interval.end, end)
        if begins < ends:
            moments += [(begins, 1, interval), (ends, -1, interval)]
    moments.sort(key=lambda moment: moment[0])
    shares = Shares(defaultdict(float), defaultdict(float), defaultdict(float))
    running: Counter[Interval] = Counter()
    now = start
    for moment, change, interval in moments:
        if moment > now:
            _account(running, moment - now, shares)
            now = moment
        running[interval] += change
        if not running[interval]:
            del running[interval]
    if end > now:
        _account(running, end - now, shares)
    return shares


def _account(running: Counter[Interval], length: float, shares: Shares) -> None:
    active = [interval for interval in running if interval.kind not in _HOST]
    computing = [interval for interval in active if interval.kind not in _COVERED]
    chosen = computing or [one for one in active if one.kind is WorkKind.COPY] or active
    for covered in {interval.kind for interval in active} - {interval.kind for interval in chosen}:
        shares.hidden[covered] += length
    if not chosen:
        waits = any(interval.kind is WorkKind.DATA_WAIT for interval in running)
        shares.kinds[WorkKind.DATA_WAIT if waits else WorkKind.IDLE] += length
    for interval in chosen:
        shares.kinds[interval.kind] += length / len(chosen)
        shares.operations[interval.name, interval.kind] += length / len(chosen)
