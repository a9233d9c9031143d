"""Verification of dropout: the timed function trains some more steps on one batch, at a rate of 0.

Such a step changes no weight, so that the losses of these steps differ by the dropped values alone. Equal losses mean
that nothing is dropped, or the same values in each step, as by a mask that was drawn once while the step was compiled.
"""

import math
from typing import Any

from .settings import Settings
from .training import DROPOUT_STEPS, WITNESS_STEPS, Training

SAME = 2.0**-22
"""The largest relative difference of losses that rounding explains: the last bits of a number of FP32.

Dropout changes a sample's loss by some percent, and so the mean of 65 536 samples by some 1e-4: that four such losses
lie within this bound has a chance below 1e-7.
"""

Doubts = list[tuple[str, str]]


def check_dropout(training: Training, settings: Settings) -> tuple[dict[str, Any], Doubts, list[str]]:
    """Return the events' data, the doubts, and the names of what could not be checked. All ranks must call it.

    Nothing is done for a recipe without dropout.
    """
    share = settings.dropout
    if not share:
        return {}, [], []
    batch, first = training.batch, settings.steps + WITNESS_STEPS
    for index in range(first, first + DROPOUT_STEPS):
        training.batch = batch
        training.train(index)
    training.synchronize()
    losses = training.losses()[first : first + DROPOUT_STEPS]
    report: dict[str, Any] = {"dropout_losses": losses}
    largest = max(map(abs, losses))
    if not all(map(math.isfinite, losses)) or not largest:
        return report, [], ["dropout"]
    if max(losses) - min(losses) > SAME * largest:
        return report, [], []
    sentence = (
        f"{DROPOUT_STEPS} steps on one batch and with the same weights have the same loss, {losses[0]:.6g}: nothing is "
        f"dropped, or always the same, but a dropout of {share:g} was requested."
    )
    return report, [("dropout-not-random", sentence)], []
