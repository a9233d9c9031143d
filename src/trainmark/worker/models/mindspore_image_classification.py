"""Image networks in MindSpore; ``architectures.py`` describes their layers."""

from collections.abc import Sequence
from typing import Any

from mindspore import nn, ops
from mindspore.common.initializer import HeNormal

from ..backends.mindspore import backend
from ..backends.mindspore.backend import CONVOLUTIONS, MindSporeTraining
from ..core.backend import Observation, hooked
from ..core.facts import ObservedConfig, assert_parameters, count_parameters, type_name
from ..tasks.image_classification import observing
from ..tasks.image_classification.architectures import ARCHITECTURES, NORM_EPSILON, NORM_MOMENTUM, Convolution
from ..tasks.image_classification.settings import ImageRecipe, ImageSettings
from ..tasks.image_classification.training import ImageTraining

VECTORS = {"weight": "gamma", "bias": "beta", "running_mean": "moving_mean", "running_var": "moving_variance"}


def unit(description: Convolution, relu: bool = True) -> list[nn.Cell]:
    """Return a convolution, its weights normal of variance 2 / fan-in, its batch norm and, if wanted, a ReLU.

    ``pad_mode="pad"`` with explicit padding: MindSpore's default, "same", pads more on the right.
    """
    conv = nn.Conv2d(
        description.inputs,
        description.outputs,
        description.kernel,
        stride=description.stride,
        pad_mode="pad",
        padding=description.padding,
        group=description.groups,
        has_bias=False,
        weight_init=HeNormal(mode="fan_in", nonlinearity="relu"),
    )
    norm = nn.BatchNorm2d(description.outputs, eps=NORM_EPSILON, momentum=NORM_MOMENTUM)
    return [conv, norm, nn.ReLU()] if relu else [conv, norm]


class Bottleneck(nn.Cell):
    """1x1 to the width, 3x3 with the stride, 1x1 to four times the width, and the shortcut."""

    def __init__(self, layers: dict[str, Convolution]) -> None:
        super().__init__()
        body = [*unit(layers["a"]), *unit(layers["b"]), *unit(layers["c"], relu=False)]
        self.body = nn.SequentialCell(body)
        short = layers.get("shortcut")
        self.shortcut = nn.SequentialCell(unit(short, relu=False)) if short else nn.Identity()
        self.relu = nn.ReLU()

    def construct(self, x: Any) -> Any:
        """Map (batch, channels, h, w) to (batch, 4 * width, h / stride, w / stride)."""
        return self.relu(self.body(x) + self.shortcut(x))


class Network(nn.Cell):
    """Some layers, the mean over the image, and a linear classifier."""

    def __init__(self, layers: list[nn.Cell], features: int, classes: int) -> None:
        super().__init__()
        self.features = nn.SequentialCell(layers)
        self.classifier = nn.Dense(features, classes)

    def construct(self, images: Any) -> Any:
        """Map images (batch, 3, h, w) to logits (batch, classes)."""
        return self.classifier(ops.mean(self.features(images), (2, 3)))


def build_network(name: str, classes: int) -> nn.Cell:
    """Return the network with fresh weights in FP32; its number of parameters is asserted."""
    architecture, pool = ARCHITECTURES[name], nn.MaxPool2d(3, stride=2, pad_mode="pad", padding=1)
    layers = architecture.in_order(unit, pool, Bottleneck)
    network = Network(layers, architecture.features, classes)
    assert_parameters(count_parameters(network.trainable_params()), architecture.parameters(classes))
    return network


class NetworkWithLoss(nn.Cell):
    """The network and its loss."""

    def __init__(self, network: nn.Cell, label_smoothing: float) -> None:
        super().__init__(auto_prefix=False)
        self.network = network
        self.loss = nn.CrossEntropyLoss(label_smoothing=label_smoothing)

    def construct(self, images: Any, labels: Any) -> Any:
        """Map images (batch, 3, h, w) and labels (batch,) to the mean loss and the logits (batch, classes)."""
        logits = self.network(images)
        return self.loss(logits, labels), logits


def make_optimizer(model: nn.Cell, recipe: ImageRecipe, rates: Sequence[float]) -> nn.Optimizer:
    """Return SGD, with batch-norm scales and shifts in a group that does not decay unless requested."""
    norm = [vector for cell in cells(model, nn.BatchNorm2d) for vector in (cell.gamma, cell.beta)]
    own, every = {parameter.name for parameter in norm}, model.trainable_params()
    other = [parameter for parameter in every if parameter.name not in own]
    decays = [(other, recipe.weight_decay), (norm, recipe.weight_decay if recipe.bn_weight_decay else 0.0)]
    return backend.sgd(decays, every, recipe, rates)


def cells(model: nn.Cell, kind: Any) -> list[Any]:
    """Return the cells of a kind, in the order of the forward pass."""
    return [cell for _, cell in model.cells_and_names() if isinstance(cell, kind)]


class MindSporeImageTraining(MindSporeTraining, ImageTraining):
    """An image network and its loss."""

    settings: ImageSettings

    def build(self) -> None:
        """Build network and optimizer; a hook in the second convolution observes a step that is not compiled."""
        settings = self.settings
        model = build_network(settings.model, settings.classes)
        (classifier,) = cells(model, nn.Dense)
        convolutions, norms = cells(model, nn.Conv2d), cells(model, nn.BatchNorm2d)
        self._hook = None if self.compiled else convolutions[1].register_forward_hook(self.note_second)
        named = observing.by_shared_names(settings.model, convolutions, norms, classifier, VECTORS)
        network = backend.with_precision(model, self.precision)
        forward = NetworkWithLoss(network, settings.recipe.label_smoothing)
        self.take_over(model, forward, make_optimizer(model, settings.recipe, self.rates), named)

    def observed_config(self) -> ObservedConfig:
        if self._hook is None:
            self.second = backend.outputs_in_graph(self.train_step, CONVOLUTIONS)[1]
        else:
            self._hook.remove()
        weight = cells(self.model, nn.Conv2d)[1].weight
        dtype, shape = type_name(weight.dtype), tuple(weight.shape)
        return observing.config_by_shapes(self.settings.model, self.second, dtype, shape)

    def observe(self) -> Observation:
        convolutions, register = cells(self.model, nn.Conv2d), nn.Cell.register_forward_hook
        hooks, found = observing.note_convolutions(self.settings.model, convolutions, register, _describe)
        with hooked(hooks):
            logits, loss, gradients = self.observe_pass()
        return Observation(gradients, loss, logits, found)

    def observed_step(self, index: int) -> observing.ObservedLayers:
        """Do the step, and return the types of its layers: by hooks, or in MindSpore's own graph of it."""
        images = self.batch[0]
        names = [layer.name for layer in ARCHITECTURES[self.settings.model].convolutions]
        if self.compiled:
            self.step(index)
            outputs = backend.outputs_in_graph(self.train_step, CONVOLUTIONS)
            types = [(name, dtype) for name, (dtype, _) in zip(names, outputs)]
        else:
            with backend.operator_types() as (convolutions, products):
                self.step(index)
            types = [*zip(names, convolutions), *(("classifier", dtype) for dtype in products)]
        norms = zip(names, cells(self.model, nn.BatchNorm2d))
        not_training = [name for name, norm in norms if not norm.training]
        return observing.ObservedLayers(types, *observing.measured(images.asnumpy()), not_training)

    def own_pass(self) -> Observation:
        """Pass the batch forward and backward with the step's own network and loss, operator by operator."""
        return Observation(self.observe_pass()[2])

    def network_input(self, batch: Any) -> Any:
        return batch[0].asnumpy()


def _describe(conv: Any, output: Any) -> observing.Described:
    # Read from the operator: the cell converts its arguments into these.
    operator = conv.conv2d
    top, bottom, left, right = operator.pad
    padding = ((top, bottom), (left, right))
    return operator.kernel_size, operator.stride[-2:], padding, operator.group, output.asnumpy()


open_training = MindSporeImageTraining
