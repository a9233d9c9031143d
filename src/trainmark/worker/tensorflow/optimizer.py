"""SGD with momentum and AdamW by TensorFlow's own kernels, and the loss scaling of FP16."""

from __future__ import annotations

from typing import Any, Callable, List, Sequence, Union

import tensorflow as tf

from ..core.settings import ADAM, LAMB, AdamRecipe, Recipe

FIRST_SCALE = 65536.0
GROWTH_STEPS = 2000
"""Steps without an overflow after which the scale is doubled, as in PyTorch and Keras."""


class Momentum:
    """v = m v + (g + d w); w = w - lr v.

    Not ``keras.optimizers.SGD``: its velocity holds the learning rate (v = m v - lr g), which is another update when
    the rate changes, and its weight decay is not part of the gradient. The kernel is the one of TensorFlow 1's
    MomentumOptimizer; velocity and weights are updated in one pass.
    """

    name, kernel = "SGD", "ResourceApplyMomentum"

    def __init__(self, variables: Sequence[Any], decays: Sequence[bool], recipe: Recipe) -> None:
        """Take the Keras variables, and for each whether it decays; make the velocities, zero."""
        self._variables = list(variables)
        self._decays = [recipe.weight_decay if decays_too else 0.0 for decays_too in decays]
        self._momentum = recipe.momentum
        self._velocities = [
            tf.Variable(tf.zeros(variable.shape, variable.dtype), trainable=False) for variable in variables
        ]

    def apply(self, gradients: Sequence[Any], rate: Any) -> None:
        """Update the variables at the learning rate ``rate`` (scalar, FP32)."""
        for variable, velocity, decay, gradient in zip(
            self._variables, self._velocities, self._decays, gradients
        ):
            tf.raw_ops.ResourceApplyMomentum(
                var=variable.handle,
                accum=velocity.handle,
                lr=rate,
                grad=gradient + decay * variable.value if decay else gradient,
                momentum=self._momentum,
            )


class AdamW:
    """w = w - lr (a + d w), with a of Adam in its first form: epsilon is added to the root of the corrected moment.

    Not ``keras.optimizers.AdamW``, which adds epsilon before the correction, as the kernel does too: here the kernel
    gets an epsilon that is corrected as well. It updates moments and weights in one pass.
    """

    name, kernel = "AdamW", "ResourceApplyAdam"

    def __init__(self, variables: Sequence[Any], decays: Sequence[bool], recipe: AdamRecipe) -> None:
        """Take the Keras variables, and for each whether it decays; make the moments, zero."""
        self.variables, self._recipe = list(variables), recipe
        self._decays = [recipe.weight_decay if decays_too else 0.0 for decays_too in decays]
        self.first, self.second = (
            [tf.Variable(tf.zeros(variable.shape, variable.dtype), trainable=False) for variable in variables]
            for _ in range(2)
        )
        self.steps = tf.Variable(0.0, trainable=False, dtype=tf.float32)

    def clipped(self, gradients: Sequence[Any]) -> Sequence[Any]:
        """Return the gradients, all together no longer than the recipe wants them."""
        longest = self._recipe.clip_norm
        if longest is None:
            return gradients
        shortened: Sequence[Any] = tf.clip_by_global_norm(gradients, longest)[0]
        return shortened

    def apply(self, gradients: Sequence[Any], rate: Any) -> None:
        """Update the variables at the learning rate ``rate`` (scalar, FP32)."""
        step, gradients = self.steps.assign_add(1.0), self.clipped(gradients)
        recipe = self._recipe
        powers = [
            tf.pow(tf.constant(beta, tf.float32), step) for beta in (recipe.momentum, recipe.second_momentum)
        ]
        epsilon = recipe.epsilon * tf.sqrt(1.0 - powers[1])
        for variable, first, second, decay, gradient in zip(
            self.variables, self.first, self.second, self._decays, gradients
        ):
            if decay:
                variable.value.assign_sub(rate * decay * variable.value)
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=first.handle,
                v=second.handle,
                beta1_power=powers[0],
                beta2_power=powers[1],
                lr=rate,
                beta1=recipe.momentum,
                beta2=recipe.second_momentum,
                epsilon=epsilon,
                grad=gradient,
            )


class Adam(AdamW):
    """The same without a decay."""

    name = "Adam"


class Lamb(AdamW):
    """LAMB of You et al. (https://arxiv.org/abs/1904.00962), by TensorFlow's operations.

    What decays moves by the rate times ``norm(w) / norm(r)`` times r, with r Adam's direction and the decayed weight;
    what does not decay moves as by Adam.
    """

    name, kernel = "LAMB", "operations"

    def apply(self, gradients: Sequence[Any], rate: Any) -> None:
        """Update the variables at the learning rate ``rate`` (scalar, FP32)."""
        step, gradients = self.steps.assign_add(1.0), self.clipped(gradients)
        beta1, beta2 = self._recipe.momentum, self._recipe.second_momentum
        left = [1.0 - tf.pow(tf.constant(beta, tf.float32), step) for beta in (beta1, beta2)]
        for variable, first, second, decay, gradient in zip(
            self.variables, self.first, self.second, self._decays, gradients
        ):
            mean = first.assign(beta1 * first + (1 - beta1) * gradient)
            square = second.assign(beta2 * second + (1 - beta2) * tf.square(gradient))
            direction = mean / left[0] / (tf.sqrt(square / left[1]) + self._recipe.epsilon)
            if decay:
                direction += decay * variable.value
                own, its = tf.norm(variable.value), tf.norm(direction)
                direction *= tf.where((own > 0) & (its > 0), tf.math.divide_no_nan(own, its), 1.0)
            variable.value.assign_sub(rate * direction)


def make_optimizer(
    variables: Sequence[Any], decays: Sequence[bool], recipe: Recipe
) -> Union[AdamW, Momentum]:
    """Return the optimizer of a recipe."""
    if isinstance(recipe, AdamRecipe) and recipe.optimizer == LAMB:
        return Lamb(variables, decays, recipe)
    if isinstance(recipe, AdamRecipe):
        return (Adam if recipe.optimizer == ADAM else AdamW)(variables, decays, recipe)
    return Momentum(variables, decays, recipe)


class LossScale:
    """Keeps FP16 gradients in range: a factor on the loss, taken out of the gradients again.

    Not ``keras.optimizers.LossScaleOptimizer``: with several ranks it looks for an overflow in each rank's own
    gradients, before they are summed, so that one rank could skip an update that the others make.
    """

    def __init__(self, enabled: bool, recipe: Recipe) -> None:
        """Start with the recipe's scale; a fixed one is only ever halved, after an overflow."""
        self.enabled = enabled
        self._grows = recipe.loss_scale is None
        if enabled:
            first = FIRST_SCALE if recipe.loss_scale is None else recipe.loss_scale
            self._scale = tf.Variable(first, trainable=False, dtype=tf.float32)
            self._good_steps = tf.Variable(0, trainable=False, dtype=tf.int32)

    def scaled(self, loss: Any) -> Any:
        """Return the loss times the scale."""
        return loss * self._scale.read_value() if self.enabled else loss

    def unscaled(self, gradients: List[Any]) -> List[Any]:
        """Return the gradients without the scale."""
        if not self.enabled:
            return gradients
        inverse = 1.0 / self._scale.read_value()
        return [gradient * inverse for gradient in gradients]

    def update(self, gradients: List[Any], apply: Callable[[List[Any]], None]) -> None:
        """Call ``apply`` with the gradients unless they overflowed, and adapt the scale.

        The gradients are the sums over the ranks, and not unscaled yet: all ranks decide alike.
        """
        if not self.enabled:
            apply(gradients)
            return
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients])

        def go_on() -> None:
            apply(self.unscaled(gradients))
            if not self._grows:
                return
            grown = tf.equal(self._good_steps + 1, GROWTH_STEPS)
            self._set(tf.where(grown, self._scale * 2, self._scale), tf.where(grown, 0, self._good_steps + 1))

        def back_off() -> None:
            self._set(self._scale * 0.5, 0)

        tf.cond(finite, go_on, back_off)

    def _set(self, scale: Any, good_steps: Any) -> None:
        self._scale.assign(scale)
        self._good_steps.assign(good_steps)
