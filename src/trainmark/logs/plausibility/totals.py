"""The log's own witness: what the program says that an epoch took, against what its records make of it."""

from collections.abc import Iterator

import numpy as np

from trainmark.logs.columns import Floats
from trainmark.logs.model import ParsedLog, Problem
from trainmark.logs.plausibility.intervals import intervals

_APART = 0.2
"""An epoch has a start that no record times: workers that begin, a first step that compiles."""


def totals_disagree(log: ParsedLog) -> Iterator[Problem]:
    """Yield a doubt where the epochs took far longer or shorter, by the program's own words, than their records say."""
    if not log.epoch_seconds or log.records.epoch is None or log.records.step is None:
        return
    own, done = _own(log)
    said = expected = 0.0
    for epoch, (first, last) in _spans(log).items():
        if own.get(epoch, 0.0) > 0 and last > first and epoch in log.epoch_seconds:
            said += log.epoch_seconds[epoch]
            expected += own[epoch] / done[epoch] * (last - first + log.step_interval)
    if expected > 0 and abs(said / expected - 1) > _APART:
        sentence = (
            f"the program says that its epochs took {said:.6g} s, the records make {expected:.6g} s of the same steps: "
            f"by the program's own words the rate would be {expected / said - 1:+.0%} other"
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
            inside = places[numbers == epoch]
            first, last = found.get(int(epoch), (np.inf, -np.inf))
            found[int(epoch)] = min(first, float(inside.min())), max(last, float(inside.max()))
    return found


def _own(log: ParsedLog) -> tuple[dict[int, float], dict[int, float]]:
    """Return of each epoch the seconds and the steps of its intervals, by the records themselves."""
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
