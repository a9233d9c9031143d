"""SGD with momentum and AdamW as Paddle has them, and the learning rate of every step."""

from __future__ import annotations

import math
from typing import Any, Collection, List, Optional, Sequence

import paddle
from paddle.optimizer.lr import LambdaDecay, LRScheduler

from ..core.settings import ADAM, LAMB, AdamRecipe, Recipe


def make_schedule(rates: Sequence[float]) -> LRScheduler:
    """Return a scheduler with the rate of each step; ``step(index)`` chooses one."""
    return LambdaDecay(1.0, lambda step: rates[step])


def sgd(parameters: List[Any], schedule: LRScheduler, recipe: Recipe) -> paddle.optimizer.Momentum:
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


def _clip(recipe: AdamRecipe) -> Any:
    return None if recipe.clip_norm is None else paddle.nn.ClipGradByGlobalNorm(recipe.clip_norm)


def adamw(
    parameters: List[Any], schedule: LRScheduler, recipe: AdamRecipe, decaying: Collection[str]
) -> paddle.optimizer.AdamW:
    """Return AdamW; the parameters of these names (Paddle's own) decay."""
    return paddle.optimizer.AdamW(
        learning_rate=schedule,
        beta1=recipe.momentum,
        beta2=recipe.second_momentum,
        epsilon=recipe.epsilon,
        parameters=parameters,
        grad_clip=_clip(recipe),
        weight_decay=recipe.weight_decay,
        apply_decay_param_fun=lambda name: name in decaying,
    )


def adaptive(
    parameters: List[Any], schedule: LRScheduler, recipe: AdamRecipe, decaying: Collection[str]
) -> paddle.optimizer.Optimizer:
    """Return the recipe's optimizer: Adam, AdamW, or LAMB, which scales the updates of what decays alone."""
    if recipe.optimizer == ADAM:
        return paddle.optimizer.Adam(
            learning_rate=schedule,
            beta1=recipe.momentum,
            beta2=recipe.second_momentum,
            epsilon=recipe.epsilon,
            parameters=parameters,
        )
    if recipe.optimizer != LAMB:
        return adamw(parameters, schedule, recipe, decaying)
    return paddle.optimizer.Lamb(
        learning_rate=schedule,
        lamb_weight_decay=recipe.weight_decay,
        beta1=recipe.momentum,
        beta2=recipe.second_momentum,
        epsilon=recipe.epsilon,
        parameters=parameters,
        grad_clip=_clip(recipe),
        exclude_from_weight_decay_fn=lambda parameter: parameter.name not in decaying,
    )


def steps_taken(optimizer: Any, parameter: Any, recipe: AdamRecipe) -> Optional[int]:
    """Return how many updates an adaptive optimizer has made of a parameter, after its first step; see ``steps_of``."""
    kinds = ("beta1_pow_acc", "beta2_pow_acc")
    return steps_of([optimizer._get_accumulator(kind, parameter).item() for kind in kinds], recipe)


def steps_of(powers: Sequence[float], recipe: AdamRecipe) -> Optional[int]:
    """Return how many updates an adaptive optimizer has made, from the powers of its two betas that it keeps.

    Paddle counts no steps, and after an overflow leaves both as they are; they begin as the betas themselves. That of
    the first is the finer measure, until FP32 has no room for it. None where neither tells one step from the next:
    each product may be rounded, as the beta is.
    """
    for power, beta in zip(powers, (recipe.momentum, recipe.second_momentum)):
        if power > 1e-30:
            count = math.log(power) / math.log(beta)
            return round(count) - 1 if count * 2.0**-23 < -0.5 * math.log(beta) else None
    return None
