"""Image networks as Linen modules, and their loss; ``architectures.py`` describes the layers.

Every module is named as in that description, so that the path of a parameter is the name of its layer:
``stage1.block0`` / ``a`` / ``conv`` / ``kernel``. Images are (batch, height, width, 3), the order of Flax's layers.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from flax.traverse_util import flatten_dict
from jax.extend.core import jaxprs_in_params

from ..backends.jax.backend import JaxTraining, optimizer
from ..core.backend import Observation
from ..core.facts import ObservedConfig, assert_parameters, count_parameters
from ..core.precision import Precision
from ..tasks.image_classification import observing
from ..tasks.image_classification.architectures import ARCHITECTURES, NORM_EPSILON, NORM_MOMENTUM, Convolution
from ..tasks.image_classification.images import DEVIATION, MEAN
from ..tasks.image_classification.settings import ImageSettings
from ..tasks.image_classification.training import ImageTraining

# Variance 2 / fan-in, as NVIDIA's ConvNets draw them (``-c fanin``).
HE_NORMAL = nn.initializers.variance_scaling(2.0, "fan_in", "normal")
# Uniform in +-1 / sqrt(features), as torch's linear layer; in Flax's terms a variance of 1 / (3 fan-in).
CLASSIFIER = nn.initializers.variance_scaling(1 / 3, "fan_in", "uniform")


class Unit(nn.Module):
    """A convolution without bias and its batch norm.

    Batch norm keeps FP32 parameters and statistics, and reduces in FP32, in every precision.
    """

    layer: Convolution
    precision: Precision

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """Map (batch, h, w, inputs) to (batch, h / stride, w / stride, outputs)."""
        layer = self.layer
        x = nn.Conv(
            layer.outputs,
            (layer.kernel, layer.kernel),
            strides=layer.stride,
            # In numbers: "SAME" pads a convolution of stride 2 on one side only.
            padding=layer.padding,
            feature_group_count=layer.groups,
            use_bias=False,
            dtype=self.precision.compute,
            param_dtype=self.precision.weights,
            kernel_init=HE_NORMAL,
            name="conv",
        )(x)
        return nn.BatchNorm(
            use_running_average=False,
            momentum=NORM_MOMENTUM,
            epsilon=NORM_EPSILON,
            dtype=self.precision.compute,
            name="bn",
        )(x)


class Bottleneck(nn.Module):
    """1x1 to the width, 3x3 with the stride, 1x1 to four times the width, and the shortcut.

    ``layers`` are (last word of the name, description); the first block of a stage has a ``shortcut``.
    """

    layers: tuple[tuple[str, Convolution], ...]
    precision: Precision

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """Map (batch, h, w, channels) to (batch, h / stride, w / stride, 4 * width)."""
        units = {word: Unit(layer, self.precision, name=word) for word, layer in self.layers}
        out = units["c"](nn.relu(units["b"](nn.relu(units["a"](x)))))
        return nn.relu(out + (units["shortcut"](x) if "shortcut" in units else x))


class Network(nn.Module):
    """A stem, the blocks of ResNet-50 or the pairs of MobileNetV1's convolutions, and a linear classifier."""

    model: str
    classes: int
    precision: Precision

    @nn.compact
    def __call__(self, images: Any) -> Any:
        """Map images to logits (batch, classes)."""
        architecture, precision = ARCHITECTURES[self.model], self.precision
        stem, *others = architecture.convolutions
        x = nn.relu(Unit(stem, precision, name=stem.name)(images))
        if self.model == "resnet50_v1.5":
            x = nn.max_pool(x, (3, 3), strides=(2, 2), padding=((1, 1), (1, 1)))
            for block, layers in architecture.blocks().items():
                x = Bottleneck(tuple(layers.items()), precision, name=block)(x)
        else:
            for layer in others:
                x = nn.relu(Unit(layer, precision, name=layer.name)(x))
        types = {"dtype": precision.compute, "param_dtype": precision.weights}
        return nn.Dense(self.classes, kernel_init=CLASSIFIER, name="classifier", **types)(x.mean((1, 2)))


# Images (batch, size, size, 3), either normalised in the compute type or bytes, and labels (batch,) in int32.
Batch = tuple[Any, Any]


def all_but_batch_norm(params: Any) -> Any:
    """Return a tree like ``params`` that says which of them decay."""
    return jax.tree_util.tree_map_with_path(
        lambda path, _: all(getattr(part, "key", None) != "bn" for part in path), params
    )


# Flax's names, and how an array is turned into the shared order (outputs first) and back.
SHARED = {"kernel": "weight", "scale": "weight", "bias": "bias", "mean": "running_mean", "var": "running_var"}
TO_SHARED = {4: (3, 2, 0, 1), 2: (1, 0), 1: (0,)}


def to_shared(tree: Any) -> dict[str, Any]:
    """Return the leaves of a parameter or statistics tree as numpy arrays, by the names of ``Architecture.shapes``."""
    named = {}
    for path, leaf in flatten_dict(tree).items():
        array = np.asarray(leaf, np.float32)
        named[_name(path)] = np.ascontiguousarray(array.transpose(TO_SHARED[array.ndim]))
    return named


def from_shared(tree: Any, arrays: Mapping[str, Any]) -> Any:
    """Return a tree like ``tree`` with the values of ``arrays``, each in the type of the leaf before."""

    def replaced(path: Any, leaf: Any) -> Any:
        array = arrays[_name([part.key for part in path])]
        return np.ascontiguousarray(array.transpose(np.argsort(TO_SHARED[array.ndim]))).astype(leaf.dtype)

    return jax.tree_util.tree_map_with_path(replaced, tree)


def _name(path: Any) -> str:
    *layer, last = path
    return ".".join([*layer, SHARED[last]])


CONVOLUTION, PRODUCT = "conv_general_dilated", "dot_general"


def convolutions_of(jaxpr: Any, kinds: Sequence[str] = (CONVOLUTION,)) -> list[Any]:
    """Return the convolution operations of a traced program, those of its inner programs too, in their order."""
    found: list[Any] = []
    for operation in jaxpr.eqns:
        if operation.primitive.name in kinds:
            found.append(operation)
        for inner in jaxprs_in_params(operation.params):
            found += convolutions_of(inner, kinds)
    return found


def layers_of(jaxpr: Any, model: str) -> list[tuple[str, str]]:
    """Return the convolutions and products of a traced step, also of its backward pass, by their inputs' type."""
    names = iter([layer.name for layer in ARCHITECTURES[model].convolutions])
    return [
        (
            next(names, "backward") if operation.primitive.name == CONVOLUTION else "classifier",
            operation.invars[0].aval.dtype.name,
        )
        for operation in convolutions_of(jaxpr, (CONVOLUTION, PRODUCT))
    ]


def _observed(name: str, operation: Any, output: Any) -> observing.ObservedConvolution:
    """Return the facts of a convolution operation; its dimension numbers say which axis is which."""
    facts, kernel = operation.params, operation.invars[1].aval.shape
    numbers = facts["dimension_numbers"]
    assert tuple(output.shape) == tuple(operation.outvars[0].aval.shape)
    return observing.observe_convolution(
        name,
        [kernel[axis] for axis in numbers.rhs_spec[2:]],
        facts["window_strides"],
        facts["padding"],
        facts["feature_group_count"],
        np.asarray(output).transpose(numbers.out_spec),
    )


def compiled_convolutions(program: str) -> tuple[str | None, str | None]:
    """Return the type of the forward convolutions in the text of an optimised HLO program, and their results' order.

    Where they are not all alike, the words are joined by ``+``; None where the program says nothing.

    ``%x = bf16[8,16,16,64]{3,2,1,0} convolution(...), dim_labels=b01f_01io->b01f, ... op_name="..."``: the type; the
    dimensions, the fastest in memory first; which dimension is the batch (b), the channels (f) and the image's (0, 1);
    where in the Python code it comes from, with ``transpose`` in what belongs to the backward pass. On a GPU it is a
    call of cuDNN with the same words, whose result is a pair.
    """
    dtypes: set[str] = set()
    layouts: set[str] = set()
    for line in program.splitlines():
        labels = re.search(r"dim_labels=\w+->(\w+)", line)
        shape = re.search(r"= \(?(\w+)\[[\d,]*\]\{([\d,]+)", line)
        origin = re.search(r'op_name="([^"]*)"', line)
        if labels is None or shape is None or origin is None or "transpose(" in origin.group(1):
            continue
        slowest_first = [labels.group(1)[int(axis)] for axis in shape.group(2).split(",")][::-1]
        dtypes.add(shape.group(1))
        layouts.add("".join({"b": "n", "f": "c", "0": "h", "1": "w"}[label] for label in slowest_first))
    return "+".join(sorted(dtypes)) or None, "+".join(sorted(layouts)) or None


class JaxImageTraining(JaxTraining, ImageTraining):
    """An image network, its loss, and the observation of its first step."""

    settings: ImageSettings
    loaders = ("native",)

    def build(self) -> None:
        settings, recipe = self.settings, self.settings.recipe
        self._model = Network(settings.model, settings.classes, self.precision)
        self._outputs: list[tuple[str, tuple[int, ...]]] = []
        self._compiled: tuple[str | None, str | None] = (None, None)
        self.take_over(optimizer(recipe, None if recipe.bn_weight_decay else all_but_batch_norm))

    def fresh(self) -> tuple[Any, Any]:
        """Return fresh parameters and running statistics; the number of parameters is asserted."""
        settings, side = self.settings, self.settings.image_size
        # Of JAX's generators the one whose programs compile in half the time.
        key = jax.random.key(settings.seed, impl="rbg")
        variables = self._model.init(key, jnp.zeros((1, side, side, 3)))
        found = count_parameters(jax.tree.leaves(variables["params"]))
        assert_parameters(found, ARCHITECTURES[settings.model].parameters(settings.classes))
        return variables["params"], variables["batch_stats"]

    def loss_of(self, params: Any, batch_stats: Any, batch: Batch, **collecting: Any) -> Any:
        """Return the smoothed cross entropy; ``collecting`` tells Flax what to collect from the layers."""
        (images, labels), variables = batch, {"params": params, "batch_stats": batch_stats}
        options = {"mutable": ["batch_stats"], **collecting}
        logits, changed = self._model.apply(variables, self._normalise(images), **options)
        logits, smoothing = logits.astype(jnp.float32), self.settings.recipe.label_smoothing
        targets = optax.smooth_labels(jax.nn.one_hot(labels, logits.shape[-1]), smoothing)
        return optax.softmax_cross_entropy(logits, targets).mean(), (logits, changed)

    def to_batch(self, images: Any, labels: Any) -> Batch:
        """Bring this rank's images (batch, 3, size, size) in float32 and labels (batch,) in int64 to the device."""
        images = np.ascontiguousarray(images.transpose(0, 2, 3, 1)).astype(self.precision.compute)
        return self.ranks.part(images), self.ranks.part(labels.astype(np.int32))

    def _normalise(self, images: Any) -> Any:
        """Return the network's input: bytes get mean 0 and deviation 1 by channel; what is normalised stays.

        Part of the step, so that bytes go to the device and XLA joins this to what follows. It computes in FP32.
        """
        if images.dtype == jnp.uint8:
            mean, deviation = jnp.float32(MEAN) * 255, jnp.float32(DEVIATION) * 255
            images = (images.astype(jnp.float32) - mean) / deviation
        return images.astype(self.precision.compute)

    def observing_trace(self) -> AbstractContextManager[Any]:
        """Return the context in which types and shapes of the convolutions' outputs are noted."""
        return nn.intercept_methods(self._note)

    def _note(self, call: Any, args: Any, kwargs: Any, context: Any) -> Any:
        output = call(*args, **kwargs)
        if isinstance(context.module, nn.Conv) and context.method_name == "__call__":
            self._outputs.append((str(output.dtype), tuple(output.shape)))
        return output

    def note_program(self, text: str) -> None:
        self._compiled = compiled_convolutions(text)

    def observed_config(self) -> ObservedConfig:
        """Return the observations of the second convolution; a kernel's axes have one order in Flax.

        For a compiled step they are the traced ones, by the order of the axes in the program; the order in memory is
        XLA's, and ``compiled_convolutions`` reads it.
        """
        return observing.config_by_shapes(
            self.settings.model,
            self._outputs[1] if len(self._outputs) > 1 else None,
            str(self.state.params["stem"]["conv"]["kernel"].dtype),
            unseen=("weight_layout",),
            others={"compiled_dtype": self._compiled[0], "compiled_layout": self._compiled[1]},
        )

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        params, batch_stats = (from_shared(tree, weights) for tree in self._own_weights())
        params, batch_stats = self.ranks.whole(params), self.ranks.parts(batch_stats)
        self.state = self.state.replace(params=params, batch_stats=batch_stats)

    def read_weights(self) -> dict[str, Any]:
        params, batch_stats = self._own_weights()
        return {**to_shared(params), **to_shared(batch_stats)}

    def observed_step(self, index: int) -> observing.ObservedLayers:
        images = self.network_input(self.batch)
        self.step(index)
        layers = layers_of(self.operations(), self.settings.model)
        return observing.ObservedLayers(layers, *observing.measured(images))

    def own_pass(self) -> Observation:
        """Pass this rank's current batch alone, for the gradients before any exchange."""
        params, batch_stats = self._own_weights()
        # Scaled as the step's, so that what FP16 rounds away is the same.
        batch, scale = self.read_batch(), self.scale_of_loss()
        grad = jax.jit(jax.grad(lambda own: self.loss_of(own, batch_stats, batch)[0] * scale))
        return Observation({name: found / scale for name, found in to_shared(grad(params)).items()})

    def network_input(self, batch: Any) -> Any:
        images = self._normalise(jnp.asarray(np.asarray(batch[0].addressable_data(0))))
        return np.asarray(images.astype(jnp.float32)).transpose(0, 3, 1, 2)

    def observe(self) -> Observation:
        """Pass the batch forward and backward by the function that the step differentiates.

        The backward pass starts from the scaled loss, as in FP16's step.
        """
        scale = self.scale_of_loss()

        def convolution(module: nn.Module, method: str) -> bool:
            return isinstance(module, nn.Conv) and method == "__call__"

        def collecting(params: Any, batch_stats: Any, batch: Any) -> Any:
            own = {"mutable": ["batch_stats", "intermediates"], "capture_intermediates": convolution}
            loss, results = self.loss_of(params, batch_stats, batch, **own)
            return loss * scale, (loss, *results)

        given = (self.state.params, self.state.batch_stats, self.batch)
        (_, (loss, logits, changed)), scaled = jax.value_and_grad(collecting, has_aux=True)(*given)
        gradients = jax.tree.map(lambda gradient: gradient / scale, scaled)
        operations = convolutions_of(jax.make_jaxpr(collecting)(*given).jaxpr)
        outputs = {
            ".".join(path[: path.index("conv")]): value[0]
            for path, value in flatten_dict(changed["intermediates"]).items()
        }
        names = [layer.name for layer in ARCHITECTURES[self.settings.model].convolutions]
        assert len(operations) == len(names)
        observed = [_observed(name, operation, outputs[name]) for name, operation in zip(names, operations)]
        return Observation(to_shared(gradients), float(loss), np.asarray(logits), observed)


open_training = JaxImageTraining
