"""ResNet-50 v1.5 and MobileNetV1 as torch modules, their training, and its observation."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
from torch import nn
from torch.utils._triton import has_triton

from ..backends.pytorch.backend import Operators, PyTorchTraining
from ..backends.pytorch.collectives import FLAT_16, InOnePiece
from ..backends.pytorch.loading import ON_GPU, Batch, memory_format
from ..core.backend import Observation, hooked
from ..core.facts import Facts, ObservedConfig, assert_parameters, count_parameters, type_name
from ..core.place import Place
from ..pytorch_fast.compilers import FOLDED, FUSED, FUSED_CUDNN, NONE, UPDATE, chosen
from ..pytorch_fast.images.nvjpeg import request_queues
from ..pytorch_fast.optimizers import sgd
from ..tasks.image_classification import observing
from ..tasks.image_classification.architectures import ARCHITECTURES, NORM_EPSILON, NORM_MOMENTUM, Convolution
from ..tasks.image_classification.known_picture import TFRECORD
from ..tasks.image_classification.settings import ImageSettings
from ..tasks.image_classification.training import ImageTraining


def convolution(
    layer: Convolution, norm: type[nn.BatchNorm2d] | None = None, kind: type[nn.Conv2d] | None = None
) -> list[nn.Module]:
    """Return the convolution and its norm; weights are normal of variance 2 / fan-in, as NVIDIA's ``-c fanin``.

    ``norm`` and ``kind`` are classes to take in place of torch's own.
    """
    conv = (kind or nn.Conv2d)(layer.inputs, layer.outputs, layer.kernel, bias=False, **layer.geometry)
    nn.init.kaiming_normal_(conv.weight, mode="fan_in", nonlinearity="relu")
    make_norm = norm or nn.BatchNorm2d
    return [conv, make_norm(layer.outputs, eps=NORM_EPSILON, momentum=1 - NORM_MOMENTUM)]


class Bottleneck(nn.Module):
    """1x1 to the width, 3x3 with the stride, 1x1 to four times the width, and the shortcut beside them."""

    def __init__(self, layers: dict[str, Convolution]) -> None:
        super().__init__()
        self.conv1, self.bn1 = convolution(layers["a"])
        self.conv2, self.bn2 = convolution(layers["b"])
        self.conv3, self.bn3 = convolution(layers["c"])
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Sequential(*(convolution(layers["shortcut"]) if "shortcut" in layers else ()))

    def forward(self, x: Any) -> Any:
        """Map (batch, channels, h, w) to (batch, 4 * width, h / stride, w / stride)."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += self.shortcut(x)
        return self.relu(out)


def build_model(name: str, classes: int, compiler: str = NONE) -> nn.Module:
    """Return the network with fresh weights in FP32; its number of parameters is asserted.

    The compilers ``fused`` and ``fused-cudnn`` are networks of their own: the same modules, with the same parameters.
    """
    architecture = ARCHITECTURES[name]
    model: nn.Module
    if compiler in FUSED:
        from ..pytorch_fast.images.fused_resnet import FusedResNet50

        assert name == "resnet50_v1.5", name
        model = FusedResNet50(classes, compiler == FUSED_CUDNN, chosen())
    else:
        pool = nn.MaxPool2d(3, stride=2, padding=1)
        layers = architecture.in_order(
            lambda layer: [*convolution(layer), nn.ReLU(inplace=True)], pool, Bottleneck
        )
        classifier = nn.Linear(architecture.features, classes)
        model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), classifier)
    assert_parameters(count_parameters(model.parameters()), architecture.parameters(classes))
    return model


# The operators, without their overloads, to which convolutions and linear layers come down.
PRODUCTS = ("convolution", "_convolution", "addmm", "mm", "bmm", "baddbmm", "linear")


@contextmanager
def operand_types(modules: Sequence[tuple[str, nn.Module]]) -> Iterator[dict[str, str]]:
    """Yield a dictionary that gets, by the names of modules, the type of what goes into their (last) product.

    A layer that turns its inputs to another type and its output back shows it here alone. What runs compiled is no
    operator of PyTorch and is not noted.
    """
    types: dict[str, str] = {}
    calling: list[str] = []

    def note(operator: str, given: Sequence[Any]) -> None:
        if calling and operator in PRODUCTS:
            operands = (value for value in given[::-1] if isinstance(value, torch.Tensor))
            types[calling[-1]] = type_name(next(value for value in operands if value.dim() > 1).dtype)

    hooks = [
        module.register_forward_pre_hook(lambda *_, name=name: calling.append(name))
        for name, module in modules
    ]
    hooks += [module.register_forward_hook(lambda *_: calling.clear()) for _, module in modules]
    with hooked(hooks), Operators(note):
        yield types


def _describe(conv: Any, output: Any) -> observing.Described:
    padding, values = observing.symmetric(conv.padding), output.detach().float().cpu().numpy()
    return conv.kernel_size, conv.stride, padding, conv.groups, values


def _modules(model: nn.Module, kind: Any) -> list[Any]:
    return [module for module in model.modules() if isinstance(module, kind)]


# Layouts by whether a tensor lies in memory in the order nchw, and whether in the order nhwc.
LAYOUTS = {(True, True): "either", (True, False): "nchw", (False, True): "nhwc", (False, False): "neither"}


def _orders(tensor: Any) -> tuple[bool, bool]:
    return tensor.is_contiguous(), tensor.is_contiguous(memory_format=torch.channels_last)


class PyTorchImageTraining(PyTorchTraining, ImageTraining):
    """An image network, its loss, and the witness in it."""

    settings: ImageSettings
    forms = MappingProxyType({"dali-cpu-tfrecord": TFRECORD, "dali-gpu-tfrecord": TFRECORD})

    _narrow: Any = None  # the optimizer, where it reads gradients in 16 bits
    _sent: Any = None  # what averages over the ranks what that optimizer reads

    def __init__(self, settings: ImageSettings, place: Place) -> None:
        if settings.loader in ON_GPU and not settings.synthetic:
            request_queues()
        super().__init__(settings, place)

    def build(self) -> None:
        settings = self.settings
        with self._device:
            model = build_model(settings.model, settings.classes, settings.compiler)
        for layer in _modules(model, (nn.Conv2d, nn.Linear)):
            # Batch norm stays in FP32, as cuDNN computes it.
            layer.to(getattr(torch, self.precision.weights))
        model.to(memory_format=memory_format(settings.layout))
        self._stem, second = _modules(model, nn.Conv2d)[:2]
        self._observed: tuple[Any, int | None, tuple[bool, bool]] = (None, None, (False, False))
        # Behind the second convolution, whose input has been through the stem. Under torch.compile the hook is compiled
        # with the network and notes what the compiled step has.
        self._hook = second.register_forward_hook(self._see)
        self.loss = nn.CrossEntropyLoss(label_smoothing=settings.recipe.label_smoothing)
        # By itself the compiler lays convolutions out with the channels last where it expects a gain.
        self.inductor = {"layout_optimization": settings.layout == "nhwc"}
        self._stages = chosen() if settings.compiler in FUSED else chosen() & {UPDATE}
        if settings.compiler != FUSED_CUDNN:
            # Nothing has summed up what a norm is to fold.
            self._stages -= {FOLDED}
        self.take_over(model, self._optimizer(model))
        if self._narrow is not None and self.ranks.backend is not None:
            # The weights are rank 0's by now.
            self._narrow.renew()
            assert isinstance(self.exchange, InOnePiece), "buckets are never read as they travelled"
            self._sent = self.exchange.sent(self._narrow.leaves)
            self._narrow.read_always(self._sent.views)

    def _optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """Return SGD; where it can, it reads gradients in 16 bits: of copies of the weights, or as they travelled."""
        decays = observing.decay_groups(model, nn.BatchNorm2d, self.settings.recipe)
        recipe, fused = self.settings.recipe, self.settings.compiler in FUSED
        narrow_travel = self.ranks.backend == "nccl" and self.settings.gradients == FLAT_16
        able = self.precision.mixed and recipe.momentum and (fused or (narrow_travel and has_triton()))
        if UPDATE not in self._stages or not able:
            self._stages -= {UPDATE}
            return sgd(decays, recipe)
        from ..pytorch_fast.half_grad_sgd import FusedCheckScaler, HalfGradSGD

        narrow = [module.weight for module in model.narrowed] if fused else []
        self.scaler_kind = FusedCheckScaler
        self._narrow = HalfGradSGD(decays, recipe, narrow, self._compute)
        return self._narrow

    def _whole_step(self, batch: tuple[Any, ...]) -> Any:
        """Do the step; where weights have copies in 16 bits, with those."""
        if self._narrow is None or not self._narrow.copies:
            return super()._whole_step(batch)
        self.model.copies = self._narrow.copies
        try:
            return super()._whole_step(batch)
        finally:
            self.model.copies = None

    def average(self) -> None:
        (self._sent or self.exchange).average()

    def exchanged(self) -> Sequence[Any]:
        return super().exchanged() if self._sent is None else self._narrow.leaves

    def recorded(self) -> None:
        if self._narrow is not None:
            self._narrow.recorded()

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        super().load_weights(weights)
        if self._narrow is not None:
            self._narrow.renew()

    def facts(self) -> Facts:
        facts = super().facts()
        if not self._stages:
            return facts
        return facts._replace(optimizer="SGD", others={**facts.others, "stages": sorted(self._stages)})

    def _forward(self) -> tuple[Any, Any]:
        images, labels = self.batch
        with self.autocast:
            # In FP32: a logarithm of FP16 sums is what loss scaling cannot mend.
            logits = self.network(images).float()
            return logits, self.loss(logits, labels)

    def _layers(self) -> Any:
        """Return the logits by the model's own modules, neither compiled nor wrapped."""
        with self.autocast:
            return self.model(self.batch[0])

    def _see(self, _module: nn.Module, _inputs: Any, output: Any) -> None:
        self._observed = (output.dtype, output.shape[0], _orders(output))

    def observed_config(self) -> ObservedConfig:
        """Return the observations of the second convolution.

        The hook stays in a compiled network, which would be compiled again without it.
        """
        if self.settings.compiler == NONE:
            self._hook.remove()
        dtype, batch, orders = self._observed
        return ObservedConfig(
            compute_dtype=None if dtype is None else type_name(dtype),
            weight_dtype=type_name(self._stem.weight.dtype),
            batch_per_device=batch,
            axes={"activation_layout": LAYOUTS[orders], "weight_layout": LAYOUTS[_orders(self._stem.weight)]},
        )

    COUNTS_UPDATES = False

    def steps_taken(self) -> int:
        """Return the batches that the batch norms have counted in training mode; the fewest of one."""
        return min(int(norm.num_batches_tracked) for norm in _modules(self.model, nn.BatchNorm2d))

    def watched_pass(self) -> None:
        with torch.no_grad():
            before = self.read_weights()
            self._layers()
            self.load_weights(before)

    def watched(self, step: Callable[[], Any]) -> observing.ObservedLayers:
        outputs: dict[str, str] = {}
        not_training: list[str] = []
        inputs: list[Any] = []

        def note_output(name: str, _module: Any, _given: Any, output: Any) -> None:
            outputs[name] = type_name(output.dtype)

        def note_norm(name: str, norm: Any, _given: Any) -> None:
            if not norm.training:
                not_training.append(name)

        names = [layer.name for layer in ARCHITECTURES[self.settings.model].convolutions]
        convolutions, norms = (_modules(self.model, kind) for kind in (nn.Conv2d, nn.BatchNorm2d))
        layers = [*zip(names, convolutions), ("classifier", *_modules(self.model, nn.Linear))]
        hooks = [layer.register_forward_hook(partial(note_output, name)) for name, layer in layers]
        hooks += [
            *(norm.register_forward_pre_hook(partial(note_norm, name)) for name, norm in zip(names, norms)),
            convolutions[0].register_forward_pre_hook(lambda _conv, given: inputs.append(given[0].detach())),
        ]
        with hooked(hooks), operand_types(layers) as operands:
            step()
        if not inputs:
            return observing.ObservedLayers()
        images = inputs[0].float()
        return observing.ObservedLayers(
            [(name, operands.get(name, kind)) for name, kind in outputs.items()],
            image_size=(images.shape[2], images.shape[3]),
            input_mean=float(images.mean()),
            input_deviation=float(images.std()),
            not_training=not_training,
        )

    def to_batch(self, images: Any, labels: Any) -> Batch:
        """Copy images (batch, 3, size, size) in float32 and labels (batch,) in int64 to the device."""
        pixels = torch.from_numpy(images).to(self._device, self._compute)
        layout = memory_format(self.settings.layout)
        return pixels.contiguous(memory_format=layout), torch.from_numpy(labels).to(self._device)

    def network_input(self, batch: Any) -> Any:
        return batch[0].float().cpu().numpy()

    def named_tensors(self) -> dict[str, Any]:
        convolutions, norms = (_modules(self.model, kind) for kind in (nn.Conv2d, nn.BatchNorm2d))
        (classifier,) = _modules(self.model, nn.Linear)
        return observing.by_shared_names(self.settings.model, convolutions, norms, classifier)

    def observe(self) -> Observation:
        """Pass the batch by the model's own modules, for its convolutions; then by the network of the step, and back.

        Hooks in a compiled network would be compiled into another program.
        """
        convolutions, register = _modules(self.model, nn.Conv2d), nn.Module.register_forward_hook
        hooks, found = observing.note_convolutions(self.settings.model, convolutions, register, _describe)
        with hooked(hooks), torch.no_grad():
            self._layers()
        logits, loss = self._forward()
        outputs, gradients = logits.detach().float().cpu().numpy(), self.observed_gradients(loss)
        return Observation(gradients, float(loss.detach()), outputs, found)


open_training = PyTorchImageTraining
