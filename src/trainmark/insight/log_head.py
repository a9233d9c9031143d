"""The data-wait time that ``explain`` reads from a log in addition to its records."""

import re
from collections.abc import Iterable
from statistics import median

_RATES = re.compile(r"train\.compute_ips : ([0-9.]+)\D.*?train\.total_ips : ([0-9.]+)")
_COSTS = (
    re.compile(r"batch_cost: (?P<step>[0-9.]+).*?reader_cost: (?P<wait>[0-9.]+)"),  # PaddleClas, PaddleSeg, …
    re.compile(r"reader_cost: (?P<wait>[0-9.]+).*?batch_cost: (?P<step>[0-9.]+)"),  # PaddleNLP, PaddleOCR
    re.compile(r"[, \t]time: (?P<step>[0-9.]+),? .*?data_time: (?P<wait>[0-9.]+)"),  # OpenMMLab, detectron2
)
"""Lines with the time of a step and its part spent waiting for data; each averages several steps."""
_FIRST_RECORDS = 5
_FEWEST = 20
_FIRST_AVERAGES = 1
_FEWEST_AVERAGES = 4


def data_wait(lines: Iterable[str]) -> float | None:
    """Return the share of a step (0 to 1) that was spent waiting for data; None if the log does not print it.

    NVIDIA's PyTorch ConvNets print two rates per step, ``compute_ips`` without the wait for the batch and ``total_ips``
    with it: the share is the median of 1 - total/compute after the first 5 steps, of at least 20 steps. Paddle's
    ``reader_cost`` and OpenMMLab's ``data_time`` are averages over several steps: the share is that of their sums
    after the first average, of at least 4 averages.
    """
    shares: list[float] = []
    waits: list[tuple[float, float]] = []
    for line in lines:
        match = _RATES.search(line)
        if match and " Iteration: " in line:
            compute, total = float(match[1]), float(match[2])
            if compute > 0:
                shares.append(1 - total / compute)
        elif "eval" not in line.lower():
            found = next((m for pattern in _COSTS if (m := pattern.search(line))), None)
            if found:
                waits.append((_number(found["wait"]), _number(found["step"])))
    steady = shares[_FIRST_RECORDS:]
    if len(steady) >= _FEWEST:
        return min(max(median(steady), 0.0), 0.99)
    waited, steps = (
        (sum(column) for column in zip(*waits[_FIRST_AVERAGES:], strict=True)) if waits[1:] else (0, 0)
    )
    if len(waits) - _FIRST_AVERAGES < _FEWEST_AVERAGES or not 0 <= waited <= steps or not steps:
        return None
    return min(waited / steps, 0.99)


def _number(word: str) -> float:
    try:
        return float(word.strip("."))
    except ValueError:
        return 0.0
