"""Upper bounds of devices, nodes, samples and durations that no real run exceeds."""

from collections.abc import Iterator

import numpy as np

from trainmark.logs.columns import in_step
from trainmark.logs.model import Facts, Problem, Records

MOST_DEVICES = 200_000
"""Twice the size of the largest single job published by 2025."""
MOST_NODES = 50_000
MOST_PER_DEVICE = 1 << 22
"""Samples or tokens of one device in one micro-batch."""


LONGEST_S = 400 * 86_400.0
"""Longest plausible duration of a record, a little over a year."""
_BLOCK = 1 << 15


def is_possible(gpus: int | None = None, nodes: int | None = None, batch: int | None = None) -> bool:
    """Return whether a run can have so many devices, nodes and samples per device; ``None`` is not checked."""
    return (
        (gpus is None or 0 < gpus <= MOST_DEVICES)
        and (nodes is None or 0 < nodes <= MOST_NODES)
        and (batch is None or 0 < batch <= MOST_PER_DEVICE)
        and (gpus is None or nodes is None or gpus >= nodes)
    )


def impossible_counts(facts: Facts) -> Iterator[Problem]:
    """Yield a problem if the counts of a run are impossible."""
    counts = f"{facts.gpus} devices on {facts.nodes} nodes with {facts.batch_per_device} samples each"
    if not is_possible(facts.gpus, facts.nodes, facts.batch_per_device):
        yield Problem("out-of-bounds", f"no run has {counts}: a number computed from these counts is wrong")


_NO_NUMBER = 0.02


def non_numeric_speeds(records: Records) -> Iterator[Problem]:
    """Yield a problem if the speed of many records is not a number, although other records have one."""
    columns = [records.rate, records.step_time_s, records.average_rate, records.average_time_s]
    present = [column for column in columns if column is not None]
    if not present or not records.count:
        return
    without = sum(int(np.isnan(np.fmax.reduce(values)).sum()) for values in in_step(present))
    if without > max(_NO_NUMBER * records.count, 2):
        yield Problem(
            "numbers-unread",
            f"the speed of {without} of {records.count} records is not a number: these records are left out",
        )


def impossible_times(records: Records) -> Iterator[Problem]:
    """Yield a problem if a record lasts for years, by its samples and rate or by its step time."""
    longest = 0.0
    for start in range(0, records.count, _BLOCK):
        stop = min(start + _BLOCK, records.count)
        with np.errstate(divide="ignore", invalid="ignore"):
            if records.rate is not None and records.samples is not None:
                lasted = records.samples.array(start, stop) / records.rate.array(start, stop)
            elif records.step_time_s is not None:
                lasted = records.step_time_s.array(start, stop)
            else:
                return
        longest = max(longest, float(np.nanmax(lasted, initial=0.0)))
    if longest > LONGEST_S:
        yield Problem(
            "out-of-bounds", f"a record lasts {longest / 86_400:.0f} days, so its times cannot be right"
        )
