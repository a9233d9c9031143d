"""One training step as a MindSpore cell: the same code operator by operator and compiled."""

from __future__ import annotations

from typing import Any, Sequence

import mindspore as ms
from mindspore import amp, nn, ops

from ...tasks.image_classification.settings import ImageRecipe


class NetworkWithLoss(nn.Cell):
    """The network and its loss."""

    def __init__(self, network: nn.Cell, label_smoothing: float) -> None:
        """Take over the network."""
        super().__init__(auto_prefix=False)
        self.network = network
        self.loss = nn.CrossEntropyLoss(label_smoothing=label_smoothing)

    def construct(self, images: Any, labels: Any) -> Any:
        """Map images (batch, 3, h, w) and labels (batch,) to the mean loss and the logits (batch, classes)."""
        logits = self.network(images)
        return self.loss(logits, labels), logits


class TrainStep(nn.Cell):
    """Forward, backward, mean of the gradients over the ranks, update; returns the loss of this rank."""

    def __init__(self, forward: NetworkWithLoss, optimizer: nn.Optimizer, reducer: nn.Cell) -> None:
        """Take over the parts; ``reducer`` maps this rank's gradients to their means over the ranks."""
        super().__init__(auto_prefix=False)
        self.forward = forward
        self.optimizer = optimizer
        self.reducer = reducer
        self.gradients = ms.value_and_grad(forward, None, optimizer.parameters, has_aux=True)

    def construct(self, images: Any, labels: Any) -> Any:
        """Train on one batch. (A compiled ``construct`` must call its first argument ``self``.)"""
        (loss, _), gradients = self.gradients(images, labels)
        return ops.depend(loss, self.optimizer(self.reducer(gradients)))


class ScaledTrainStep(TrainStep):
    """The same with a scaled loss; a step whose gradients overflow does not update."""

    def __init__(
        self, forward: NetworkWithLoss, optimizer: nn.Optimizer, reducer: nn.Cell, scaler: Any
    ) -> None:
        """Take over the parts."""
        super().__init__(forward, optimizer, reducer)
        self.scaler = scaler
        self.scaled_gradients = ms.value_and_grad(self._scaled_loss, None, optimizer.parameters, has_aux=True)

    def _scaled_loss(self, images: Any, labels: Any) -> Any:
        loss, _ = self.forward(images, labels)
        return self.scaler.scale(loss), loss

    def construct(self, images: Any, labels: Any) -> Any:
        """Train on one batch. The means over the ranks come first, so that all skip the same steps."""
        (_, loss), gradients = self.scaled_gradients(images, labels)
        gradients = self.scaler.unscale(self.reducer(gradients))
        finite = amp.all_finite(gradients)
        self.scaler.adjust(finite)
        if finite:
            loss = ops.depend(loss, self.optimizer(gradients))
        return loss


def make_step(forward: NetworkWithLoss, optimizer: nn.Optimizer, reducer: nn.Cell, scaler: Any) -> TrainStep:
    """Return the step, in training mode; ``scaler`` is None where the loss is not scaled."""
    if scaler is None:
        step = TrainStep(forward, optimizer, reducer)
    else:
        step = ScaledTrainStep(forward, optimizer, reducer, scaler)
    step.set_train()
    return step


def make_optimizer(model: nn.Cell, recipe: ImageRecipe, rates: Sequence[float]) -> nn.Optimizer:
    """Return SGD with momentum as torch has it: v = m v + (g + d w), w = w - rate v.

    ``rates`` are those of all steps: the optimizer takes the next one from them in each update. Batch-norm scales
    and shifts are in a group that does not decay unless asked.
    """
    norm = [
        parameter
        for _, cell in model.cells_and_names()
        if isinstance(cell, nn.BatchNorm2d)
        for parameter in (cell.gamma, cell.beta)
    ]
    own = {parameter.name for parameter in norm}
    other = [parameter for parameter in model.trainable_params() if parameter.name not in own]
    groups = [
        {"params": other, "weight_decay": recipe.weight_decay},
        {"params": norm, "weight_decay": recipe.weight_decay if recipe.bn_weight_decay else 0.0},
        {"order_params": model.trainable_params()},
    ]
    return nn.Momentum(groups, learning_rate=list(rates), momentum=recipe.momentum)
