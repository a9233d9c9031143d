"""ResNet-50 v1.5 and MobileNetV1 as Paddle layers, and their loss; ``architectures.py`` describes the layers."""

import math
from functools import partial
from typing import Any

import paddle
from paddle import ParamAttr, nn
from paddle.nn.initializer import KaimingNormal, Uniform
from paddle.regularizer import L2Decay

from ..backends.paddle import backend
from ..backends.paddle.backend import NONE, PaddleTraining
from ..core.backend import Observation, hooked
from ..core.facts import ObservedConfig, assert_parameters, count_parameters, type_name
from ..tasks.image_classification import observing
from ..tasks.image_classification.architectures import ARCHITECTURES, NORM_EPSILON, NORM_MOMENTUM, Convolution
from ..tasks.image_classification.settings import ImageSettings
from ..tasks.image_classification.training import ImageTraining


def unit(layer: Convolution, layout: str, norm_decays: bool, relu: bool = True) -> list[nn.Layer]:
    """Return a convolution, its weights of variance 2 / fan-in, its batch norm and, unless it ends a branch, a ReLU.

    Paddle's batch-norm momentum is the share that is kept.
    """
    drawn = ParamAttr(initializer=KaimingNormal(nonlinearity="relu"))
    own = {"weight_attr": drawn, "bias_attr": False, "data_format": layout.upper(), **layer.geometry}
    conv = nn.Conv2D(layer.inputs, layer.outputs, layer.kernel, **own)
    # A regularizer of a parameter's own goes before the optimizer's.
    scale, shift = (ParamAttr(regularizer=None if norm_decays else L2Decay(0.0)) for _ in range(2))
    vectors = {"weight_attr": scale, "bias_attr": shift, "data_format": layout.upper()}
    norm = nn.BatchNorm2D(layer.outputs, NORM_MOMENTUM, NORM_EPSILON, **vectors)
    return [conv, norm, nn.ReLU()] if relu else [conv, norm]


class Bottleneck(nn.Layer):
    """1x1 to the width, 3x3 with the stride, 1x1 to four times the width, and the shortcut beside them."""

    def __init__(self, layers: dict[str, Convolution], layout: str, norm_decays: bool) -> None:
        super().__init__()
        units = {word: unit(layers[word], layout, norm_decays, word in ("a", "b")) for word in layers}
        self.body = nn.Sequential(*units["a"], *units["b"], *units["c"])
        self.shortcut = nn.Sequential(*units["shortcut"]) if "shortcut" in units else None
        self.act = nn.ReLU()

    def forward(self, x: Any) -> Any:
        """Map (batch, channels, h, w) to (batch, 4 * width, h / stride, w / stride)."""
        out = self.body(x)
        return self.act(out + (x if self.shortcut is None else self.shortcut(x)))


def build_network(name: str, classes: int, layout: str, norm_decays: bool) -> nn.Sequential:
    """Return the network from images to logits with fresh weights in FP32; its number of parameters is asserted.

    The classifier's weights are uniform within 1 / sqrt(features).
    """
    architecture, data_format = ARCHITECTURES[name], layout.upper()
    layers = architecture.in_order(
        lambda description: unit(description, layout, norm_decays),
        nn.MaxPool2D(3, stride=2, padding=1, data_format=data_format),
        lambda block: Bottleneck(block, layout, norm_decays),
    )
    bound = 1 / math.sqrt(architecture.features)
    uniform = ParamAttr(initializer=Uniform(-bound, bound))
    classifier = nn.Linear(architecture.features, classes, weight_attr=uniform)
    pool = nn.AdaptiveAvgPool2D(1, data_format=data_format)
    network = nn.Sequential(*layers, pool, nn.Flatten(), classifier)
    assert_parameters(count_parameters(trainable(network)), architecture.parameters(classes))
    return network


def trainable(network: nn.Layer) -> list[Any]:
    """Return the parameters that are learned: ``Layer.parameters()`` holds running statistics as well."""
    return [parameter for parameter in network.parameters() if parameter.trainable]


def layers_of(network: nn.Layer, kind: Any) -> list[Any]:
    """Return the layers of a kind, in the order of the description."""
    return [layer for layer in network.sublayers() if isinstance(layer, kind)]


class Learner(nn.Layer):
    """The network and the loss, the mean over the batch, so that a compiled program contains both."""

    def __init__(self, network: nn.Layer, label_smoothing: float) -> None:
        super().__init__()
        self.network = network
        self.loss = nn.CrossEntropyLoss(label_smoothing=label_smoothing)

    def forward(self, images: Any, labels: Any) -> tuple[Any, Any]:
        """Return logits (batch, classes) and their loss, both in FP32."""
        # Paddle's cross entropy is in FP32 under AMP as well; the cast is nothing where logits are FP32.
        logits = self.network(images).astype("float32")
        return logits, self.loss(logits, labels)


VECTORS = {**observing.SAME_NAMES, "running_mean": "_mean", "running_var": "_variance"}


def _describe(conv: Any, output: Any) -> observing.Described:
    values = output.numpy()
    if conv._data_format == "NHWC":
        values = values.transpose(0, 3, 1, 2)
    padding = observing.symmetric(conv._updated_padding)
    return conv.weight.shape[2:], conv._stride, padding, conv._groups, values


# The convolutions and products of a compiled program.
PRODUCTS = ("pd_op.conv2d", "pd_op.depthwise_conv2d", "pd_op.matmul")


class PaddleImageTraining(PaddleTraining, ImageTraining):
    """An image network, its loss, and the observation of its second convolution."""

    settings: ImageSettings

    def build(self) -> None:
        settings = self.settings
        norm_decays = settings.recipe.bn_weight_decay
        self.network = build_network(settings.model, settings.classes, settings.layout, norm_decays)
        self._convolutions = layers_of(self.network, nn.Conv2D)
        # Behind the second convolution, whose input has been through the stem. ``to_static`` calls the hook once, with
        # a value of the program that it makes: it has the type that the compiled step computes in.
        self._hook = self._convolutions[1].register_forward_post_hook(self.note_second)
        self.take_over(Learner(self.network, settings.recipe.label_smoothing), trainable(self.network))

    def to_batch(self, images: Any, labels: Any) -> tuple[Any, Any]:
        """Copy images (batch, 3, size, size) in float32 and labels (batch,) in int64 to the device."""
        pixels = paddle.to_tensor(images)
        if self.settings.layout == "nhwc":
            pixels = paddle.transpose(pixels, [0, 2, 3, 1])
        return pixels, paddle.to_tensor(labels)

    def observed_config(self) -> ObservedConfig:
        """Return the observations of the second convolution; the hook is removed.

        Paddle's tensors are contiguous, so that shapes tell the layout. Weights are (outputs, inputs, height, width)
        in either layout; how a convolution reads them is not observable.
        """
        self._hook.remove()
        return observing.config_by_shapes(
            self.settings.model,
            self.second,
            type_name(self._convolutions[1].weight.dtype),
            unseen=("weight_layout",),
        )

    def named_tensors(self) -> dict[str, Any]:
        norms, classifier = layers_of(self.network, nn.BatchNorm2D), self.network[-1]
        return observing.by_shared_names(self.settings.model, self._convolutions, norms, classifier, VECTORS)

    def observe(self) -> Observation:
        model, register = self.settings.model, nn.Layer.register_forward_post_hook
        hooks, found = observing.note_convolutions(model, self._convolutions, register, _describe)
        with hooked(hooks):
            logits, loss = self._forward()
        return Observation(self.own_gradients(loss), float(loss), logits.numpy(), found)

    def observed_step(self, index: int) -> observing.ObservedLayers:
        """Do the step, and return the types of its layers: by hooks, or in the compiled program, and its images."""
        program = None
        if self.settings.compiler != NONE:
            program = self._learner.forward.get_concrete_program(*self.batch)[0].main_program
        images: list[Any] = []
        names = [layer.name for layer in ARCHITECTURES[self.settings.model].convolutions]
        norms = list(zip(names, layers_of(self.network, nn.BatchNorm2D)))
        products = [*zip(names, self._convolutions), ("classifier", self.network[-1])]
        hooks = [self._learner.register_forward_pre_hook(lambda _layer, given: images.append(given[0]))]
        not_training: list[str] = []

        def note_norm(name: str, norm: Any, _given: Any) -> None:
            if not norm.training:
                not_training.append(name)

        if program is None:
            hooks += [norm.register_forward_pre_hook(partial(note_norm, name)) for name, norm in norms]
        with hooked(hooks), backend.operand_types(products if program is None else ()) as types:
            self.step(index)
        if not images:
            return observing.ObservedLayers()
        layers = list(types.items())
        if program is not None:
            operations = [one for one in program.global_block().ops if one.name() in PRODUCTS]
            layers = [
                (f"{one.name()} {number}", type_name(one.results()[0].dtype))
                for number, one in enumerate(operations)
            ]
            not_training = [name for name, norm in norms if not norm.training]
        measured = observing.measured(self.network_input(images))
        return observing.ObservedLayers(layers, *measured, not_training)

    def own_pass(self) -> Observation | None:
        """Pass the batch forward and backward operator by operator, as the step's layers are written.

        With NCCL DataParallel averages in any backward pass: a rank's own gradients are not observable.
        """
        if self.ranks.backend == "nccl":
            return None
        with backend.operator_by_operator():
            return Observation(self.own_gradients(self._forward()[1]))

    def network_input(self, batch: Any) -> Any:
        images = batch[0].numpy()
        return images.transpose(0, 3, 1, 2) if self.settings.layout == "nhwc" else images


open_training = PaddleImageTraining
