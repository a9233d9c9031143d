"""The checks of equal work for tasks whose layers are matrix products, and the parts of their described passes."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
from scipy.special import softmax

from trainmark.schema.certificate import Check, Subject
from trainmark.schema.observation import Followed, Observation, ObservedStep, Sketch, WorkerReport
from trainmark.tasks.equal_work import (
    SMOOTH,
    Deviation,
    EqualWork,
    Forward,
    Range,
    check,
    common_range,
    compare_logits,
    first_off,
    range_of,
    reached,
    relative,
    relative_distance,
)
from trainmark.worker.core.equivalence import sketch

Arrays = Mapping[str, Any]


class DescribedPass:
    """A forward pass in numpy and float64 with the ``weights`` of the inputs; it notes what products give."""

    def __init__(self, weights: Arrays) -> None:
        self.weights = weights
        self._products: dict[str, Sketch] = {}
        self._activated: dict[str, Range] = {}

    def array(self, name: str) -> Any:
        """Return weights in float64."""
        return np.asarray(self.weights[name], np.float64)

    def product(self, name: str, given: Any) -> Any:
        """Return a product with its weights (outputs, inputs), and its bias if it has one."""
        result = given @ self.array(f"{name}.weight").T
        if f"{name}.bias" in self.weights:
            result = result + self.array(f"{name}.bias")
        self._products[name] = Sketch(**sketch(name, result))
        return result

    def activate(self, activation: Callable[[Any], Any], name: str, values: Any) -> Any:
        """Return the activation of values, the output of the product ``name``."""
        self._activated[name] = range_of(values)
        return activation(values)

    def norm(self, name: str, given: Any, epsilon: float, centred: bool = True) -> Any:
        """Return the layer norm of the last axis, or without the mean its root mean square's."""
        if centred:
            given = given - given.mean(-1, keepdims=True)
        scaled = (
            given / np.sqrt((given**2).mean(-1, keepdims=True) + epsilon) * self.weights[f"{name}.weight"]
        )
        return scaled + self.weights[f"{name}.bias"] if f"{name}.bias" in self.weights else scaled

    def result(self, logits: Any, loss: float) -> Forward:
        """Return the pass whose logits and loss these are."""
        return Forward(self._products, Sketch(**sketch("logits", logits)), loss, self._activated)


def heads_of(columns: Any, *counts: int) -> list[Any]:
    """Return columns (batch, length, width) as parts of so many heads, each (batch, heads, length, head)."""
    batch, length, width = columns.shape
    head = width // sum(counts)
    parts = np.split(columns, np.cumsum(counts)[:-1] * head, axis=-1)
    return [
        part.reshape(batch, length, count, head).transpose(0, 2, 1, 3)
        for part, count in zip(parts, counts, strict=True)
    ]


def attend(queries: Any, keys: Any, values: Any, visible: Any, scaled: bool = True) -> Any:
    """Return attention (batch, length, width) of heads; ``visible``: the keys that each query sees."""
    scores = queries @ keys.transpose(0, 1, 3, 2)
    if scaled:
        scores = scores / np.sqrt(queries.shape[-1])
    attended = softmax(np.where(visible, scores, -np.inf), axis=-1) @ values
    batch, _, length, _ = attended.shape
    return attended.transpose(0, 2, 1, 3).reshape(batch, length, -1)


ADAM_OF_THE_CHECK: Mapping[str, Any] = {
    "learning_rate": 0.02,
    "momentum": 0.9,
    "second_momentum": 0.95,
    "epsilon": 1e-3,
    "weight_decay": 0.1,
    "schedule": "cosine",
    "epochs": 2,
    "warmup_epochs": 1,
    "warmup_updates": 0,
    "loss_scale": None,
    "clip_norm": None,
}
"""A large rate, so that gradients change from step to step and both moments show. Epsilon is not small compared to
the gradients, so that an element that is only rounding does not move by the whole rate in a random direction."""


class ObservedProduct(WorkerReport):
    """A product as the framework reports it; ``output`` is the output's shape, (batch, ..., outputs)."""

    name: str
    inputs: int
    outputs: int
    bias: bool
    output: tuple[int, ...]
    norm: float
    signed_sum: float

    @property
    def sketch(self) -> Sketch:
        """The sketch of its output."""
        return Sketch(norm=self.norm, signed_sum=self.signed_sum)


class LogitsStep(ObservedStep):
    """An observed step, with its logits."""

    logits: Sketch


class ProductsObservation(Observation):
    """Three steps of a model, with its products in forward order."""

    products: tuple[ObservedProduct, ...]
    steps: tuple[LogitsStep, ...]


Described = tuple[tuple[int, int], bool, tuple[int, ...]]
"""A described product: (outputs, inputs), whether it has a bias, and the shape of its output."""


Own = TypeVar("Own", bound=ProductsObservation)


class ProductsEqualWork(EqualWork, Generic[Own]):
    """The checks of a task whose layers are matrix products; ``observation`` is its own type of observation."""

    observation: type[Own]

    def own(self, observed: Followed) -> Own:
        """Return the observation in the task's own type."""
        assert isinstance(observed, self.observation)
        return observed

    def products(self, model: str) -> Mapping[str, Described]:
        """Return the described products of a model, by name, in forward order."""
        raise NotImplementedError

    def described_multiply_adds(self, model: str) -> int:
        """Return the multiply-adds of the described forward pass of one sample."""
        raise NotImplementedError

    def pass_of(self, model: str, form: Any) -> Forward:
        """Return the described forward pass of the inputs, in a form of the reference."""
        raise NotImplementedError

    def forms(self, observed: Own) -> tuple[Any, Mapping[str, Any]]:
        """Return the described form of the reference, and its known variants by what is wrong with them."""
        raise NotImplementedError

    def bounds(self, _product: str) -> Range:
        """Return the interval in which the activation after a product bends."""
        return SMOOTH

    def described(self, observed: Observation) -> Iterable[Check]:
        """Yield the checks of the products and of the first forward pass against the description."""
        own = self.own(observed)
        yield self.layers(own)
        off = abs(self.multiply_adds(observed) - self.described_multiply_adds(observed.model))
        yield check(Subject.MULTIPLY_ADDS, (off, None))
        form, others = self.forms(own)
        yield reached(self.pass_of(observed.model, form).activated, self.bounds)
        yield from as_described(own, lambda form: self.pass_of(observed.model, form), form, others)

    def layers(self, observed: Own) -> Check:
        """Return the check that the products match the description."""
        described = self.products(observed.model)
        if [product.name for product in observed.products] != list(described):
            return check(Subject.LAYERS, (1, None), "the products differ from the description")
        wrong = [
            product
            for product in observed.products
            if ((product.outputs, product.inputs), product.bias, product.output) != described[product.name]
        ]
        if not wrong:
            return check(Subject.LAYERS, (0, None))
        first = wrong[0]
        bias = "with" if first.bias else "without"
        shape = f"{first.inputs} to {first.outputs} {bias} a bias, gave {first.output}"
        return check(Subject.LAYERS, (len(wrong), first.name), shape)

    def reach(self, observed: Observation) -> Range | None:
        """Return the range that the inputs of every described activation cover."""
        form, _ = self.forms(self.own(observed))
        return common_range(self.pass_of(observed.model, form).activated)

    def outputs(self, observed: Observation) -> Mapping[str, Sketch]:
        """Return the sketch of each product's output in the first step."""
        return _outputs(self.own(observed))

    def logits(self, observed: Observation) -> Sketch:
        """Return the sketch of the logits in the first step."""
        return self.own(observed).steps[0].logits

    def forward(self, one: Observation, other: Observation) -> Iterable[Check]:
        """Yield the checks of the products' outputs and of the logits."""
        mine, theirs = self.own(one), self.own(other)
        yield check(Subject.ACTIVATIONS, _activations(_outputs(mine), _outputs(theirs)))
        steps = zip(mine.steps, theirs.steps, strict=True)
        yield compare_logits((a.logits, b.logits) for a, b in steps)


def as_described(
    observed: ProductsObservation,
    pass_of: Callable[[Any], Forward],
    described: Any,
    others: Mapping[str, Any],
) -> list[Check]:
    """Return the checks of the first forward pass; a failed one names the known variant that it matches."""
    checks = _against(observed, pass_of(described))
    if all(found.holds for found in checks):
        return checks
    fitting = (
        words
        for words, form in others.items()
        if all(found.holds for found in _against(observed, pass_of(form)))
    )
    remark = next(fitting, None)
    return [found.model_copy(update={"remark": remark}) for found in checks]


def _against(observed: ProductsObservation, described: Forward) -> list[Check]:
    first = observed.steps[0]
    return [
        check(Subject.ACTIVATIONS, _activations(_outputs(observed), described.products)),
        check(Subject.LOGITS, (relative_distance(first.logits, described.logits), "step 0")),
        check(Subject.LOSS, (relative(first.loss, described.loss), "step 0")),
    ]


def _outputs(observed: ProductsObservation) -> Mapping[str, Sketch]:
    return {product.name: product.sketch for product in observed.products}


def _activations(one: Mapping[str, Sketch], other: Mapping[str, Sketch]) -> Deviation:
    if list(one) != list(other):
        return math.inf, "other products"
    return first_off([(relative_distance(one[name], sketch), name) for name, sketch in other.items()])
