"""Changes of the PyTorch worker."""

from typing import Any

import torch
from torch import nn


def batch_norm_evaluates(training: Any) -> None:
    """As after a validation that nobody ended."""
    training.model.eval()


def forward_only(training: Any) -> None:
    """A loss, and nothing else."""

    def train(index: int) -> None:
        training._loss_of[index].copy_(training._forward()[1].detach())

    training.train = train


def frozen_stem(training: Any) -> None:
    """As in fine-tuning."""
    next(iter(training.model.parameters())).requires_grad_(False)


def frozen_scale(training: Any) -> None:
    """Of a batch norm, which no decay moves."""
    training.named_tensors()["block10.pointwise.bn.weight"].requires_grad_(False)


def sixteen_bits(training: Any) -> None:
    """BF16, whatever was asked for."""
    training.autocast = torch.autocast("cpu", dtype=torch.bfloat16)


def one_layer(training: Any) -> None:
    """One convolution, in the middle, in BF16."""
    layers = [module for module in training.model.modules() if isinstance(module, nn.Conv2d)]
    forward = layers[9].forward

    def rounded(inputs: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return forward(inputs)

    layers[9].forward = rounded


def one_layer_within(training: Any) -> None:
    """The same, with its output turned back into the type of all others."""
    one_layer(training)
    layers = [module for module in training.model.modules() if isinstance(module, nn.Conv2d)]
    forward = layers[9].forward
    layers[9].forward = lambda inputs: forward(inputs).to(inputs.dtype)


def gradients_summed(training: Any) -> None:
    """The all-reduce's sum, which nobody divided."""
    average, ranks = training.exchange.average, training.ranks.place.world_size

    def summed() -> None:
        average()
        for parameter in training.model.parameters():
            parameter.grad.mul_(ranks)

    training.exchange.average = summed


def no_all_reduce(training: Any) -> None:
    """Each rank on its own."""
    training.network, training.exchange.average = training.model, lambda: None


def momentum(training: Any) -> None:
    """That of another recipe."""
    for group in training.optimizer.param_groups:
        group["momentum"] = 0.5


def decay(training: Any) -> None:
    """A lot of it, of everything."""
    for group in training.optimizer.param_groups:
        group["weight_decay"] = 0.1


def relu6() -> None:
    """An activation with a bound."""
    nn.ReLU = nn.ReLU6


LATER = {
    "batch-norm-evaluates": batch_norm_evaluates,
    "forward-only": forward_only,
    "frozen-stem": frozen_stem,
    "frozen-scale": frozen_scale,
    "another-type": sixteen_bits,
    "one-layer": one_layer,
    "one-layer-within": one_layer_within,
    "gradients-summed": gradients_summed,
    "no-all-reduce": no_all_reduce,
    "momentum": momentum,
    "decay": decay,
}
BEFORE = {"relu6": relu6}
