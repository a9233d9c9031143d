"""Image networks as Gluon blocks, and their loss; ``architectures.py`` describes the layers."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import Any

import mxnet as mx
from mxnet import autograd
from mxnet.gluon import HybridBlock, nn

from ..backends.mxnet.backend import MXNetTraining, trainable, type_name
from ..backends.mxnet.loading import to_device
from ..core.backend import Observation
from ..core.facts import ObservedConfig, assert_parameters, count_parameters
from ..tasks.image_classification import observing
from ..tasks.image_classification.architectures import (
    ARCHITECTURES,
    NORM_EPSILON,
    NORM_MOMENTUM,
    Convolution,
    is_trainable,
)
from ..tasks.image_classification.known_picture import RECORDIO
from ..tasks.image_classification.settings import ImageSettings
from ..tasks.image_classification.training import ImageTraining

# Normal with variance 2 / fan-in (He et al., https://arxiv.org/abs/1502.01852).
HE_FAN_IN = mx.init.MSRAPrelu(factor_type="in", slope=0)


def _unit(description: Convolution, layout: str, relu: bool = True) -> nn.HybridSequential:
    # Of the layer's parameters in MXNet's flat dictionary.
    prefix = description.name.replace(".", "_") + "_"
    unit = nn.HybridSequential(prefix=prefix)
    unit.add(
        nn.Conv2D(
            description.outputs,
            description.kernel,
            strides=description.stride,
            padding=description.padding,
            groups=description.groups,
            layout=layout,
            in_channels=description.inputs,
            use_bias=False,
            weight_initializer=HE_FAN_IN,
            prefix=prefix + "conv_",
        ),
        nn.BatchNorm(
            axis=layout.index("C"),
            momentum=NORM_MOMENTUM,
            epsilon=NORM_EPSILON,
            in_channels=description.outputs,
            prefix=prefix + "bn_",
        ),
    )
    if relu:
        unit.add(nn.Activation("relu"))
    return unit


class _Bottleneck(HybridBlock):
    """The three convolutions of a ResNet block and the shortcut beside them."""

    def __init__(self, layers: dict[str, Convolution], layout: str) -> None:
        super().__init__()
        self.body = nn.HybridSequential()
        self.body.add(*(_unit(layers[word], layout, relu=word != "c") for word in "abc"))
        self.shortcut = _unit(layers["shortcut"], layout, relu=False) if "shortcut" in layers else None

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803 (Gluon's name)
        """Map (batch, channels, h, w) to (batch, 4 * width, h / stride, w / stride)."""
        out = self.body(x)
        return F.Activation(out + (x if self.shortcut is None else self.shortcut(x)), act_type="relu")


def build_model(name: str, classes: int, layout: str, context: Any) -> nn.HybridSequential:
    """Return the network with fresh weights in FP32 on ``context``; its number of parameters is asserted.

    ``layout`` is ``NCHW`` or ``NHWC``.
    """
    architecture, model = ARCHITECTURES[name], nn.HybridSequential()
    layers = architecture.in_order(
        lambda description: [_unit(description, layout)],
        nn.MaxPool2D(3, strides=2, padding=1, layout=layout),
        lambda block: _Bottleneck(block, layout),
    )
    features, uniform = architecture.features, mx.init.Uniform(architecture.features**-0.5)
    classifier = nn.Dense(classes, in_units=features, weight_initializer=uniform, prefix="classifier_")
    model.add(*layers, nn.GlobalAvgPool2D(layout=layout), nn.Flatten(), classifier)
    model.initialize(ctx=context)
    assert_parameters(count_parameters(trainable(model)), architecture.parameters(classes))
    return model


def blocks(model: HybridBlock, kind: Any) -> list[Any]:
    """Return the network's blocks of a kind, in the order of its description."""
    found: list[Any] = []
    model.apply(lambda block: found.append(block) if isinstance(block, kind) else None)
    return found


class CrossEntropy(HybridBlock):
    """Cross entropy with label smoothing, averaged over the batch; Gluon's own has no smoothing."""

    def __init__(self, smoothing: float) -> None:
        super().__init__()
        self._smoothing = smoothing

    def hybrid_forward(self, F: Any, logits: Any, labels: Any) -> Any:  # noqa: N803 (Gluon's name)
        """Map logits (batch, classes) and labels (batch,) to the mean loss, (1,), computed in FP32."""
        log = F.log_softmax(F.cast(logits, dtype="float32"))
        loss = -F.pick(log, labels)
        if self._smoothing:
            loss = (1 - self._smoothing) * loss - self._smoothing * F.mean(log, axis=-1)
        return F.mean(loss)


_VECTORS = {**observing.SAME_NAMES, "weight": "gamma", "bias": "beta"}


@contextmanager
def operator_by_operator(*networks: HybridBlock) -> Iterator[None]:
    """Run hybridized networks operator by operator meanwhile, without discarding their traces."""
    active: list[Any] = []
    for network in networks:
        network.apply(lambda block: active.append(block) if getattr(block, "_active", False) else None)
    for block in active:
        block._active = False
    try:
        yield
    finally:
        for block in active:
            block._active = True


def _types(model: HybridBlock, name: str) -> list[tuple[str, str]]:
    """Return the types of the operands of the convolutions and products in the network's graph."""
    traced = getattr(model, "_cached_graph", ())
    if traced:
        symbol = traced[1]
    else:
        with operator_by_operator(model):
            symbol = model(mx.sym.var("data"))
    outputs = symbol.get_internals()
    _, types, _ = outputs.infer_type_partial(**dict.fromkeys(symbol.list_inputs(), "float32"))
    described = iter([conv.name for conv in ARCHITECTURES[name].convolutions])
    kinds = {"Convolution": lambda: next(described, "?"), "FullyConnected": lambda: "classifier"}
    nodes = {node["name"]: node["op"] for node in json.loads(outputs.tojson())["nodes"]}
    found: list[tuple[str, str]] = []
    for output, dtype in zip(outputs.list_outputs(), types):
        kind = nodes.get(output[: -len("_output")]) if output.endswith("_output") else None
        if kind in kinds:
            found.append((kinds[kind](), type_name(dtype)))
    return found


class MXNetImageTraining(MXNetTraining, ImageTraining):
    """An image network, its loss, and the observation of its second convolution, by a forward hook."""

    settings: ImageSettings
    forms = MappingProxyType({"native": RECORDIO})

    def make_model(self, settings: ImageSettings) -> tuple[HybridBlock, HybridBlock]:
        model = build_model(settings.model, settings.classes, settings.layout.upper(), self.context)
        self._output: Any = None
        self._traces = 0
        self._hook = blocks(model, nn.Conv2D)[1].register_forward_hook(self._note)
        if not settings.recipe.bn_weight_decay:
            model.collect_params(".*_gamma|.*_beta").setattr("wd_mult", 0.0)
        return model, CrossEntropy(settings.recipe.label_smoothing)

    def to_batch(self, images: Any, labels: Any) -> tuple[Any, Any]:
        """Copy images (batch, 3, size, size) and labels (batch,), both numpy's, to the device."""
        arrays = (mx.nd.array(images, dtype="float32"), mx.nd.array(labels, dtype="float32"))
        return to_device(self.settings, self.context)(arrays)

    def forward(self) -> tuple[Any, Any]:
        images, labels = self.batch
        logits = self.model(images)
        return logits, self.loss(logits, labels)

    def _note(self, _conv: Any, _inputs: Any, output: Any) -> None:
        """Store the output of the second convolution, whose input has been through the stem.

        A network that runs operator by operator has an output in each pass. A hybridized one calls its blocks only to
        be traced, with symbols; up to the stored one the traced graph itself can be run.
        """
        self._output = output
        self._traces += isinstance(output, mx.sym.Symbol)

    def observed_config(self) -> ObservedConfig:
        """Return the observations of the second convolution. MXNet's arrays are contiguous: shapes show the layout.

        The hook of a hybridized network stays, to count traces, and costs its steps nothing. TF32 is a setting of
        NVIDIA's libraries, which MXNet does not report.
        """
        output, weight = self._output, blocks(self.model, nn.Conv2D)[1].weight.data()
        if isinstance(output, mx.sym.Symbol):
            # The traced graph is run up to there; the running statistics stay as they are.
            known = {parameter.name: parameter for parameter in self.model.collect_params().values()}
            inputs = (known[name].data() if name in known else self.batch[0] for name in output.list_inputs())
            output = mx.nd.CachedOp(output)(*inputs)
        else:
            self._hook.detach()
        found, unseen = (type_name(output.dtype), output.shape), ("tf32_matmul", "tf32_convolution")
        return observing.config_by_shapes(
            self.settings.model, found, type_name(weight.dtype), weight.shape, unseen=unseen
        )

    def compilations(self) -> int | None:
        """Return how often the network was traced so far; never without ``hybridize``."""
        return self._traces

    def _named(self) -> dict[str, Any]:
        """Return Gluon's parameters, running statistics among them, by the names of ``Architecture.shapes``."""
        (classifier,) = blocks(self.model, nn.Dense)
        convolutions, norms = (blocks(self.model, kind) for kind in (nn.Conv2D, nn.BatchNorm))
        return observing.by_shared_names(self.settings.model, convolutions, norms, classifier, _VECTORS)

    def _in_nchw(self, array: Any) -> Any:
        """Return images or weights in nchw, from the layout of the run."""
        nhwc = self.settings.layout == "nhwc" and array.ndim == 4
        return array.transpose(0, 3, 1, 2) if nhwc else array

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        for name, parameter in self._named().items():
            nhwc, array = self.settings.layout == "nhwc", weights[name]
            array = array.transpose(0, 2, 3, 1) if nhwc and array.ndim == 4 else array
            parameter.set_data(mx.nd.array(array, dtype="float32"))

    def read_weights(self) -> dict[str, Any]:
        return {name: self._in_nchw(parameter.data().asnumpy()) for name, parameter in self._named().items()}

    def _gradients(self, loss: Any) -> dict[str, Any]:
        """Pass a loss backward; return the gradients, zero of a parameter that was frozen."""
        loss.backward()
        return {
            name: mx.nd.zeros_like(parameter.data()).asnumpy()
            if parameter.grad_req == "null"
            else self._in_nchw(parameter.grad().asnumpy())
            for name, parameter in self._named().items()
            if is_trainable(name)
        }

    def _describe(self, conv: Any, output: Any) -> observing.Described:
        # The arguments that Gluon passes to the operator.
        given, values = conv._kwargs, self._in_nchw(output.astype("float32").asnumpy())
        padding = observing.symmetric(given["pad"])
        return given["kernel"], given["stride"], padding, given["num_group"], values

    def observe(self) -> Observation:
        """Pass the batch forward and backward with the step's own model and loss, operator by operator."""
        convolutions, register = blocks(self.model, nn.Conv2D), nn.Conv2D.register_forward_hook
        hooks, found = observing.note_convolutions(
            self.settings.model, convolutions, register, self._describe
        )
        with ExitStack() as stack, autograd.record():
            for hook in hooks:
                stack.enter_context(hook)
            logits, loss = self.forward()
        outputs, gradients = logits.astype("float32").asnumpy(), self._gradients(loss)
        return Observation(gradients, float(loss.asscalar()), outputs, found)

    def observed_step(self, index: int) -> observing.ObservedLayers:
        """Do the step; return its images, and the types of its layers in the graph that was, or is now, traced."""
        images: list[Any] = []
        with self.model.register_forward_pre_hook(lambda _block, given: images.append(given[0])):
            self.step(index)
        if not images:
            return observing.ObservedLayers()
        measured = observing.measured(self.network_input(images))
        return observing.ObservedLayers(_types(self.model, self.settings.model), *measured)

    def own_pass(self) -> Observation:
        """Pass the batch forward and backward operator by operator, as the step's layers are written."""
        with operator_by_operator(self.model, self.loss):
            with autograd.record():
                _, loss = self.forward()
            return Observation(self._gradients(loss))

    def network_input(self, batch: Any) -> Any:
        return self._in_nchw(batch[0].astype("float32").asnumpy())


open_training = MXNetImageTraining
