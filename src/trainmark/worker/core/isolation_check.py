"""Verification that the parts of a sample do not see each other: the timed function trains three steps at a rate of 0.

The first two steps have one batch, the third another, which differs only in parts that the loss does not count
(``Task.unrelated``). No weight changes, so the losses are equal unless the other parts read these. How far the first
two differ is the noise of the step itself, such as that of sums whose order varies.
"""

import math
from typing import Any

from .settings import Settings
from .training import ISOLATION_STEPS, Training, steps_after_window

SAME, NOISE = 2.0**-22, 4.0
"""The largest difference that rounding explains, relative to the loss, besides so many times the noise."""

Doubts = list[tuple[str, str]]


def check_isolation(training: Training, settings: Settings) -> tuple[dict[str, Any], Doubts, list[str]]:
    """Return the events' data, the doubts, and the names of what could not be checked. All ranks must call it.

    Nothing is done for samples that are one piece.
    """
    pair = training.task.unrelated(settings, training.ranks.place.rank) if settings.isolated else None
    if pair is None:
        return {}, [], []
    last = settings.steps + steps_after_window(settings)
    for index, arrays in zip(range(last - ISOLATION_STEPS, last), (pair[0], *pair)):
        training.batch = training.as_batch(*arrays)
        training.train(index)
    training.synchronize()
    losses = training.losses()[last - ISOLATION_STEPS : last]
    if not all(map(math.isfinite, losses)):
        return {"isolation_losses": None}, [], ["isolation of documents"]
    first, again, other = losses
    report = {"isolation_losses": losses}
    if abs(other - first) <= SAME * abs(first) + NOISE * abs(again - first):
        return report, [], []
    sentence = (
        f"The loss of a step is {first:.9g}, and {other:.9g} if only padding before its documents changes: attention "
        "crosses the borders of documents, or the loss counts padding."
    )
    return report, [("documents-not-isolated", sentence)], []
