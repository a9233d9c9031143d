"""The language task's part of the check of equal work: products, logits, and the described forward pass."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.tasks.causal_lm import llama_reference, reference
from trainmark.tasks.equal_work import (
    SMOOTH,
    TOLERANCES,
    Deviation,
    EqualWork,
    Forward,
    Range,
    apart,
    check,
    common_range,
    reached,
    relative,
    worst,
)
from trainmark.words.certificate import Check, Subject
from trainmark.words.observation import Followed, Observation, ObservedStep, Sketch, Told
from trainmark.worker.core.settings import AdamRecipe
from trainmark.worker.tasks.causal_lm.architectures import ARCHITECTURES, Gpt, Llama, is_norm

BATCH, LENGTH, PARTS = 4, 48, 2

SEED = 0

FAR = np.float32(3)
"""By what two rows before an activation are larger than the others."""


class SeenProduct(Told):
    """A product as the framework has it; ``output`` is (batch, length, outputs)."""

    name: str
    inputs: int
    outputs: int
    bias: bool
    output: tuple[int, int, int]
    norm: float
    signed_sum: float

    @property
    def sketch(self) -> Sketch:
        """What came out of it."""
        return Sketch(norm=self.norm, signed_sum=self.signed_sum)


class LanguageStep(ObservedStep):
    """A step that was looked into."""

    logits: Sketch


class LanguageObservation(Observation):
    """Three steps of a language model, with its products in forward order."""

    sequence_length: int
    accumulation: int
    products: tuple[SeenProduct, ...]
    steps: tuple[LanguageStep, ...]


class LanguageEqualWork(EqualWork):
    """Inputs and checks of a row of attention and perceptrons."""

    batch = BATCH
    shape: Mapping[str, int] = {"sequence_length": LENGTH}
    # A step and a half: two steps of warm-up, then the first step of the cosine (rates 1/2, 1 and 3/4).
    epoch = BATCH * 3 // 2
    # The rate is large, so that gradients change from step to step and both momenta show; epsilon is not small beside
    # the gradients, so that an element that is only rounding does not move by the whole rate in a direction of its own.
    recipe = AdamRecipe(
        learning_rate=0.02,
        momentum=0.9,
        weight_decay=0.1,
        schedule="cosine",
        epochs=2,
        warmup_epochs=1,
        loss_scale=None,
        optimizer="adamw",
        second_momentum=0.95,
        epsilon=1e-3,
        clip_norm=None,
        warmup_updates=0,
    )
    observation = LanguageObservation

    def flags(self) -> Mapping[str, object]:
        """Return length, accumulation, the optimizer's constants, and the length of an epoch."""
        return {
            "sequence-length": LENGTH,
            "accumulation": PARTS,
            "second-momentum": self.recipe.second_momentum,
            "epsilon": self.recipe.epsilon,
            # As the gradients are, from the first step: Llama's own recipe clips them, and lets the rate rise.
            "clip-norm": 0,
            "warmup-updates": self.recipe.warmup_updates,
            "epoch-sequences": self.epoch,
        }

    def inputs(self, model: str, seed: int = SEED) -> dict[str, NDArray[np.generic]]:
        """Return weights by the names of ``Decoder.shapes``, and ``tokens`` (4, 49).

        Products are normal with variance 2 / inputs: what goes into GELU is then of a size at which its forms differ.
        Two rows before each activation go far to both sides (``with_far_rows``).
        The weights of the norms are near 1 and not 1. The embeddings have a deviation of 0.3: logits of a few units.
        """
        random = np.random.default_rng([seed, *model.encode()])
        arrays: dict[str, NDArray[np.generic]] = {}
        for name, shape in ARCHITECTURES[model].shapes().items():
            noise = random.standard_normal(shape, np.float32)
            if is_norm(name):
                arrays[name] = 1 + np.float32(0.1) * np.tanh(noise)
            else:
                size = 0.3 if name.startswith("embedding") else math.sqrt(2 / shape[1])
                arrays[name] = noise * np.float32(size)
            if name.endswith((".mlp.up.weight", ".mlp.gate.weight")):
                with_far_rows(arrays[name])
        arrays["tokens"] = random.integers(ARCHITECTURES[model].vocabulary, size=(BATCH, LENGTH + 1))
        return arrays

    def parameters(self, seen: Observation) -> int:
        """Return the parameters of the described model, with one matrix for embedding and classifier."""
        return ARCHITECTURES[seen.model].parameters()

    def multiply_adds(self, seen: Observation) -> int:
        """Return those of the products, of attention and of the classifier, for one sequence."""
        own, model = _own(seen), ARCHITECTURES[seen.model]
        products = sum(product.output[1] * product.inputs * product.outputs for product in own.products)
        length = own.sequence_length
        return products + length * (
            model.vocabulary * model.width + 2 * model.layers * length * model.attended_width
        )

    def decay(self, name: str) -> float:
        """Return the recipe's decay; none for a norm's weight."""
        return 0.0 if is_norm(name) else self.recipe.weight_decay

    def described(self, seen: Observation) -> Iterable[Check]:
        """Yield what the products are, and whether the first forward pass is the described one."""
        own, model = _own(seen), ARCHITECTURES[seen.model]
        yield _layers(own)
        off = abs(self.multiply_adds(seen) - model.multiply_adds(own.sequence_length))
        yield check(Subject.MULTIPLY_ADDS, (off, None))
        yield reached(_activated(seen.model), lambda _name: SMOOTH)
        forms: Any = llama_reference if isinstance(model, Llama) else reference
        yield from as_described(own, lambda form: _forward(seen.model, form), forms.DESCRIBED, forms.OTHERS)

    def reach(self, seen: Observation) -> Range | None:
        """Return the highest of the lowest, and the lowest of the highest inputs of the described activations."""
        return common_range(_activated(seen.model))

    def forward(self, one: Observation, other: Observation) -> Iterable[Check]:
        """Return what the products gave, and the logits."""
        return passes(_own(one), _own(other))


def _own(seen: Followed) -> LanguageObservation:
    assert isinstance(seen, LanguageObservation)
    return seen


@cache
def _forward(model: str, form: Any) -> Forward:
    described, weights = ARCHITECTURES[model], LanguageEqualWork().inputs(model)
    if isinstance(described, Llama):
        return llama_reference.forward(described, weights, form)
    assert isinstance(described, Gpt)
    return reference.forward(described, weights, form)


def with_far_rows(weight: NDArray[np.generic]) -> None:
    """Make the first two rows of a product long and opposite: what a bounded activation cuts off is then there."""
    weight[0] *= FAR
    weight[1] = -weight[0]


def _activated(model: str) -> Mapping[str, Range]:
    forms: Any = llama_reference if isinstance(ARCHITECTURES[model], Llama) else reference
    return _forward(model, forms.DESCRIBED).activated


def _layers(seen: LanguageObservation) -> Check:
    if seen.accumulation != PARTS:
        parts = f"the batch was passed in {seen.accumulation} parts and not in {PARTS}"
        return check(Subject.LAYERS, (1, None), parts)
    described = ARCHITECTURES[seen.model].products()
    return layers(seen.products, {name: (shape, False, LENGTH) for name, shape in described.items()})


def layers(seen: Sequence[SeenProduct], described: Mapping[str, tuple[tuple[int, int], bool, int]]) -> Check:
    """Return whether the products are those described: (outputs, inputs), whether biased, and of how many positions."""
    if [product.name for product in seen] != list(described):
        return check(Subject.LAYERS, (1, None), "the products are not those of the description")

    def differs(product: SeenProduct) -> bool:
        (outputs, inputs), biased, length = described[product.name]
        own = (product.outputs, product.inputs, product.bias, product.output)
        return own != (outputs, inputs, biased, (BATCH, length, outputs))

    wrong = [product for product in seen if differs(product)]
    if not wrong:
        return check(Subject.LAYERS, (0, None))
    first = wrong[0]
    shape = f"{first.inputs} to {first.outputs}{' with a bias' if first.bias else ''}, gave {first.output}"
    return check(Subject.LAYERS, (len(wrong), first.name), shape)


def as_described(
    seen: LanguageObservation, pass_of: Callable[[Any], Forward], described: Any, others: Mapping[str, Any]
) -> list[Check]:
    """Return whether the first forward pass is the described one; where not, with the words of the form that it is."""
    checks = _against(seen, pass_of(described))
    if all(found.holds for found in checks):
        return checks
    fitting = (
        words for words, form in others.items() if all(found.holds for found in _against(seen, pass_of(form)))
    )
    remark = next(fitting, None)
    return [found.model_copy(update={"remark": remark}) for found in checks]


def _against(seen: LanguageObservation, described: Forward) -> list[Check]:
    first = seen.steps[0]
    return [
        check(Subject.ACTIVATIONS, _activations(_of(seen), described.products)),
        check(Subject.LOGITS, (apart(first.logits, described.logits), "step 0")),
        check(Subject.LOSS, (relative(first.loss, described.loss), "step 0")),
    ]


def passes(one: LanguageObservation, other: LanguageObservation) -> Iterable[Check]:
    """Yield what the products of two frameworks gave, and the logits."""
    yield check(Subject.ACTIVATIONS, _activations(_of(one), _of(other)))
    steps = enumerate(zip(one.steps, other.steps, strict=True))
    yield check(Subject.LOGITS, worst((apart(a.logits, b.logits), f"step {i}") for i, (a, b) in steps))


def _of(seen: LanguageObservation) -> Mapping[str, Sketch]:
    return {product.name: product.sketch for product in seen.products}


def _activations(one: Mapping[str, Sketch], other: Mapping[str, Sketch]) -> Deviation:
    """Return the first product whose output is off by more than the tolerance, or else the worst."""
    if list(one) != list(other):
        return math.inf, "other products"
    found = [(apart(one[name], sketch), name) for name, sketch in other.items()]
    return next((pair for pair in found if not pair[0] <= TOLERANCES[Subject.ACTIVATIONS]), worst(found))
