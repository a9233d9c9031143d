"""The network with its loss, and which of its parameters decay."""

from __future__ import annotations

from typing import Any, Sequence

from mindspore import nn

from ...tasks.image_classification.settings import ImageRecipe
from ..step import sgd


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


def make_optimizer(model: nn.Cell, recipe: ImageRecipe, rates: Sequence[float]) -> nn.Optimizer:
    """Return SGD, with batch-norm scales and shifts in a group that does not decay unless asked."""
    norm = [
        parameter
        for _, cell in model.cells_and_names()
        if isinstance(cell, nn.BatchNorm2d)
        for parameter in (cell.gamma, cell.beta)
    ]
    own = {parameter.name for parameter in norm}
    other = [parameter for parameter in model.trainable_params() if parameter.name not in own]
    decays = [(other, recipe.weight_decay), (norm, recipe.weight_decay if recipe.bn_weight_decay else 0.0)]
    return sgd(decays, model.trainable_params(), recipe, rates)
