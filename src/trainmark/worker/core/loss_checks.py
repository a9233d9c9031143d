"""Verification of the losses of steps after the window: of the loss itself, of dropout, and of separate documents.

The formula of the loss is the task's (``Task.plain_loss``): in numpy and float64, from the outputs of this rank's own
pass at the weights before the step. No line of it is shared with the loss that is verified. Where a parameter's
gradient follows from the outputs alone, as that of the classifier's bias does, the own pass's gradient is verified by
it as well: the own pass verifies the update, and would otherwise use the loss that is verified.

For dropout and for documents the timed function trains some more steps, at a rate of 0. Such a step changes no weight:
the losses of steps on one batch differ by the dropped values alone. Equal losses mean that nothing is dropped, or the
same values in each step, as by a mask that was drawn once while the step was compiled. And two batches that differ only
in parts that the loss does not count (``Task.unrelated``) have equal losses unless the other parts read these.
"""

import math
from collections.abc import Sequence
from typing import Any

from .settings import Settings
from .task import PlainLoss, Verified
from .training import DROPOUT_STEPS, ISOLATION_STEPS, WITNESS_STEPS, Training, steps_after_window

EXACT, ROUNDED = 5e-4, 0.03
"""The allowed deviation of the loss, relative to it: in FP32, and with products of fewer bits."""

NOTICED = 0.1
"""A deviation below the limits is a doubt if a known mistake leaves less than this part of it ..."""

LEAST_EXACT, LEAST_ROUNDED = 5e-5, 3e-3
"""... and if it is at least this large, relative to the loss."""

GRADIENT_EXACT, GRADIENT_ROUNDED = 0.02, 0.4
"""The allowed deviation of a gradient that follows from the outputs, relative to its norm."""

LOSS_TYPE = "float32"
"""The type in which every built-in model computes its loss, from logits of the same type, in every precision."""

SAME = 2.0**-22
"""The largest relative difference of losses that rounding explains: the last bits of a number of FP32.

Dropout changes a sample's loss by some percent, and so the mean of 65 536 samples by some 1e-4: that four such losses
lie within this bound has a chance below 1e-7.
"""

NOISE = 4.0
"""So many times the difference between two steps on one batch, such as of sums whose order varies, is its noise."""


def check_loss(training: Training, settings: Settings, batch: Sequence[Any] | None, alone: Any) -> Verified:
    """Check the loss of the last step that moved the weights. All ranks must call it.

    ``alone`` is the own pass of its ``batch`` at the weights before the step.
    """
    found = _check_types(getattr(alone, "loss_types", None))
    plain = None if batch is None or alone is None else training.task.plain_loss(settings, batch, alone)
    taken = training.losses()[settings.steps + WITNESS_STEPS - 1]
    if plain is not None:
        means = training.mean_over_ranks([plain.loss, *plain.mistakes.values()])
        # Gradients stay this rank's.
        plain = plain._replace(loss=means[0], mistakes=dict(zip(plain.mistakes, means[1:])))
    # A loss that is not finite has a doubt already (``loss-not-finite``).
    if plain is None or not (math.isfinite(taken) and math.isfinite(plain.loss)):
        found.not_checked.append("loss")
        found.data.update(loss=None, loss_asked=None, targets_in_loss=None)
        return found
    expected = training.expected()
    exact = expected.compute_dtype == "float32" and not expected.tf32
    reason = _differs(taken, plain, exact)
    if reason is not None:
        found.doubt(
            "loss-differs",
            f"The loss of a step after the window is {taken:.6g}, but the recipe's formula gives {plain.loss:.6g} "
            f"for its batch: {reason}.",
        )
    else:
        _check_gradients(alone.gradients, plain, exact, found)
    targets = None if reason is not None else plain.targets
    found.data.update(loss=taken, loss_asked=plain.loss, targets_in_loss=targets)
    return found


def _check_types(types: Any) -> Verified:
    if types is None:
        return Verified({"loss_types": None}, not_checked=["types of logits and loss"])
    found = Verified({"loss_types": dict(types)})
    other = next((name for name, kind in types.items() if kind != LOSS_TYPE), None)
    if other is not None:
        found.doubt("loss-type-differs", f"The {other} is computed in {types[other]}, not in {LOSS_TYPE}.")
    return found


def _differs(taken: float, plain: PlainLoss, exact: bool) -> str | None:
    """Return why the loss of a step differs from the formula's, or None."""
    off, scale = abs(taken - plain.loss), max(abs(plain.loss), 1e-3)
    noticed = off > scale * (LEAST_EXACT if exact else LEAST_ROUNDED)
    for mistake, loss in plain.mistakes.items():
        if noticed and abs(taken - loss) < NOTICED * off:
            return mistake
    return f"it is off by {off / scale:.2g}" if off > scale * (EXACT if exact else ROUNDED) else None


def _check_gradients(gradients: Any, plain: PlainLoss, exact: bool, found: Verified) -> None:
    import numpy as np

    for name, expected in plain.gradients.items():
        if name not in gradients:
            continue
        off = np.asarray(gradients[name], np.float64).reshape(expected.shape) - expected
        part = float(np.linalg.norm(off) / (np.linalg.norm(expected) or 1.0))
        if part > (GRADIENT_EXACT if exact else GRADIENT_ROUNDED):
            sentence = f"The gradient of {name} is off by {part:.0%} from that of the recipe's loss on the same batch."
            found.doubt("loss-differs", sentence)


def check_dropout(training: Training, settings: Settings) -> Verified:
    """Check that dropout drops other values in each step, if the recipe has it. All ranks must call it."""
    share, batch = settings.dropout, training.batch
    if not share:
        return Verified()
    losses = _still_losses(training, settings.steps + WITNESS_STEPS, [batch] * DROPOUT_STEPS)
    found = Verified({"dropout_losses": losses})
    largest = max(map(abs, losses))
    if not all(map(math.isfinite, losses)) or not largest:
        found.not_checked.append("dropout")
    elif max(losses) - min(losses) <= SAME * largest:
        found.doubt(
            "dropout-not-random",
            f"{DROPOUT_STEPS} steps on one batch and with the same weights have the same loss, {losses[0]:.6g}: "
            f"nothing is dropped, or always the same, but a dropout of {share:g} was requested.",
        )
    return found


def check_isolation(training: Training, settings: Settings) -> Verified:
    """Check that parts of a sample do not see each other, if it has such parts. All ranks must call it."""
    pair = training.task.unrelated(settings, training.ranks.place.rank) if settings.isolated else None
    if pair is None:
        return Verified()
    batches = [training.as_batch(*arrays) for arrays in (pair[0], *pair)]
    first_step = settings.steps + steps_after_window(settings) - ISOLATION_STEPS
    losses = _still_losses(training, first_step, batches)
    if not all(map(math.isfinite, losses)):
        return Verified({"isolation_losses": None}, not_checked=["isolation of documents"])
    first, again, other = losses
    found = Verified({"isolation_losses": losses})
    if abs(other - first) > SAME * abs(first) + NOISE * abs(again - first):
        found.doubt(
            "documents-not-isolated",
            f"The loss of a step is {first:.9g}, and {other:.9g} if only padding before its documents changes: "
            "attention crosses the borders of documents, or the loss counts padding.",
        )
    return found


def _still_losses(training: Training, first: int, batches: Sequence[Any]) -> list[float]:
    """Train steps from ``first`` on, at a rate of 0, and return the ranks' mean loss of each."""
    for index, batch in enumerate(batches, start=first):
        training.batch = batch
        training.train(index)
    training.synchronize()
    return training.losses()[first : first + len(batches)]


def cross_entropy(logits: Any, labels: Any, smoothing: float) -> PlainLoss:
    """Return the mean cross entropy of logits (batch, classes) with smoothed labels, and its mistakes.

    The gradient with respect to the classifier's bias is the mean of ``softmax(logits) - targets``.
    """
    import numpy as np

    values = np.asarray(logits, np.float64)
    batch, classes = values.shape
    values = values - values.max(axis=1, keepdims=True)
    sums = np.log(np.exp(values).sum(axis=1, keepdims=True))
    own = np.zeros_like(values)
    own[np.arange(batch), np.asarray(labels, np.int64)] = 1.0
    targets = (1 - smoothing) * own + smoothing / classes
    plain = -((values - sums) * own).sum(axis=1)
    smoothed = -((values - sums) * targets).sum(axis=1)
    mistakes = halves(smoothed)
    if smoothing:
        mistakes["it has no label smoothing"] = float(plain.mean())
    bias = (np.exp(values - sums) - targets).mean(axis=0)
    return PlainLoss(float(smoothed.mean()), batch, mistakes, {"classifier.bias": bias})


def binary_cross_entropy(logits: Any, labels: Any) -> PlainLoss:
    """Return the mean binary cross entropy of logits (batch,) with labels of 0 and 1, and its mistakes."""
    import numpy as np

    values, targets = np.asarray(logits, np.float64), np.asarray(labels, np.float64)
    losses = np.maximum(values, 0) - values * targets + np.log1p(np.exp(-np.abs(values)))
    return PlainLoss(float(losses.mean()), len(losses), halves(losses))


def halves(losses: Any) -> dict[str, float]:
    """Return the losses of a batch (batch, …) of which only a half counts."""
    if len(losses) < 2:
        return {}
    half = len(losses) // 2
    return {
        "it counts only the first half of the batch": float(losses[:half].mean()),
        "it counts only the second half of the batch": float(losses[half:].mean()),
    }
