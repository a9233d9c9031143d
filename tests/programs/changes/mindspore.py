"""Changes of the MindSpore worker; a compiled step is made anew."""

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

import mindspore as ms
from mindspore import nn, ops

backend: Any = importlib.import_module("trainmark_worker.backends.mindspore.backend")
model: Any = importlib.import_module("trainmark_worker.models.mindspore_image_classification")
precision: Any = importlib.import_module("trainmark_worker.core.precision")


def step_again(training: Any, **parts: Any) -> None:
    old = training.train_step
    whole = {"forward": old.forward, "optimizer": old.optimizer, "reducer": old.reducer, **parts}
    training.train_step = backend.TrainStep(**whole, scaler=training._scaler)


def batch_norm_evaluates(training: Any) -> None:
    """As after a validation that nobody ended."""
    training.train_step.set_train(False)


class Forward(nn.Cell):  # type: ignore[misc]
    """A loss, and nothing else."""

    def __init__(self, forward: Any) -> None:
        super().__init__(auto_prefix=False)
        self.forward = forward

    def construct(self, *batch: Any) -> Any:
        loss, _ = self.forward(*batch)
        return loss


def forward_only(training: Any) -> None:
    """A loss, and nothing else."""
    training.train_step = Forward(training.train_step.forward)
    training.train_step.set_train()


def optimizer_again(training: Any, **changes: Any) -> None:
    recipe = dataclasses.replace(training.settings.recipe, **changes)
    optimizer = model.make_optimizer(training.model, recipe, training.rates[3:])
    step_again(training, optimizer=optimizer)


def frozen_stem(training: Any) -> None:
    """As in fine-tuning."""
    training.model.trainable_params()[0].requires_grad = False
    optimizer_again(training)


def sixteen_bits(training: Any) -> None:
    """FP16, whatever was asked for."""
    rounded = backend.with_precision(training.model, precision.PRECISIONS["amp-fp16"])
    forward = model.NetworkWithLoss(rounded, training.settings.recipe.label_smoothing)
    step_again(training, forward=forward)


def third(layers: Any) -> Any:
    """Return the layer at a third of the network: a depthwise convolution, or its norm."""
    return layers[len(layers) // 3]


def one_layer(training: Any) -> None:
    """One convolution, in the middle, in FP16."""
    third(model.cells(training.model, nn.Conv2d)).to_float(ms.float16)
    third(model.cells(training.model, nn.BatchNorm2d)).to_float(ms.float32)
    step_again(training)


def one_layer_within(training: Any) -> None:
    """The same, with its output turned back into the type of all others."""
    layer = third(model.cells(training.model, nn.Conv2d))

    def rounded(inputs: Any) -> Any:
        images, weight = (ops.cast(array, ms.float16) for array in (inputs, layer.weight))
        return ops.cast(layer.conv2d(images, weight), inputs.dtype)

    layer.construct = rounded


class Summed(nn.Cell):  # type: ignore[misc]
    """The mean of the gradients, times their number."""

    def __init__(self, reducer: Any, ranks: int) -> None:
        super().__init__(auto_prefix=False)
        self.reducer, self.ranks = reducer, ranks

    def construct(self, gradients: Any) -> Any:
        return tuple([gradient * self.ranks for gradient in self.reducer(gradients)])


def gradients_summed(training: Any) -> None:
    """The sum, which nobody divided."""
    step_again(training, reducer=Summed(training.train_step.reducer, training.ranks.place.world_size))


def no_all_reduce(training: Any) -> None:
    """Each rank on its own."""
    step_again(training, reducer=nn.Identity())


def other(**changes: Any) -> Callable[[Any], None]:
    return lambda training: optimizer_again(training, **changes)


def relu6() -> None:
    """An activation with a bound."""
    nn.ReLU = nn.ReLU6


def operations(change: Callable[[Any], Any]) -> None:
    loader: Any = importlib.import_module("trainmark_worker.backends.mindspore.loading")
    loader.vision.RandomCropDecodeResize = change(loader.vision.RandomCropDecodeResize)


def half_size() -> None:
    """A constant of another experiment."""
    operations(lambda whole: lambda size, **options: whole(size // 2, **options))


def centre_crop() -> None:
    """As in a validation."""
    from mindspore.dataset import transforms, vision

    operations(
        lambda _whole: (
            lambda size, **_options: transforms.Compose(
                [vision.Decode(), vision.Resize(size * 8 // 7), vision.CenterCrop(size)]
            )
        )
    )


LATER = {
    "batch-norm-evaluates": batch_norm_evaluates,
    "forward-only": forward_only,
    "frozen-stem": frozen_stem,
    "another-type": sixteen_bits,
    "one-layer": one_layer,
    "one-layer-within": one_layer_within,
    "gradients-summed": gradients_summed,
    "no-all-reduce": no_all_reduce,
    "momentum": other(momentum=0.5),
    "decay": other(weight_decay=0.1, bn_weight_decay=True),
}
BEFORE = {"relu6": relu6, "half-size": half_size, "centre-crop": centre_crop}
