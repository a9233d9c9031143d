"""Findings about the ranks of each case over its runs: the slowest rank, the wait for it, the gradient exchange."""

from collections import Counter
from collections.abc import Iterable, Iterator
from statistics import median
from typing import Any

from trainmark.schema.ranks import RankComparison, RankSpeed, RankTimes
from trainmark.schema.results import CaseResult, RanksFinding, pooled


def judge_ranks(cases: Iterable[CaseResult]) -> Iterator[RanksFinding]:
    """Yield a finding for each case of several ranks, from the runs in its estimate."""
    for case in cases:
        runs = [run.ranks for run in pooled(case.runs) if run.ranks is not None]
        if runs:
            yield RanksFinding(
                case=case.id, runs=len(runs), **_slowest(runs), **_exchange(runs), **_start(runs)
            )


def shown_ranks(found: RankComparison, most: int) -> list[RankSpeed]:
    """Return at most ``most`` ranks in the order of their numbers: those with a finding first, then the slowest."""
    ordered = sorted(
        found.ranks, key=lambda one: (not (one.is_slower or one.waits_for_data), -(one.slower_by or 0))
    )
    return sorted(ordered[:most], key=lambda one: one.rank)


def _slowest(runs: list[RankTimes]) -> dict[str, Any]:
    with_slowest = [run for run in runs if run.slowest is not None]
    if not with_slowest:
        return {}
    rank, times = Counter(run.slowest for run in with_slowest).most_common(1)[0]
    hosts = Counter(one.host for run in with_slowest for one in run.ranks if one.rank == rank == run.slowest)
    return {
        "told": len(with_slowest),
        "slowest": rank,
        "times": times,
        "host": hosts.most_common(1)[0][0],
        "slower_by": median(run.slower_by or 0.0 for run in with_slowest if run.slowest == rank),
        "waits": median(run.waits or 0.0 for run in with_slowest),
    }


def _exchange(runs: list[RankTimes]) -> dict[str, Any]:
    found = [run.all_reduce for run in runs if run.all_reduce is not None]
    if not found:
        return {}
    ranks, seconds = len(runs[0].ranks), median(one.seconds for one in found)
    return {
        "all_reduce_bytes": found[0].bytes,
        "all_reduce_s": seconds,
        "all_reduce_bus_bytes_per_s": 2 * (ranks - 1) / ranks * found[0].bytes / seconds,
        "all_reduce_share": median(one.share for one in found),
    }


def _start(runs: list[RankTimes]) -> dict[str, Any]:
    errors = [one.error_s for run in runs for one in run.ranks]
    known = [error for error in errors if error is not None]
    return {
        "began_within_s": median(max(one.began_s for one in run.ranks) for run in runs),
        "clock_error_s": max(known) if len(known) == len(errors) else None,
    }
