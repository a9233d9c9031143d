"""From the ranks' events: their times on a common clock, and the peak rates that they measured."""

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from trainmark.schema.hosts import LOCALHOST
from trainmark.schema.manifest import MeasuredPeak, PeakQuantity, PeakUnit
from trainmark.schema.outcome import NodeOutcome
from trainmark.schema.ranks import AllReduce, RankTime, RankTimes

_Rates = Annotated[tuple[PositiveInt, ...] | None, Field(strict=False)]


def rank_times(
    summary: Mapping[str, Any],
    measured_steps: int,
    devices_per_node: int,
    nodes: Sequence[NodeOutcome],
    hosts: Sequence[str] = (),
) -> RankTimes | None:
    """Return the ranks' times from a run's last event; None for a single rank and if windows are missing.

    ``nodes`` have their clocks' offsets from the controller's clock; ``hosts`` are the nodes' names.
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
    isolated = summary.get("apart")
    isolated = isolated if isinstance(isolated, Mapping) else {}
    passes = _numbers(isolated.get("pass_s"), count)
    balance = None if passes is None else _balance(passes, step_s)
    ranks = tuple(
        RankTime(
            rank=rank,
            node=node,
            host=hosts[node] if node < len(hosts) else None,
            began_s=began[rank] - began[first],
            error_s=_error(ahead[rank][1], ahead[first][1], node == number[first]),
            window_s=lengths[rank],
            pass_s=None if passes is None else passes[rank],
            wait_s=None if passes is None or balance is None else max(passes) - passes[rank],
        )
        for rank, node in enumerate(number)
    )
    return RankTimes(ranks=ranks, all_reduce=_all_reduce(isolated, count, step_s), **(balance or {}))


_DISTURBED = 0.1
"""The share by which a pass exceeds the step, and of a step that others wait for it, from which it is not believed."""


def _balance(passes: Sequence[float], step_s: float) -> dict[str, Any] | None:
    """Return the slowest rank and the wait for it; None if its pass was slower after the window than in it.

    A pass is a part of the step, so that the others wait at most for the rest of the step after their own pass.
    """
    slowest = max(range(len(passes)), key=passes.__getitem__)
    others = [seconds for rank, seconds in enumerate(passes) if rank != slowest]
    longest = passes[slowest]
    waits = fmean(max(0.0, min(longest, step_s) - seconds) for seconds in others) / step_s
    if waits > _DISTURBED and longest > (1 + _DISTURBED) * step_s:
        return None
    return {"slowest": slowest, "slower_by": longest / median(others) - 1, "waits": waits}


def _clock(node: NodeOutcome | None, number: int) -> tuple[float | None, float | None]:
    """Return the offset of a node's clock from the controller's and its error bound, in seconds; None if unknown."""
    if node is not None and (clock := node.clock()) is not None:
        return clock
    # The controller's own machine has no clock measurement, and its offset is 0; a host that did not answer is unknown.
    here = number == 0 if node is None else node.host in (None, LOCALHOST)
    return (0.0, 0.0) if here else (None, None)


def _error(one: float | None, other: float | None, same_node: bool) -> float | None:
    if same_node:
        return 0.0
    return None if one is None or other is None else one + other


def _all_reduce(isolated: Mapping[str, Any], count: int, step_s: float) -> AllReduce | None:
    seconds, size = _numbers(isolated.get("all_reduce_s"), count), isolated.get("all_reduce_bytes")
    if seconds is None or not isinstance(size, int):
        return None
    return AllReduce(bytes=size, seconds=max(seconds), share=min(1.0, max(seconds) / step_s))


def _numbers(values: Any, count: int | None = None) -> list[float] | None:
    """Return the values if all are positive numbers and there are ``count`` of them; else None."""
    if not isinstance(values, list) or (count is not None and len(values) != count):
        return None
    return values if all(isinstance(value, int | float) and value > 0 for value in values) else None


class _PeakFields(BaseModel):
    """The fields that are read from the event about the whole run; rates have one value per rank."""

    model_config = ConfigDict(frozen=True, strict=True)

    peak_operations_per_s: _Rates = None
    peak_of: str | None = None
    peak_type: str | None = None
    peak_bytes_per_s: _Rates = None
    peak_bytes_of: str | None = None
    peak_bytes_type: str | None = None


def measured_peaks(summary: Mapping[str, Any], ranks: int) -> tuple[MeasuredPeak, ...]:
    """Return the measured peaks of all ranks' devices, rank by rank; empty if ``summary`` has none.

    ``summary`` is the run's last event and ``ranks`` its number of ranks; lists of another length are ignored.
    """
    try:
        fields = _PeakFields.model_validate(summary)
    except ValidationError:
        return ()
    product, memory = PeakQuantity.MATRIX_PRODUCT, PeakQuantity.MEMORY
    quantities = (
        (product, PeakUnit.OPERATIONS, fields.peak_operations_per_s or (), fields.peak_type, fields.peak_of),
        (memory, PeakUnit.BYTES, fields.peak_bytes_per_s or (), fields.peak_bytes_type, fields.peak_bytes_of),
    )
    found = (
        MeasuredPeak(rank=rank, quantity=quantity, rate=rate, unit=unit, type=kind, of=of)
        for quantity, unit, rates, kind, of in quantities
        if len(rates) == ranks
        for rank, rate in enumerate(rates)
    )
    return tuple(sorted(found, key=lambda peak: peak.rank))
