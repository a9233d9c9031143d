"""What ``explain`` reads of a log beside its records: the lines of settings, and how long it waited for data."""

import re
from collections.abc import Iterable
from statistics import median

_RATES = re.compile(r"train\.compute_ips : ([0-9.]+)\D.*?train\.total_ips : ([0-9.]+)")
_FIRST_RECORDS = 5
_FEWEST = 20


def data_wait(lines: Iterable[str]) -> float | None:
    """Return the median share of a step (0 to 1) that was spent waiting for data; none where it is not printed.

    NVIDIA's PyTorch ConvNets print two rates a step: ``compute_ips`` without the wait for the batch and
    ``total_ips`` with it, so the share is 1 - total/compute. The first 5 steps are left out; fewer than 20
    others say nothing.
    """
    shares = []
    for line in lines:
        match = _RATES.search(line)
        if match and " Iteration: " in line:
            compute, total = float(match[1]), float(match[2])
            if compute > 0:
                shares.append(1 - total / compute)
    steady = shares[_FIRST_RECORDS:]
    if len(steady) < _FEWEST:
        return None
    return min(max(median(steady), 0.0), 0.99)
