"""Verification of the loss: that of a step after the window, against the recipe's formula on the same batch.

The formula is the task's (``Task.plain_loss``): in numpy and float64, from the outputs of this rank's own pass at the
weights before the step. No line of it is shared with the loss that is verified. Where a parameter's gradient follows
from the outputs alone, as that of the classifier's bias does, the own pass's gradient is verified by it as well: the
own pass verifies the update, and would otherwise use the loss that is verified.
"""

import math
import struct
from collections.abc import Sequence
from typing import Any

from .settings import Settings
from .task import PlainLoss
from .training import Training

Doubts = list[tuple[str, str]]

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


def check_loss(
    training: Training, settings: Settings, batch: Sequence[Any] | None, alone: Any, index: int
) -> tuple[dict[str, Any], Doubts, list[str]]:
    """Return the events' data of the loss of step ``index``, the doubts, and the names of what could not be checked.

    ``alone`` is the own pass of ``batch`` at the weights before the step. All ranks must call it.
    """
    doubts: Doubts = []
    not_checked: list[str] = []
    report = _check_types(getattr(alone, "loss_types", None), doubts, not_checked)
    plain = None if batch is None or alone is None else training.task.plain_loss(settings, batch, alone)
    taken = training.losses()[index]
    if plain is not None:
        plain = _mean_of_ranks(training, plain)
    # A loss that is not finite has a doubt already (``loss-not-finite``).
    if plain is None or not (math.isfinite(taken) and math.isfinite(plain.loss)):
        not_checked.append("loss")
        return {**report, "loss": None, "loss_asked": None, "targets_in_loss": None}, doubts, not_checked
    expected = training.expected()
    exact = expected.compute_dtype == "float32" and not expected.tf32
    reason = _differs(taken, plain, exact)
    if reason is not None:
        sentence = (
            f"The loss of a step after the window is {taken:.6g}, but the recipe's formula gives {plain.loss:.6g} "
            f"for its batch: {reason}."
        )
        doubts.append(("loss-differs", sentence))
    else:
        _check_gradients(alone.gradients, plain, exact, doubts)
    targets = None if reason is not None else plain.targets
    return (
        {**report, "loss": taken, "loss_asked": plain.loss, "targets_in_loss": targets},
        doubts,
        not_checked,
    )


def _check_types(types: Any, doubts: Doubts, not_checked: list[str]) -> dict[str, Any]:
    if types is None:
        not_checked.append("types of logits and loss")
        return {"loss_types": None}
    others = {name: kind for name, kind in types.items() if kind != LOSS_TYPE}
    for name, kind in list(others.items())[:1]:
        doubts.append(("loss-type-differs", f"The {name} is computed in {kind}, not in {LOSS_TYPE}."))
    return {"loss_types": dict(types)}


def _mean_of_ranks(training: Training, plain: PlainLoss) -> PlainLoss:
    """Return the ranks' mean of the losses; gradients stay this rank's."""
    names = list(plain.mistakes)
    own = [plain.loss, *(plain.mistakes[name] for name in names)]
    bits = list(struct.unpack(f"<{len(own)}q", struct.pack(f"<{len(own)}d", *own)))
    ranks = [
        struct.unpack(f"<{len(own)}d", struct.pack(f"<{len(own)}q", *part)) for part in training.gather(bits)
    ]
    loss, *others = (sum(values) / len(ranks) for values in zip(*ranks))
    return plain._replace(loss=loss, mistakes=dict(zip(names, others)))


def _differs(taken: float, plain: PlainLoss, exact: bool) -> str | None:
    """Return why the loss of a step differs from the formula's, or None."""
    off, scale = abs(taken - plain.loss), max(abs(plain.loss), 1e-3)
    noticed = off > scale * (LEAST_EXACT if exact else LEAST_ROUNDED)
    for mistake, loss in plain.mistakes.items():
        if noticed and abs(taken - loss) < NOTICED * off:
            return mistake
    return f"it is off by {off / scale:.2g}" if off > scale * (EXACT if exact else ROUNDED) else None


def _check_gradients(gradients: Any, plain: PlainLoss, exact: bool, doubts: Doubts) -> None:
    import numpy as np

    for name, expected in plain.gradients.items():
        if name not in gradients:
            continue
        off = np.asarray(gradients[name], np.float64).reshape(expected.shape) - expected
        part = float(np.linalg.norm(off) / (np.linalg.norm(expected) or 1.0))
        if part > (GRADIENT_EXACT if exact else GRADIENT_ROUNDED):
            sentence = f"The gradient of {name} is off by {part:.0%} from that of the recipe's loss on the same batch."
            doubts.append(("loss-differs", sentence))


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
