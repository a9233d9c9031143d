"""Image networks and their loss as OneFlow modules; ``architectures.py`` describes the layers."""

from typing import Any

from oneflow import nn

from ..backends.oneflow.backend import OneFlowTraining, as_numpy, sgd
from ..core.backend import Observation
from ..core.facts import ObservedConfig, assert_parameters, count_parameters, type_name
from ..tasks.image_classification import observing
from ..tasks.image_classification.architectures import ARCHITECTURES, NORM_EPSILON, NORM_MOMENTUM, Convolution
from ..tasks.image_classification.settings import ImageSettings
from ..tasks.image_classification.training import ImageTraining


def _convolution(layer: Convolution) -> list[Any]:
    """Return a convolution, its weights normal of variance 2 / fan-in, and its batch norm."""
    conv = nn.Conv2d(layer.inputs, layer.outputs, layer.kernel, bias=False, **layer.geometry)
    nn.init.kaiming_normal_(conv.weight, mode="fan_in", nonlinearity="relu")
    # OneFlow's momentum is the share of the new value, like torch's.
    return [conv, nn.BatchNorm2d(layer.outputs, eps=NORM_EPSILON, momentum=1 - NORM_MOMENTUM)]


class Bottleneck(nn.Module):
    """1x1 to the width, 3x3 with the stride, 1x1 to four times the width, and the shortcut."""

    def __init__(self, layers: dict[str, Convolution]) -> None:
        super().__init__()
        a, b, c = (_convolution(layers[word]) for word in "abc")
        self.path = nn.Sequential(*a, nn.ReLU(), *b, nn.ReLU(), *c)
        self.shortcut = nn.Sequential(*_convolution(layers["shortcut"])) if "shortcut" in layers else None
        self.relu = nn.ReLU()

    def forward(self, x: Any) -> Any:
        """Map (batch, channels, h, w) to (batch, 4 * width, h / stride, w / stride)."""
        out = self.path(x)
        return self.relu(out + (x if self.shortcut is None else self.shortcut(x)))


def build_network(name: str, classes: int) -> Any:
    """Return the network with fresh weights in FP32; its number of parameters is asserted."""
    architecture, pool = ARCHITECTURES[name], nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
    layers = architecture.in_order(lambda conv: [*_convolution(conv), nn.ReLU()], pool, Bottleneck)
    classifier = nn.Linear(architecture.features, classes)
    network = nn.Sequential(*layers, nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), classifier)
    assert_parameters(count_parameters(network.parameters()), architecture.parameters(classes))
    return network


class SmoothedCrossEntropy(nn.Module):
    """Cross entropy against labels of which a part is spread evenly over all classes (Szegedy et al., 2015)."""

    def __init__(self, smoothing: float) -> None:
        """Store the part, 0 for none. Not every version of OneFlow's own loss has such an argument."""
        super().__init__()
        self.smoothing, self.cross_entropy = smoothing, nn.CrossEntropyLoss()
        self.log_softmax = nn.LogSoftmax(dim=1)

    def forward(self, logits: Any, labels: Any) -> Any:
        """Return the mean over the batch, from logits (batch, classes) and labels (batch,)."""
        loss = self.cross_entropy(logits, labels)
        if not self.smoothing:
            return loss
        return loss * (1 - self.smoothing) - self.log_softmax(logits).mean() * self.smoothing


def _modules(network: Any, kind: Any) -> list[Any]:
    """Return the modules of a kind, in the order of the forward pass."""
    return [module for module in network.modules() if isinstance(module, kind)]


class OneFlowImageTraining(OneFlowTraining, ImageTraining):
    """An image network, its loss, and hooks in its convolutions.

    OneFlow's hooks cannot be removed: those of the check of equal work are registered when they are needed.
    """

    settings: ImageSettings

    def build(self) -> None:
        settings, recipe = self.settings, self.settings.recipe
        network = build_network(settings.model, settings.classes).to(self.device).train()
        self._convolutions = _modules(network, nn.Conv2d)
        self._convolutions[1].register_forward_hook(self.note_second)
        self._noted: list[observing.ObservedConvolution] | None = None
        (classifier,) = _modules(network, nn.Linear)
        norms = _modules(network, nn.BatchNorm2d)
        self.take_over(
            network,
            SmoothedCrossEntropy(recipe.label_smoothing).to(self.device),
            observing.by_shared_names(settings.model, self._convolutions, norms, classifier),
            lambda net: sgd(observing.decay_groups(net, nn.BatchNorm2d, recipe), recipe, self.device),
        )

    def forward(self) -> tuple[Any, Any]:
        images, labels = self.batch
        with self.autocast:
            logits = self.network(images).float()
            return logits, self.loss(logits, labels)

    def observed_config(self) -> ObservedConfig:
        weight, unobservable = self._convolutions[1].weight, self.unobservable()
        output: tuple[str | None, tuple[int, ...]] | None = self.second
        if output is not None and "compute_dtype" in unobservable:
            output = (None, output[1])
        dtype, shape = type_name(weight.dtype), tuple(weight.shape)
        return observing.config_by_shapes(self.settings.model, output, dtype, shape, unseen=unobservable)

    def observe(self) -> Observation:
        """Pass the batch forward and backward with the step's own network and loss, eagerly; drop the gradients."""
        if self._noted is None:
            _, self._noted = observing.note_convolutions(
                self.settings.model, self._convolutions, nn.Module.register_forward_hook, _describe
            )
        # Of the passes since the last observation.
        self._noted.clear()
        logits, loss = self.forward()
        found = [*self._noted]
        loss.backward()
        trained = {name: tensor for name, tensor in self.tensors.items() if tensor.requires_grad}
        gradients = {name: as_numpy(tensor.grad) for name, tensor in trained.items()}
        self.optimizer.zero_grad(set_to_none=True)
        return Observation(gradients, float(as_numpy(loss)), as_numpy(logits), found)

    def network_input(self, batch: Any) -> Any:
        return as_numpy(batch[0])


def _describe(conv: Any, output: Any) -> observing.Described:
    return conv.kernel_size, conv.stride, observing.symmetric(conv.padding), conv.groups, as_numpy(output)


open_training = OneFlowImageTraining
