"""The image task's part of the check of equal work: convolutions, logits, and the statistics of batch norms."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from trainmark.schema.certificate import Check, Subject
from trainmark.schema.observation import Followed, Observation, ObservedStep, Sketch, WorkerReport
from trainmark.tasks.equal_work import (
    RECTIFIER,
    Deviation,
    EqualWork,
    Range,
    check,
    common_range,
    compare_logits,
    first_off,
    reached,
    relative,
    relative_distance,
    worst,
)
from trainmark.worker.tasks.image_classification.architectures import (
    ARCHITECTURES,
    Convolution,
    is_batch_norm,
)
from trainmark.worker.tasks.image_classification.settings import ImageRecipe

CLASSES = 1000
IMAGE_SIZE = 96
"""Even at each stride (96, 48, 24, 12, 6), so that shapes alone do not show padding on the wrong side."""

BATCH = 8

HIGH = 7.0
"""Above the bound of a bounded activation; in one channel per layer, because more make the steps diverge."""


class ObservedConvolution(WorkerReport):
    """A convolution as the framework reports it; ``padding`` is ((top, bottom), (left, right)), ``output`` NCHW."""

    name: str
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[tuple[int, int], tuple[int, int]]
    groups: int
    output: tuple[int, int, int, int]
    output_norm: float

    def multiply_adds(self, inputs_per_group: int) -> int:
        """Return the multiply-adds of the forward pass of one image."""
        _, channels, height, width = self.output
        return height * width * channels * inputs_per_group * self.kernel[0] * self.kernel[1]


class ImageStep(ObservedStep):
    """An observed step, with its logits."""

    logits: Sketch


class ImageObservation(Observation):
    """Three steps of a network of convolutions, in forward order.

    ``pre_activations`` are the lowest and the highest input of each activation in the first step.
    """

    classes: int
    convolutions: tuple[ObservedConvolution, ...]
    pre_activations: Mapping[str, tuple[float, float]] = {}
    steps: tuple[ImageStep, ...]


class ImageEqualWork(EqualWork):
    """Inputs and checks of networks of convolutions and batch norms with a classifier."""

    batch = BATCH
    shape: Mapping[str, int] = {"image_size": IMAGE_SIZE}
    # A step and a half: two steps of warm-up, then the first step of the cosine (rates 1/2, 1 and 3/4).
    epoch = BATCH * 3 // 2
    # The decay is large enough to show; the rate rises and then falls.
    recipe = ImageRecipe(
        learning_rate=0.03,
        momentum=0.875,
        weight_decay=0.01,
        bn_weight_decay=False,
        label_smoothing=0.1,
        schedule="cosine",
        epochs=2,
        warmup_epochs=1,
        loss_scale=None,
    )
    observation = ImageObservation

    def flags(self) -> Mapping[str, object]:
        """Return size, classes, smoothing, and the length of an epoch."""
        return {
            "image-size": IMAGE_SIZE,
            "classes": CLASSES,
            "label-smoothing": self.recipe.label_smoothing,
            "epoch-images": self.epoch,
        }

    def inputs(self, model: str, seed: int) -> dict[str, NDArray[np.generic]]:
        """Return weights by the names of ``Architecture.shapes``, ``images`` (8, 3, 96, 96) and ``labels`` (8,).

        Convolutions are normal with variance 2 / fan-in, the classifier normal with 1 / features, in float32. Running
        statistics differ from 0 and 1, so that ignoring one shows.

        Batch norms scale by about 0.5 and shift by 1; the last one of a residual branch scales by 0.25 and does not
        shift. A ReLU cuts off some percent of the values. One channel of each is shifted by 7, so that a bounded
        activation, such as ReLU6, gives another result. With the usual 1 and 0 a network of this depth is chaotic:
        the rounding of FP32 grows to 1 % of ResNet-50's gradients in the first step and to more than 100 % in the
        second (measured against FP64; docs/explanation/equivalence.md), so every mistake would pass the check.
        """
        random = np.random.default_rng([seed, *model.encode()])
        arrays: dict[str, NDArray[np.generic]] = {}
        for name, shape in ARCHITECTURES[model].shapes(CLASSES).items():
            arrays[name] = _draw(random, name, shape).astype(np.float32)
        arrays["images"] = random.standard_normal((BATCH, 3, IMAGE_SIZE, IMAGE_SIZE)).astype(np.float32)
        arrays["labels"] = random.integers(0, CLASSES, BATCH)
        return arrays

    def parameters(self, observed: Observation) -> int:
        """Return the parameters of the described network."""
        return ARCHITECTURES[observed.model].parameters(_own(observed).classes)

    def multiply_adds(self, observed: Observation) -> int:
        """Return the multiply-adds of the convolutions and the classifier for one image."""
        own, architecture = _own(observed), ARCHITECTURES[observed.model]
        inputs = {conv.name: conv.inputs // conv.groups for conv in architecture.convolutions}
        convolutions = sum(conv.multiply_adds(inputs.get(conv.name, 0)) for conv in own.convolutions)
        return convolutions + architecture.features * own.classes

    def decays(self, name: str) -> bool:
        """Return whether it is no batch norm's parameter."""
        return not is_batch_norm(name)

    def described(self, observed: Observation) -> Iterable[Check]:
        """Yield the checks of the convolutions' geometry and multiply-adds, and of the activations' input range."""
        yield _geometry(_own(observed).convolutions, ARCHITECTURES[observed.model].convolutions)
        off = abs(self.multiply_adds(observed) - described_multiply_adds(_own(observed)))
        yield check(Subject.MULTIPLY_ADDS, (off, None))
        yield reached(_own(observed).pre_activations, lambda _name: RECTIFIER)

    def reach(self, observed: Observation) -> Range | None:
        """Return the range that the inputs of every activation cover."""
        return common_range(_own(observed).pre_activations)

    signed_outputs = False

    def outputs(self, observed: Observation) -> Mapping[str, Sketch]:
        """Return the norm of each convolution's output in the first step."""
        return {
            conv.name: Sketch(norm=conv.output_norm, signed_sum=0.0) for conv in _own(observed).convolutions
        }

    def logits(self, observed: Observation) -> Sketch:
        """Return the sketch of the logits in the first step."""
        return _own(observed).steps[0].logits

    def forward(self, one: Observation, other: Observation) -> Iterable[Check]:
        """Yield the checks of the convolutions' outputs and of the logits."""
        yield check(Subject.ACTIVATIONS, _activations(_own(one), _own(other)))
        steps = zip(_own(one).steps, _own(other).steps, strict=True)
        yield compare_logits((a.logits, b.logits) for a, b in steps)

    def statistics(self, one: Followed, other: Followed, same_framework: bool) -> Iterable[Check]:
        """Yield the checks of the batches' means and variances."""
        yield check(Subject.BATCH_MEANS, worst(_of_statistics(one, other, ".running_mean", _as_it_is)))
        if same_framework:
            variances = worst(_of_statistics(one, other, ".running_var", _as_it_is))
            yield check(Subject.BATCH_VARIANCES, variances)
        else:
            yield _variances(one, _own(other))


def _own(observed: Followed) -> ImageObservation:
    assert isinstance(observed, ImageObservation)
    return observed


def _draw(random: np.random.Generator, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    noise = random.standard_normal(shape)
    if name.endswith("conv.weight"):
        return noise * math.sqrt(2 / math.prod(shape[1:]))
    if name == "classifier.weight":
        return noise * math.sqrt(1 / shape[1])
    if name.endswith(".bn.weight"):
        return (0.25 if name.endswith(".c.bn.weight") else 0.5) * (1 + 0.1 * np.tanh(noise))
    if name.endswith(".bn.bias"):
        if name.endswith(".c.bn.bias"):
            return 0.1 * noise
        shift = np.ones_like(noise)
        shift[np.argmax(noise)] = HIGH
        return shift + 0.1 * noise
    if name.endswith(".running_var"):
        return 1 + 0.1 * np.tanh(noise)
    return 0.1 * noise


def _geometry(observed: Sequence[ObservedConvolution], described: Sequence[Convolution]) -> Check:
    if [conv.name for conv in observed] != [conv.name for conv in described]:
        return check(Subject.GEOMETRY, (1, None), "the convolutions differ from the description")
    pairs = zip(observed, described, strict=True)
    wrong = [(conv.name, text) for conv, like in pairs if (text := _difference(conv, like))]
    where, remark = wrong[0] if wrong else (None, None)
    return check(Subject.GEOMETRY, (len(wrong), where), remark)


def _difference(observed: ObservedConvolution, like: Convolution) -> str | None:
    """Return the first property in which a convolution differs from the described one."""
    side = (like.padding, like.padding)
    expected = {
        "kernel": (like.kernel, like.kernel),
        "stride": (like.stride, like.stride),
        "padding": (side, side),
        "groups": like.groups,
    }
    for key, value in expected.items():
        if getattr(observed, key) != value:
            return f"{key} {getattr(observed, key)} instead of {value}"
    channels = observed.output[1]
    return None if channels == like.outputs else f"{channels} channels instead of {like.outputs}"


def described_multiply_adds(observed: ImageObservation) -> int:
    """Return the multiply-adds of the described network for one image of the check's size.

    Sizes are computed from the input on; each halving rounds like a symmetric padding of half the kernel.
    """
    architecture = ARCHITECTURES[observed.model]
    total, side, at_block = 0, IMAGE_SIZE, IMAGE_SIZE
    for conv in architecture.convolutions:
        if conv.name.endswith((".a", ".shortcut")):
            at_block, side = (side, side) if conv.name.endswith(".a") else (at_block, at_block)
        side = (side + 2 * conv.padding - conv.kernel) // conv.stride + 1
        total += side * side * conv.outputs * (conv.inputs // conv.groups) * conv.kernel**2
        if conv.name == "stem" and observed.model.startswith("resnet"):
            side = (side + 2 - 3) // 2 + 1
    return total + architecture.features * observed.classes


def _activations(one: ImageObservation, other: ImageObservation) -> Deviation:
    if len(one.convolutions) != len(other.convolutions) or not one.convolutions:
        return math.inf, "another number of convolutions"
    pairs = zip(one.convolutions, other.convolutions, strict=True)
    return first_off(
        [
            (relative(a.output_norm, b.output_norm) if a.output == b.output else math.inf, a.name)
            for a, b in pairs
        ]
    )


def _as_it_is(_name: str) -> float:
    return 1.0


def _of_statistics(
    one: Followed, other: Followed, ending: str, factor: Callable[[str], float]
) -> Iterable[Deviation]:
    """Yield the distances of the batch statistics, the first framework's multiplied by a factor of the layer."""
    for index, (a, b) in enumerate(zip(one.steps, other.steps, strict=True)):
        for name, sketch in b.statistics.items():
            if name.endswith(ending):
                by, mine = factor(name), a.statistics[name]
                scaled = Sketch(norm=mine.norm * by, signed_sum=mine.signed_sum * by)
                yield relative_distance(scaled, sketch), f"{name}, step {index}"


def _variances(one: Followed, other: ImageObservation) -> Check:
    """Compare the variances; biased against unbiased ones pass with a remark.

    Some frameworks store the unbiased variance (divided by n - 1) in the running statistics, others the biased one
    (divided by n). In training, all use the biased one; only evaluation uses the running one.
    """
    values = {
        f"{conv.name}.bn.running_var": conv.output[0] * conv.output[2] * conv.output[3]
        for conv in other.convolutions
    }

    def bessel(name: str) -> float:
        return values[name] / (values[name] - 1) if values.get(name, 0) > 1 else 1.0

    readings = [
        (None, _as_it_is),
        (f"{other.framework} keeps the unbiased variance, {one.framework} the biased one", bessel),
        (
            f"{one.framework} keeps the unbiased variance, {other.framework} the biased one",
            lambda name: 1 / bessel(name),
        ),
    ]
    checks = [
        check(Subject.BATCH_VARIANCES, worst(_of_statistics(one, other, ".running_var", factor)), remark)
        for remark, factor in readings
    ]
    return min(checks, key=lambda found: found.deviation)
