"""The part of masked language modelling in the check of equal work."""

import math
from collections.abc import Iterable, Mapping
from functools import cache

import numpy as np
from numpy.typing import NDArray

from trainmark.schema.certificate import Check, Subject
from trainmark.schema.observation import Followed, Observation, Sketch
from trainmark.tasks.causal_lm.equal_work import (
    BATCH,
    PARTS,
    LanguageObservation,
    of_text,
    untied,
    with_far_rows,
)
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
from trainmark.tasks.masked_lm.reference import DESCRIBED, NOT_MASKED, OTHERS, Form, forward
from trainmark.tasks.products import ADAM_OF_THE_CHECK, as_described, layers, passes
from trainmark.worker.core.settings import ADAMW
from trainmark.worker.tasks.masked_lm.architectures import ARCHITECTURES, decays
from trainmark.worker.tasks.masked_lm.task import INPUTS, MaskedRecipe, made_up_lengths, padded

LENGTH, PREDICTIONS, PADDING = 48, 8, 25

CLIP_NORM = 0.5
"""Shorter than the gradients of all three steps, so that clipping shows with the check's epsilon."""


FAR_ROWS = ("words.transform.weight",)

TANH: Range = (-2.0, 2.0)
"""The interval in which the pooler's activation bends."""


class MaskedObservation(LanguageObservation):
    """Three steps of BERT, with its products in forward order."""

    predictions: int
    padded: bool = False


class MaskedEqualWork(EqualWork):
    """Inputs and checks of BERT with both heads of its pre-training; without dropout, which cannot be made equal."""

    batch = BATCH
    shape: Mapping[str, int] = {"sequence_length": LENGTH, "predictions": PREDICTIONS}
    # As for causal language modelling: a rise, the full rate, and the first step of the cosine.
    epoch = BATCH * 3 // 2
    recipe: MaskedRecipe
    observation = MaskedObservation

    def __init__(self, optimizer: str = ADAMW) -> None:
        """Set the recipe; with LAMB, the rate is the relative change of each parameter that decays."""
        constants = {**ADAM_OF_THE_CHECK, "clip_norm": CLIP_NORM}
        self.recipe = MaskedRecipe(**constants, optimizer=optimizer, dropout=0.0)

    def of(self, _model: str, rules: Mapping[str, str]) -> "MaskedEqualWork":
        """Return the part for the optimizer in ``rules``, AdamW or LAMB."""
        return MaskedEqualWork(rules.get("optimizer", ADAMW))

    def flags(self) -> Mapping[str, object]:
        """Return lengths, accumulation, the optimizer and its constants, and the length of an epoch."""
        recipe = self.recipe
        return {
            "sequence-length": LENGTH,
            "predictions": PREDICTIONS,
            "padding": PADDING,
            "accumulation": PARTS,
            "optimizer": recipe.optimizer,
            "second-momentum": recipe.second_momentum,
            "epsilon": recipe.epsilon,
            "clip-norm": recipe.clip_norm,
            "warmup-updates": recipe.warmup_updates,
            "dropout": recipe.dropout,
            "epoch-sequences": self.epoch,
        }

    def form(self, model: str) -> str:
        """Return the reduced form of a large model."""
        return form_of(model, ARCHITECTURES)

    def reduction(self, model: str) -> str:
        """Return the sizes of the reduced form of a large model."""
        return sizes(ARCHITECTURES[self.form(model)]) if self.form(model) != model else ""

    def inputs(self, model: str, seed: int = 0) -> dict[str, NDArray[np.generic]]:
        """Return weights by the names of ``Bert.shapes``, and the batch.

        As for causal language modelling; biases are near 0, but not equal to 0. A quarter of the tokens is padding, and
        shorter sequences have places without a word.
        """
        random = np.random.default_rng([seed, *model.encode()])
        described = ARCHITECTURES[model]
        arrays: dict[str, NDArray[np.generic]] = {}
        for name, shape in described.shapes().items():
            noise = random.standard_normal(shape, np.float32)
            if name.endswith("norm.weight"):
                arrays[name] = 1 + np.float32(0.1) * np.tanh(noise)
            elif len(shape) == 1:
                arrays[name] = np.float32(0.1) * noise
            else:
                size = 0.3 if name.startswith("embedding") else math.sqrt(2 / shape[1])
                arrays[name] = noise * np.float32(size)
            if name in FAR_ROWS or name.endswith(".mlp.up.weight"):
                with_far_rows(arrays[name])
        tokens = random.integers(described.vocabulary, size=(BATCH, LENGTH))
        segments = random.integers(2, size=(BATCH, LENGTH))
        places = random.random((BATCH, LENGTH)).argsort(axis=1)[:, :PREDICTIONS]
        words = random.integers(described.vocabulary, size=(BATCH, PREDICTIONS))
        follows = random.integers(2, size=BATCH)
        lengths = np.array(made_up_lengths(BATCH, LENGTH, PADDING))
        batch = padded((tokens, segments, lengths, places, words, follows), random)
        return {**arrays, **dict(zip(INPUTS, batch, strict=True))}

    def parameters(self, observed: Observation) -> int:
        """Return the parameters of the described model, with one matrix for embedding and classifier."""
        return ARCHITECTURES[observed.model].parameters()

    def known_additions(self, observed: Observation) -> Mapping[int, str]:
        """Return the number of extra parameters if the classifier is another matrix than the embedding."""
        model = ARCHITECTURES[observed.model]
        return untied(model.vocabulary, model.width)

    def multiply_adds(self, observed: Observation) -> int:
        """Return the multiply-adds of the products, of attention and of the words' classifier, for one sequence."""
        own, model = _own(observed), ARCHITECTURES[observed.model]
        products = sum(product.output[1] * product.inputs * product.outputs for product in own.products)
        attention = 2 * model.layers * own.sequence_length**2 * model.width
        return products + attention + own.predictions * model.vocabulary * model.width

    def decay(self, name: str) -> float:
        """Return the recipe's weight decay; 0 for biases and norms."""
        return self.recipe.weight_decay if decays(name) else 0.0

    def described(self, observed: Observation) -> Iterable[Check]:
        """Yield the checks of the products and of the first forward pass against the description."""
        own, model = _own(observed), ARCHITECTURES[observed.model]
        yield _layers(own)
        off = abs(self.multiply_adds(observed) - model.multiply_adds(LENGTH, PREDICTIONS))
        yield check(Subject.MULTIPLY_ADDS, (off, None))
        described = _described(own)
        yield reached(_forward(observed.model, described).activated, _bounds)
        yield from as_described(own, lambda form: _forward(observed.model, form), described, OTHERS)

    def reach(self, observed: Observation) -> Range | None:
        """Return the range that the inputs of every described activation cover."""
        return common_range(_forward(observed.model, _described(_own(observed))).activated)

    def outputs(self, observed: Observation) -> Mapping[str, Sketch]:
        """Return the sketch of each product's output in the first step."""
        return {product.name: product.sketch for product in _own(observed).products}

    def logits(self, observed: Observation) -> Sketch:
        """Return the sketch of the logits in the first step."""
        return _own(observed).steps[0].logits

    def forward(self, one: Observation, other: Observation) -> Iterable[Check]:
        """Yield the checks of the products' outputs and of the words' logits."""
        return passes(_own(one), _own(other))


def _own(observed: Followed) -> MaskedObservation:
    assert isinstance(observed, MaskedObservation)
    return observed


def _described(observed: MaskedObservation) -> Form:
    # Without padding nothing is masked, regardless of the lengths of the inputs.
    return DESCRIBED if observed.padded else NOT_MASKED


def _bounds(product: str) -> Range:
    return TANH if product == "pooler" else SMOOTH


@cache
def _forward(model: str, form: Form) -> Forward:
    return forward(ARCHITECTURES[model], MaskedEqualWork().inputs(model), form)


def _layers(observed: MaskedObservation) -> Check:
    if observed.accumulation != PARTS:
        parts = f"the batch was passed in {observed.accumulation} parts instead of {PARTS}"
        return check(Subject.LAYERS, (1, None), parts)
    lengths = {"words.transform": PREDICTIONS, "pooler": 1, "sentences": 1}
    described = ARCHITECTURES[observed.model].products()
    expected = {name: of_text(shape, True, lengths.get(name, LENGTH)) for name, shape in described.items()}
    return layers(observed.products, expected)
