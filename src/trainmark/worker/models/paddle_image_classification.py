"""ResNet-50 v1.5 and MobileNetV1 as Paddle layers, and their loss; ``architectures.py`` describes the layers."""

import math
from functools import partial
from typing import Any

import paddle
from paddle import ParamAttr, nn
from paddle.nn.initializer import KaimingNormal, Uniform
from paddle.regularizer import L2Decay
from paddle.static import InputSpec

from ..backends.paddle import backend
from ..backends.paddle.backend import NONE, PaddleTraining, type_name
from ..core.backend import Observation, hooked
from ..core.facts import assert_parameters
from ..core.feed import Feed
from ..core.place import Place
from ..tasks.image_classification import observing
from ..tasks.image_classification.architectures import ARCHITECTURES, NORM_EPSILON, NORM_MOMENTUM, Convolution
from ..tasks.image_classification.settings import ImageSettings
from ..tasks.image_classification.training import ImageTraining


class Options:
    """The common settings of a network's layers: the layout, and whether batch norm decays."""

    def __init__(self, layout: str, bn_weight_decay: bool) -> None:
        self.data_format, self._bn_weight_decay = layout.upper(), bn_weight_decay

    def norm_attribute(self) -> ParamAttr:
        """Return the attribute of a scale or shift; a regularizer of its own goes before the optimizer's."""
        return ParamAttr(regularizer=None if self._bn_weight_decay else L2Decay(0.0))


class ConvNorm(nn.Layer):
    """A convolution, its batch norm and, unless it ends a branch, a ReLU."""

    def __init__(self, description: Convolution, options: Options, activated: bool = True) -> None:
        """Draw weights of variance 2 / fan-in. Paddle's batch-norm momentum is the share that is kept."""
        super().__init__()
        self.description = description
        self.conv = nn.Conv2D(
            description.inputs,
            description.outputs,
            description.kernel,
            stride=description.stride,
            padding=description.padding,
            groups=description.groups,
            weight_attr=ParamAttr(initializer=KaimingNormal(nonlinearity="relu")),
            bias_attr=False,
            data_format=options.data_format,
        )
        self.norm = nn.BatchNorm2D(
            description.outputs,
            momentum=NORM_MOMENTUM,
            epsilon=NORM_EPSILON,
            weight_attr=options.norm_attribute(),
            bias_attr=options.norm_attribute(),
            data_format=options.data_format,
        )
        self.act = nn.ReLU() if activated else None

    def forward(self, x: Any) -> Any:
        """Map a batch of images in the network's layout to one with the convolution's channels."""
        x = self.norm(self.conv(x))
        return x if self.act is None else self.act(x)


class Bottleneck(nn.Layer):
    """1x1 to the width, 3x3 with the stride, 1x1 to four times the width, and the shortcut beside them."""

    def __init__(self, layers: dict[str, Convolution], options: Options) -> None:
        super().__init__()
        self.a, self.b = ConvNorm(layers["a"], options), ConvNorm(layers["b"], options)
        self.c = ConvNorm(layers["c"], options, activated=False)
        short = layers.get("shortcut")
        self.shortcut = None if short is None else ConvNorm(short, options, activated=False)
        self.act = nn.ReLU()

    def forward(self, x: Any) -> Any:
        """Map (batch, channels, h, w) to (batch, 4 * width, h / stride, w / stride)."""
        out = self.c(self.b(self.a(x)))
        return self.act(out + (x if self.shortcut is None else self.shortcut(x)))


class Network(nn.Layer):
    """Some layers, the mean over the image, and a linear layer, its weights uniform within 1 / sqrt(features)."""

    def __init__(self, layers: list[nn.Layer], features: int, classes: int, options: Options) -> None:
        super().__init__()
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2D(1, data_format=options.data_format)
        bound = 1 / math.sqrt(features)
        self.linear = nn.Linear(features, classes, weight_attr=ParamAttr(initializer=Uniform(-bound, bound)))

    def forward(self, images: Any) -> Any:
        """Map images (batch, 3, h, w) to logits (batch, classes)."""
        return self.linear(self.pool(self.features(images)).flatten(1))


def build_network(name: str, classes: int, options: Options) -> nn.Layer:
    """Return the network with fresh weights in FP32; its number of parameters is asserted."""
    architecture = ARCHITECTURES[name]
    layers = architecture.in_order(
        lambda description: [ConvNorm(description, options)],
        nn.MaxPool2D(3, stride=2, padding=1, data_format=options.data_format),
        lambda block: Bottleneck(block, options),
    )
    network = Network(layers, architecture.features, classes, options)
    assert_parameters(backend.count_parameters(trainable(network)), architecture.parameters(classes))
    return network


def trainable(network: nn.Layer) -> list[Any]:
    """Return the parameters that are learned: ``Layer.parameters()`` holds running statistics as well."""
    return [parameter for parameter in network.parameters() if parameter.trainable]


def conv_norms(network: nn.Layer) -> list[ConvNorm]:
    """Return the convolutions with their norms."""
    return [layer for layer in network.sublayers() if isinstance(layer, ConvNorm)]


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


def specification(settings: ImageSettings) -> list[InputSpec]:
    """Return shapes and types of images and labels."""
    batch, side = settings.batch_per_device, settings.image_size
    shape = [batch, side, side, 3] if settings.layout == "nhwc" else [batch, 3, side, side]
    return [InputSpec(shape, "float32"), InputSpec(shape[:1], "int64")]


_VECTORS = {"weight": "weight", "bias": "bias", "running_mean": "_mean", "running_var": "_variance"}


def named_tensors(network: nn.Layer, model: str) -> dict[str, Any]:
    """Return the network's parameters and running statistics by the names of ``Architecture.shapes``."""
    units = conv_norms(network)
    convolutions, norms = [unit.conv for unit in units], [unit.norm for unit in units]
    return observing.by_shared_names(model, convolutions, norms, network.linear, _VECTORS)


def _describe(conv: Any, output: Any) -> observing.Described:
    values = output.numpy()
    if conv._data_format == "NHWC":
        values = values.transpose(0, 3, 1, 2)
    padding = observing.symmetric(conv._updated_padding)
    return conv.weight.shape[2:], conv._stride, padding, conv._groups, values


def _in_program(program: Any) -> list[tuple[str, str]]:
    """Return the convolutions and products of a compiled program, and the types of their results."""
    kinds = ("pd_op.conv2d", "pd_op.depthwise_conv2d", "pd_op.matmul")
    operations = [operation for operation in program.global_block().ops if operation.name() in kinds]
    return [
        (f"{operation.name()} {number}", type_name(operation.results()[0].dtype))
        for number, operation in enumerate(operations)
    ]


class PaddleImageTraining(PaddleTraining, ImageTraining):
    """An image network, its loss, and the observation of its second convolution."""

    settings: ImageSettings

    def build(self) -> None:
        settings = self.settings
        options = Options(settings.layout, settings.recipe.bn_weight_decay)
        self.network = build_network(settings.model, settings.classes, options)
        self._units = conv_norms(self.network)
        self._output: tuple[str, tuple[int, ...]] | None = None
        # Behind the second convolution, whose input has been through the stem. ``to_static`` calls the hook once, with
        # a value of the program that it makes: it has the type that the compiled step computes in.
        self._hook = self._units[1].conv.register_forward_post_hook(self._note)
        learner = Learner(self.network, settings.recipe.label_smoothing)
        self.take_over(learner, trainable(self.network), specification(settings))

    def to_batch(self, images: Any, labels: Any) -> tuple[Any, Any]:
        """Copy images (batch, 3, size, size) in float32 and labels (batch,) in int64 to the device."""
        pixels = paddle.to_tensor(images)
        if self.settings.layout == "nhwc":
            pixels = paddle.transpose(pixels, [0, 2, 3, 1])
        return pixels, paddle.to_tensor(labels)

    def open_loader(self, settings: ImageSettings, place: Place) -> Feed:
        from ..backends.paddle.loading import open_images

        return open_images(settings, place)

    def _note(self, _layer: nn.Layer, _inputs: Any, output: Any) -> None:
        self._output = (type_name(output.dtype), tuple(output.shape))

    def observed_config(self) -> observing.ObservedConfig:
        """Return the observations of the second convolution, and Paddle's TF32 switches; the hook is removed.

        Paddle's tensors are contiguous, so that shapes tell the layout. Weights are (outputs, inputs, height, width)
        in either layout; how a convolution reads them is not observable.
        """
        self._hook.remove()
        return observing.config_by_shapes(
            self.settings.model,
            self._output,
            type_name(self._units[1].conv.weight.dtype),
            **backend.tf32_switches(),
            unseen=("weight_layout",),
            others={"compiled_programs": self.compiled_programs()},
        )

    def named_tensors(self) -> dict[str, Any]:
        return named_tensors(self.network, self.settings.model)

    def observe(self) -> Observation:
        convolutions, register = [unit.conv for unit in self._units], nn.Layer.register_forward_post_hook
        hooks, found = observing.note_convolutions(self.settings.model, convolutions, register, _describe)
        with hooked(hooks):
            logits, loss = self._forward()
        return Observation(self.own_gradients(loss), float(loss), logits.numpy(), found)

    def observed_step(self, index: int) -> observing.ObservedLayers:
        """Do the step, and return the types of its layers: by hooks, or in the compiled program, and its images."""
        program = None if self.settings.compiler == NONE else self.compiled_program()
        images: list[Any] = []
        norms = [(unit.description.name, unit.norm) for unit in self._units]
        products = [(unit.description.name, unit.conv) for unit in self._units]
        products.append(("classifier", self.network.linear))
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
            layers = _in_program(program)
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
