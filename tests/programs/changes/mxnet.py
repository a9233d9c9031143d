"""Changes of the MXNet worker; a hybridized network is traced again."""

import importlib
from types import SimpleNamespace
from typing import Any

import mxnet as mx
from mxnet import autograd
from mxnet.contrib import amp
from mxnet.gluon import nn

model: Any = importlib.import_module("trainmark_worker.models.mxnet_image_classification")


def traced_again(training: Any) -> None:
    if training.settings.compiler == "hybridize":
        training.model.hybridize(static_alloc=True, static_shape=True)


def batch_norm_evaluates(_training: Any) -> None:
    """Recorded as for a prediction."""
    module: Any = importlib.import_module("trainmark_worker.backends.mxnet.backend")
    module.autograd = SimpleNamespace(
        record=lambda: autograd.record(train_mode=False), backward=autograd.backward
    )


def forward_only(training: Any) -> None:
    """A loss, and nothing else."""

    def train(index: int) -> None:
        training._rate.set(training.rates[index])
        with autograd.record():
            _, loss = training.forward()
        training._losses[index : index + 1] = loss

    training.train = train


def frozen_stem(training: Any) -> None:
    """As in fine-tuning."""
    next(iter(training.model.collect_params(".*weight").values()))._grad_req = "null"


def sixteen_bits(training: Any) -> None:
    """BF16, whatever was asked for."""
    amp.init(target_dtype="bfloat16")
    traced_again(training)


def one_layer(training: Any) -> None:
    """One convolution, in the middle, in BF16."""
    layers = model.blocks(training.model, nn.Conv2D)
    layer = layers[len(layers) // 3]
    forward = layer.hybrid_forward

    def rounded(F: Any, x: Any, weight: Any, **named: Any) -> Any:  # noqa: N803 (Gluon's name)
        x, weight = (F.amp_cast(array, dtype=amp.amp.bfloat16) for array in (x, weight))
        return F.amp_cast(forward(F, x, weight, **named), dtype="float32")

    layer.hybrid_forward = rounded
    traced_again(training)


def gradients_summed(training: Any) -> None:
    """The servers' sum, which nobody divided."""
    training._divisor /= training.ranks.place.world_size


def no_all_reduce(training: Any) -> None:
    """Each rank on its own."""
    training.trainer._allreduce_grads = lambda: None
    training._divisor = 1


def momentum(training: Any) -> None:
    """That of another recipe."""
    training._rate._momentum = 0.5


def decay(training: Any) -> None:
    """A lot of it, of everything."""
    training.trainer.optimizer.wd = 0.1
    for parameter in training.model.collect_params().values():
        parameter.wd_mult = 1.0


def relu6() -> None:
    """An activation with a bound."""

    class Relu6(nn.HybridBlock):  # type: ignore[misc]
        def __init__(self, _kind: str) -> None:
            super().__init__()

        def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803 (Gluon's name)
            return F.clip(x, 0, 6)

    nn.Activation = Relu6


def half_size() -> None:
    """A constant of another experiment."""
    folder: Any = importlib.import_module("trainmark_worker.backends.mxnet.loading")
    init = folder.Images.__init__

    def halved(self: Any, *words: Any) -> None:
        init(self, *words)
        self.size //= 2

    folder.Images.__init__ = halved
    records(
        lambda options: {**options, "data_shape": (3, *(side // 2 for side in options["data_shape"][1:]))}
    )


def centre_crop() -> None:
    """As in a validation."""
    images: Any = importlib.import_module("trainmark_worker.tasks.image_classification.images")
    images.random_resized_crop = lambda width, height, _rng: images.Box(
        width // 16, height // 16, width * 7 // 8, height * 7 // 8
    )
    records(lambda options: {**options, "random_resized_crop": False, "rand_crop": False})


def records(change: Any) -> None:
    iterator = mx.io.ImageRecordIter
    mx.io.ImageRecordIter = lambda **options: iterator(**change(options))


LATER = {
    "batch-norm-evaluates": batch_norm_evaluates,
    "forward-only": forward_only,
    "frozen-stem": frozen_stem,
    "another-type": sixteen_bits,
    "one-layer": one_layer,
    "one-layer-within": one_layer,
    "gradients-summed": gradients_summed,
    "no-all-reduce": no_all_reduce,
    "momentum": momentum,
    "decay": decay,
}
BEFORE = {"relu6": relu6, "half-size": half_size, "centre-crop": centre_crop}
