"""Changes of the PaddlePaddle worker; a compiled learner makes another program where it must."""

import importlib
from typing import Any

import paddle
from paddle import nn

backend: Any = importlib.import_module("trainmark_worker.backends.paddle.backend")
model: Any = importlib.import_module("trainmark_worker.models.paddle_image_classification")


def compiled_again(training: Any) -> None:
    if training.settings.compiler != "none":
        training._learner.forward.rollback()
        backend.compile_learner(training._learner, training.settings.compiler, training.passed_at_once())


def batch_norm_evaluates(training: Any) -> None:
    """As after a validation that nobody ended."""
    training.network.eval()
    compiled_again(training)


def forward_only(training: Any) -> None:
    """A loss, and nothing else."""

    def train(index: int) -> None:
        training._schedule.step(index)
        training._losses.append(training._forward()[1].detach())

    training.train = train


def frozen_stem(training: Any) -> None:
    """As in fine-tuning: the optimizer does not have it."""
    other_optimizer(training, training._parameters[1:])


def one_layer(training: Any) -> None:
    """One convolution, in the middle, in FP64: for 16 bits this CPU build has no kernel."""
    layers = model.layers_of(training.network, nn.Conv2D)
    layer = layers[len(layers) // 3]

    def wider(inputs: Any) -> Any:
        output = nn.functional.conv2d(
            inputs.astype("float64"),
            layer.weight.astype("float64"),
            stride=layer._stride,
            padding=layer._updated_padding,
            groups=layer._groups,
        )
        return output.astype("float32")

    layer.forward = wider
    compiled_again(training)


def gradients_summed(training: Any) -> None:
    """The all-reduce's sum, which nobody divided."""
    average, ranks = training.ranks.average, training.ranks.place.world_size

    def summed(parameters: Any) -> None:
        average(parameters)
        with paddle.no_grad():
            for parameter in parameters:
                parameter.grad.scale_(float(ranks))

    training.ranks.average = summed


def no_all_reduce(training: Any) -> None:
    """Each rank on its own."""
    training.ranks.average = lambda _parameters: None


def momentum(training: Any) -> None:
    """That of another recipe."""
    other_optimizer(training, training._parameters, momentum=0.5)


def decay(training: Any) -> None:
    """A lot of it."""
    other_optimizer(training, training._parameters, weight_decay=0.1)


def other_optimizer(training: Any, parameters: Any, **changes: Any) -> None:
    import dataclasses

    recipe = dataclasses.replace(training.settings.recipe, **changes)
    training.optimizer = backend.sgd(parameters, training._schedule, recipe)


def relu6() -> None:
    """An activation with a bound."""
    nn.ReLU = nn.ReLU6


LATER = {
    "batch-norm-evaluates": batch_norm_evaluates,
    "forward-only": forward_only,
    "frozen-stem": frozen_stem,
    "one-layer": one_layer,
    "one-layer-within": one_layer,
    "gradients-summed": gradients_summed,
    "no-all-reduce": no_all_reduce,
    "momentum": momentum,
    "decay": decay,
}
BEFORE = {"relu6": relu6}
