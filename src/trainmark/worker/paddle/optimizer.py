"""SGD with momentum as Paddle has it, and the learning rate of every step."""

from __future__ import annotations

from typing import Any, List, Sequence

import paddle
from paddle.optimizer.lr import LambdaDecay, LRScheduler

from ..core.settings import Recipe


def make_schedule(rates: Sequence[float]) -> LRScheduler:
    """Return a scheduler with the rate of each step; ``step(index)`` chooses one."""
    return LambdaDecay(1.0, lambda step: rates[step])


def make_optimizer(parameters: List[Any], schedule: LRScheduler, recipe: Recipe) -> paddle.optimizer.Momentum:
    """Return the optimizer of all parameters.

    Paddle's velocity is mu * velocity + (gradient + decay * weight), and the weight moves by rate * velocity: the
    rate is outside of the velocity, so a rate that changes needs no correction. Parameters with a regularizer of their
    own (batch norm) do not use ``weight_decay``. ``use_multi_tensor`` updates all parameters in one operator.
    """
    return paddle.optimizer.Momentum(
        learning_rate=schedule,
        momentum=recipe.momentum,
        parameters=parameters,
        use_nesterov=False,
        weight_decay=recipe.weight_decay,
        use_multi_tensor=True,
    )
