"""The ranks of one run on one clock: out of what each rank said, and how the hosts' clocks stand to each other."""

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

from trainmark.schema.hosts import LOCALHOST
from trainmark.schema.outcome import NodeOutcome
from trainmark.schema.ranks import AllReduce, RankTime, RankTimes


def rank_times(
    summary: Mapping[str, Any],
    measured_steps: int,
    devices_per_node: int,
    nodes: Sequence[NodeOutcome],
    hosts: Sequence[str] = (),
) -> RankTimes | None:
    """Return what the last event of a run tells of its ranks; None of one rank, and where windows are not told.

    ``nodes`` know how far their clocks are ahead of the controller's; ``hosts`` are the nodes' names.
    """
    starts, lengths = _numbers(summary.get("rank_windows_at")), _numbers(summary.get("rank_windows_s"))
    if (
        starts is None
        or lengths is None
        or len(starts) != len(lengths)
        or len(starts) < 2
        or measured_steps < 1
    ):
        return None
    count = len(lengths)
    known = {node.node: node for node in nodes}
    number = [rank // devices_per_node for rank in range(count)]
    ahead = [_clock(known.get(node), node) for node in number]
    began = [at - (offset or 0.0) for at, (offset, _) in zip(starts, ahead, strict=True)]
    first = min(range(count), key=began.__getitem__)
    step_s = max(lengths) / measured_steps
    apart = summary.get("apart")
    apart = apart if isinstance(apart, Mapping) else {}
    passes = _numbers(apart.get("pass_s"), count)
    slowest = None if passes is None else max(range(count), key=passes.__getitem__)
    ranks = tuple(
        RankTime(
            rank=rank,
            node=node,
            host=hosts[node] if node < len(hosts) else None,
            began_s=began[rank] - began[first],
            error_s=_error(ahead[rank][1], ahead[first][1], node == number[first]),
            window_s=lengths[rank],
            pass_s=None if passes is None else passes[rank],
            wait_s=None if passes is None else max(passes) - passes[rank],
        )
        for rank, node in enumerate(number)
    )
    found = RankTimes(ranks=ranks, all_reduce=_all_reduce(apart, count, step_s))
    if passes is None or slowest is None:
        return found
    others = [seconds for rank, seconds in enumerate(passes) if rank != slowest]
    said = {
        "slowest": slowest,
        "slower_by": passes[slowest] / median(others) - 1,
        "waits": fmean(passes[slowest] - seconds for seconds in others) / step_s,
    }
    return found.model_copy(update=said)


def _clock(node: NodeOutcome | None, number: int) -> tuple[float | None, float | None]:
    """Return how far a node's clock is ahead of the controller's, and how wrong that may be; None: nobody asked."""
    if node is not None and (clock := node.clock()) is not None:
        return clock
    # Nobody asks the controller's own machine. A host that did not answer is not that.
    here = number == 0 if node is None else node.host in (None, LOCALHOST)
    return (0.0, 0.0) if here else (None, None)


def _error(one: float | None, other: float | None, same_node: bool) -> float | None:
    if same_node:
        return 0.0
    return None if one is None or other is None else one + other


def _all_reduce(apart: Mapping[str, Any], count: int, step_s: float) -> AllReduce | None:
    seconds, size = _numbers(apart.get("all_reduce_s"), count), apart.get("all_reduce_bytes")
    if seconds is None or not isinstance(size, int):
        return None
    return AllReduce(bytes=size, seconds=max(seconds), share=max(seconds) / step_s)


def _numbers(values: Any, count: int | None = None) -> list[float] | None:
    """Return the values where they are positive numbers, as many as asked."""
    if not isinstance(values, list) or (count is not None and len(values) != count):
        return None
    return values if all(isinstance(value, int | float) and value > 0 for value in values) else None
