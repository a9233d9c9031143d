"""The language task's part of the check of equal work: products, logits, and the described forward pass."""

import math
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.schema.certificate import Check, Subject
from trainmark.schema.observation import Followed, Observation, Sketch
from trainmark.tasks.causal_lm import llama_reference, reference
from trainmark.tasks.equal_work import (
    SMOOTH,
    EqualWork,
    Forward,
    Range,
    check,
    common_range,
    form_of,
    reached,
    sizes,
)
from trainmark.tasks.products import (
    ADAM_OF_THE_CHECK,
    Described,
    ProductsObservation,
    as_described,
    layers,
    passes,
)
from trainmark.worker.core.settings import ADAMW, AdamRecipe
from trainmark.worker.tasks.causal_lm.architectures import ARCHITECTURES, Gpt, Llama, is_norm
from trainmark.worker.tasks.causal_lm.packing import DOCUMENTS, NO_PACKING, number

BATCH, LENGTH, PARTS = 4, 48, 2

SEED = 0

PACKED = [[20, 9, 15], [49], [2, 30, 17], [12, 12, 12, 12]]
"""The lengths of the documents in each sequence: of a packed batch, two sequences end in padding."""

FAR = np.float32(3)
"""The factor by which two rows before an activation are larger than the others."""


class LanguageObservation(ProductsObservation):
    """Three steps of a language model, with its products in forward order."""

    sequence_length: int
    accumulation: int
    packed: bool = False


class LanguageEqualWork(EqualWork):
    """Inputs and checks of a decoder of attention and perceptron layers."""

    batch = BATCH
    shape: Mapping[str, int] = {"sequence_length": LENGTH}
    # A step and a half: two steps of warm-up, then the first step of the cosine (rates 1/2, 1 and 3/4).
    epoch = BATCH * 3 // 2
    recipe = AdamRecipe(**ADAM_OF_THE_CHECK, optimizer=ADAMW)
    observation = LanguageObservation

    def __init__(self, packing: str = NO_PACKING) -> None:
        """Set what sequences contain: ``documents``, or a cut of one stream of tokens."""
        self._packed = packing == DOCUMENTS

    def of(self, _model: str, rules: Mapping[str, str]) -> "LanguageEqualWork":
        """Return the part for the packing in ``rules``."""
        return LanguageEqualWork(rules.get("packing", NO_PACKING))

    def flags(self) -> Mapping[str, object]:
        """Return length, accumulation, the optimizer's constants, and the length of an epoch, as flags."""
        return {
            "sequence-length": LENGTH,
            "accumulation": PARTS,
            "second-momentum": self.recipe.second_momentum,
            "epsilon": self.recipe.epsilon,
            # As the gradients are, from the first step: Llama's own recipe clips them, and lets the rate rise.
            "clip-norm": 0,
            "warmup-updates": self.recipe.warmup_updates,
            "epoch-sequences": self.epoch,
            **({"packing": DOCUMENTS} if self._packed else {}),
        }

    def form(self, model: str) -> str:
        """Return the reduced form of a large model."""
        return form_of(model, ARCHITECTURES)

    def reduction(self, model: str) -> str:
        """Return the sizes of the reduced form of a large model."""
        return sizes(ARCHITECTURES[self.form(model)]) if self.form(model) != model else ""

    def inputs(self, model: str, seed: int = SEED) -> dict[str, NDArray[np.generic]]:
        """Return weights by the names of ``Decoder.shapes``, and ``tokens`` (4, 49), if packed with ``documents``.

        Products are normal with variance 2 / inputs, so that the inputs of GELU have a size at which its forms differ.
        Two rows before each activation reach far to both sides (``with_far_rows``).
        The weights of the norms are near 1, but not equal to 1. The embeddings have a standard deviation of 0.3, which
        gives logits of a few units.
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
        if self._packed:
            arrays["documents"] = number(PACKED, LENGTH)
        return arrays

    def parameters(self, observed: Observation) -> int:
        """Return the parameters of the described model, with one matrix for embedding and classifier."""
        return ARCHITECTURES[observed.model].parameters()

    def known_additions(self, observed: Observation) -> Mapping[int, str]:
        """Return the number of extra parameters if the classifier is another matrix than the embedding."""
        model = ARCHITECTURES[observed.model]
        return untied(model.vocabulary, model.width)

    def multiply_adds(self, observed: Observation) -> int:
        """Return the multiply-adds of the products, of attention and of the classifier, for one sequence."""
        own, model = _own(observed), ARCHITECTURES[observed.model]
        products = sum(product.output[1] * product.inputs * product.outputs for product in own.products)
        length = own.sequence_length
        return products + length * (
            model.vocabulary * model.width + 2 * model.layers * length * model.attended_width
        )

    def decay(self, name: str) -> float:
        """Return the recipe's weight decay; 0 for a norm's weight."""
        return 0.0 if is_norm(name) else self.recipe.weight_decay

    def described(self, observed: Observation) -> Iterable[Check]:
        """Yield the checks of the products and of the first forward pass against the description."""
        own, model = _own(observed), ARCHITECTURES[observed.model]
        yield _layers(own)
        off = abs(self.multiply_adds(observed) - model.multiply_adds(own.sequence_length))
        yield check(Subject.MULTIPLY_ADDS, (off, None))
        yield reached(_activated(observed.model, self._packed), lambda _name: SMOOTH)
        forms: Any = llama_reference if isinstance(model, Llama) else reference
        yield from as_described(
            own, lambda form: _forward(observed.model, form, self._packed), forms.DESCRIBED, forms.OTHERS
        )

    def reach(self, observed: Observation) -> Range | None:
        """Return the range that the inputs of every described activation cover."""
        return common_range(_activated(observed.model, self._packed))

    def outputs(self, observed: Observation) -> Mapping[str, Sketch]:
        """Return the sketch of each product's output in the first step."""
        return {product.name: product.sketch for product in _own(observed).products}

    def logits(self, observed: Observation) -> Sketch:
        """Return the sketch of the logits in the first step."""
        return _own(observed).steps[0].logits

    def forward(self, one: Observation, other: Observation) -> Iterable[Check]:
        """Yield the checks of the products' outputs and of the logits."""
        return passes(_own(one), _own(other))


def _own(observed: Followed) -> LanguageObservation:
    assert isinstance(observed, LanguageObservation)
    return observed


@cache
def _forward(model: str, form: Any, packed: bool) -> Forward:
    described, weights = (
        ARCHITECTURES[model],
        LanguageEqualWork(DOCUMENTS if packed else NO_PACKING).inputs(model),
    )
    if isinstance(described, Llama):
        return llama_reference.forward(described, weights, form)
    assert isinstance(described, Gpt)
    return reference.forward(described, weights, form)


def with_far_rows(weight: NDArray[np.generic]) -> None:
    """Make the first two rows of a product long and opposite, so that a bounded activation would cut values off."""
    weight[0] *= FAR
    weight[1] = -weight[0]


def untied(vocabulary: int, width: int) -> Mapping[int, str]:
    """Return the number of extra parameters of untied weights, with a description."""
    words = f"as many as a separate classifier of {vocabulary:,} x {width:,} (not tied to the embedding)"
    return {vocabulary * width: words}


def of_text(shape: tuple[int, int], biased: bool, length: int) -> Described:
    """Return a product of ``shape`` (outputs, inputs) that is applied at ``length`` places of each sequence."""
    return shape, biased, (BATCH, length, shape[0])


def _activated(model: str, packed: bool) -> Mapping[str, Range]:
    forms: Any = llama_reference if isinstance(ARCHITECTURES[model], Llama) else reference
    return _forward(model, forms.DESCRIBED, packed).activated


def _layers(observed: LanguageObservation) -> Check:
    if observed.accumulation != PARTS:
        parts = f"the batch was passed in {observed.accumulation} parts instead of {PARTS}"
        return check(Subject.LAYERS, (1, None), parts)
    described = ARCHITECTURES[observed.model].products()
    return layers(
        observed.products, {name: of_text(shape, False, LENGTH) for name, shape in described.items()}
    )
