"""SGD with momentum as the shared recipe defines it, out of MXNet's fused update."""

from __future__ import annotations

from typing import Any, Optional

from ..core.settings import Recipe

_ALMOST_NOTHING = 1e-30
"""In place of a momentum of 0, for which MXNet would call its update without momentum."""


def optimizer_parameters(recipe: Recipe) -> Any:
    """Return the arguments of MXNet's ``sgd``. Gluon lets every parameter decay whose ``wd_mult`` is not 0."""
    return {"learning_rate": recipe.learning_rate, "momentum": recipe.momentum, "wd": recipe.weight_decay}


class Rate:
    """Sets the learning rate of each step.

    The recipe means v = m v + (g + d w), w = w - l v. MXNet keeps the rate in the velocity, V = m V - l (g + d w),
    w = w + V, which is the same with V = -l v as long as the rate does not change. When it does, V of the step
    before still has the old rate in it; a momentum of m l / l_before puts the new one in.
    """

    def __init__(self, trainer: Any, momentum: float) -> None:
        """Take Gluon's trainer."""
        self._trainer, self._momentum = trainer, momentum
        self._before: Optional[float] = None

    def set(self, rate: float) -> None:
        """Train the next step with this rate. A velocity does not outlive a rate of 0."""
        before = rate if self._before is None else self._before
        ratio = rate / before if before else 0.0
        self._trainer.set_learning_rate(rate)
        if self._momentum:
            self._trainer.optimizer.momentum = self._momentum * ratio or _ALMOST_NOTHING
        self._before = rate
