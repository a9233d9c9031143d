"""One training step as a MindSpore cell: the same code operator by operator and compiled."""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import mindspore as ms
from mindspore import amp, nn, ops

from ..core.settings import Recipe


class TrainStep(nn.Cell):
    """Forward, backward, mean of the gradients over the ranks, update; returns the loss of this rank."""

    def __init__(self, forward: nn.Cell, optimizer: nn.Optimizer, reducer: nn.Cell) -> None:
        """Take over the parts; ``reducer`` maps this rank's gradients to their means over the ranks."""
        super().__init__(auto_prefix=False)
        self.forward = forward
        self.optimizer = optimizer
        self.reducer = reducer
        self.gradients = ms.value_and_grad(forward, None, optimizer.parameters, has_aux=True)

    def construct(self, *batch: Any) -> Any:
        """Train on one batch. (A compiled ``construct`` must call its first argument ``self``.)"""
        (loss, _), gradients = self.gradients(*batch)
        return ops.depend(loss, self.optimizer(self.reducer(gradients)))


class ScaledTrainStep(TrainStep):
    """The same with a scaled loss; a step whose gradients overflow does not update."""

    def __init__(self, forward: nn.Cell, optimizer: nn.Optimizer, reducer: nn.Cell, scaler: Any) -> None:
        """Take over the parts."""
        super().__init__(forward, optimizer, reducer)
        self.scaler = scaler
        self.scaled_gradients = ms.value_and_grad(self._scaled_loss, None, optimizer.parameters, has_aux=True)

    def _scaled_loss(self, *batch: Any) -> Any:
        loss, _ = self.forward(*batch)
        return self.scaler.scale(loss), loss

    def construct(self, *batch: Any) -> Any:
        """Train on one batch. The means over the ranks come first, so that all skip the same steps."""
        (_, loss), gradients = self.scaled_gradients(*batch)
        gradients = self.scaler.unscale(self.reducer(gradients))
        finite = amp.all_finite(gradients)
        self.scaler.adjust(finite)
        if finite:
            loss = ops.depend(loss, self.optimizer(gradients))
        return loss


def make_step(forward: nn.Cell, optimizer: nn.Optimizer, reducer: nn.Cell, scaler: Any) -> TrainStep:
    """Return the step, in training mode; ``scaler`` is None where the loss is not scaled."""
    if scaler is None:
        step = TrainStep(forward, optimizer, reducer)
    else:
        step = ScaledTrainStep(forward, optimizer, reducer, scaler)
    step.set_train()
    return step


def sgd(
    decays: Sequence[Tuple[List[Any], float]], order: Any, recipe: Recipe, rates: Sequence[float]
) -> nn.Optimizer:
    """Return SGD with momentum as torch has it: v = m v + (g + d w), w = w - rate v.

    ``decays`` are groups of parameters, each with its weight decay; ``order`` is that of all of them. ``rates`` are
    those of all steps: the optimizer takes the next one from them in each update.
    """
    groups = [{"params": parameters, "weight_decay": decay} for parameters, decay in decays]
    return nn.Momentum(
        [*groups, {"order_params": order}], learning_rate=list(rates), momentum=recipe.momentum
    )
