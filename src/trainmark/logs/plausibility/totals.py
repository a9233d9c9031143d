"""Comparison of the epoch times that a program prints with the times computed from its records."""

from collections.abc import Iterator

import numpy as np

from trainmark.logs.columns import Floats
from trainmark.logs.model import ParsedLog, Problem
from trainmark.logs.plausibility.intervals import intervals

_MOST_DEVIATION = 0.2
"""Allowed deviation: an epoch has a start that no record times (worker start-up, compilation of the first step)."""


def totals_disagree(log: ParsedLog) -> Iterator[Problem]:
    """Yield a doubt if the printed epoch times differ widely from those computed from the records."""
    if not log.epoch_seconds or log.records.epoch is None or log.records.step is None:
        return
    own, done = _own(log)
    printed = expected = 0.0
    for epoch, (first, last) in _spans(log).items():
        if own.get(epoch, 0.0) > 0 and last > first and epoch in log.epoch_seconds:
            printed += log.epoch_seconds[epoch]
            expected += own[epoch] / done[epoch] * (last - first + log.step_interval)
    if expected > 0 and abs(printed / expected - 1) > _MOST_DEVIATION:
        sentence = (
            f"the program reports {printed:.6g} s for its epochs, but its records add up to {expected:.6g} s for the "
            f"same steps: by the reported time the rate would change by {expected / printed - 1:+.0%}"
        )
        yield Problem("totals-disagree", sentence)


def _spans(log: ParsedLog) -> dict[int, tuple[float, float]]:
    """Return the first and the last step of each epoch."""
    epochs, steps = log.records.epoch, log.records.step
    assert epochs is not None
    assert steps is not None
    found: dict[int, tuple[float, float]] = {}
    for numbers, places in zip(epochs.blocks(), steps.blocks(), strict=True):
        for epoch in np.unique(numbers[np.isfinite(numbers)]).tolist():
            in_epoch = places[numbers == epoch]
            first, last = found.get(int(epoch), (np.inf, -np.inf))
            found[int(epoch)] = min(first, float(in_epoch.min())), max(last, float(in_epoch.max()))
    return found


def _own(log: ParsedLog) -> tuple[dict[int, float], dict[int, float]]:
    """Return the seconds and the steps of each epoch, summed over its intervals by the records."""
    assert log.records.epoch is not None
    seconds: dict[int, float] = {}
    steps: dict[int, float] = {}
    for block in intervals(log):
        if not block.absolute:
            return {}, {}
        epochs = log.records.epoch.array(block.first, block.first + len(block.own))
        good = np.isfinite(block.own)
        for epoch in np.unique(epochs[good]).tolist():
            here: Floats = good & (epochs == epoch)
            seconds[int(epoch)] = seconds.get(int(epoch), 0.0) + float(block.own[here].sum())
            steps[int(epoch)] = steps.get(int(epoch), 0.0) + float(block.steps[here].sum())
    return seconds, steps
