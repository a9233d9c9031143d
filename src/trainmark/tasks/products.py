"""The checks of equal work for tasks whose layers are matrix products: text and recommendation."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from trainmark.schema.certificate import Check, Subject
from trainmark.schema.observation import Observation, ObservedStep, Sketch, WorkerReport
from trainmark.tasks.equal_work import (
    TOLERANCES,
    Deviation,
    Forward,
    check,
    relative,
    relative_distance,
    worst,
)

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


def layers(observed: Sequence[ObservedProduct], described: Mapping[str, Described]) -> Check:
    """Return the check that the products match the description."""
    if [product.name for product in observed] != list(described):
        return check(Subject.LAYERS, (1, None), "the products differ from the description")
    wrong = [
        product
        for product in observed
        if ((product.outputs, product.inputs), product.bias, product.output) != described[product.name]
    ]
    if not wrong:
        return check(Subject.LAYERS, (0, None))
    first = wrong[0]
    bias = "with" if first.bias else "without"
    shape = f"{first.inputs} to {first.outputs} {bias} a bias, gave {first.output}"
    return check(Subject.LAYERS, (len(wrong), first.name), shape)


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


def passes(one: ProductsObservation, other: ProductsObservation) -> Iterable[Check]:
    """Yield the checks of two frameworks' products and logits."""
    yield check(Subject.ACTIVATIONS, _activations(_of(one), _of(other)))
    steps = enumerate(zip(one.steps, other.steps, strict=True))
    yield check(
        Subject.LOGITS, worst((relative_distance(a.logits, b.logits), f"step {i}") for i, (a, b) in steps)
    )


def _against(observed: ProductsObservation, described: Forward) -> list[Check]:
    first = observed.steps[0]
    return [
        check(Subject.ACTIVATIONS, _activations(_of(observed), described.products)),
        check(Subject.LOGITS, (relative_distance(first.logits, described.logits), "step 0")),
        check(Subject.LOSS, (relative(first.loss, described.loss), "step 0")),
    ]


def _of(observed: ProductsObservation) -> Mapping[str, Sketch]:
    return {product.name: product.sketch for product in observed.products}


def _activations(one: Mapping[str, Sketch], other: Mapping[str, Sketch]) -> Deviation:
    """Return the first product whose output is off by more than the tolerance, or else the worst."""
    if list(one) != list(other):
        return math.inf, "other products"
    found = [(relative_distance(one[name], sketch), name) for name, sketch in other.items()]
    return next((pair for pair in found if not pair[0] <= TOLERANCES[Subject.ACTIVATIONS]), worst(found))
