"""The part of masked language modelling in the check of equal work."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.schema.observation import Observation
from trainmark.tasks.causal_lm.equal_work import BATCH, PARTS, LanguageObservation, TextEqualWork
from trainmark.tasks.equal_work import Forward, Range
from trainmark.tasks.masked_lm.reference import DESCRIBED, NOT_MASKED, OTHERS, Form, forward
from trainmark.tasks.products import ADAM_OF_THE_CHECK, Described
from trainmark.worker.core.settings import ADAMW
from trainmark.worker.tasks.masked_lm.architectures import ARCHITECTURES
from trainmark.worker.tasks.masked_lm.task import INPUTS, MaskedRecipe, made_up_lengths, padded

LENGTH, PREDICTIONS, PADDING = 48, 8, 25

CLIP_NORM = 0.5
"""Shorter than the gradients of all three steps, so that clipping shows with the check's epsilon."""

TANH: Range = (-2.0, 2.0)
"""The interval in which the pooler's activation bends."""


class MaskedObservation(LanguageObservation):
    """Three steps of BERT, with its products in forward order."""

    predictions: int
    padded: bool = False


class MaskedEqualWork(TextEqualWork[MaskedObservation]):
    """Inputs and checks of BERT with both heads of its pre-training; without dropout, which cannot be made equal."""

    shape: Mapping[str, int] = {"sequence_length": LENGTH, "predictions": PREDICTIONS}
    recipe: MaskedRecipe
    observation = MaskedObservation
    architectures = ARCHITECTURES

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

    def inputs(self, model: str, seed: int = 0) -> dict[str, NDArray[np.generic]]:
        """Return weights by the names of ``Bert.shapes``, and the batch.

        A quarter of the tokens is padding, and shorter sequences have places without a word.
        """
        random = np.random.default_rng([seed, *model.encode()])
        arrays, described = self.weights(random, model), ARCHITECTURES[model]
        tokens = random.integers(described.vocabulary, size=(BATCH, LENGTH))
        segments = random.integers(2, size=(BATCH, LENGTH))
        places = random.random((BATCH, LENGTH)).argsort(axis=1)[:, :PREDICTIONS]
        words = random.integers(described.vocabulary, size=(BATCH, PREDICTIONS))
        follows = random.integers(2, size=BATCH)
        lengths = np.array(made_up_lengths(BATCH, LENGTH, PADDING))
        batch = padded((tokens, segments, lengths, places, words, follows), random)
        return {**arrays, **dict(zip(INPUTS, batch, strict=True))}

    def products(self, model: str) -> Mapping[str, Described]:
        """Return the described products: (outputs, inputs), whether with a bias, and the shape of the output."""
        lengths = {"words.transform": PREDICTIONS, "pooler": 1, "sentences": 1}
        shapes = ARCHITECTURES[model].products()
        return {
            name: (shape, True, (BATCH, lengths.get(name, LENGTH), shape[0]))
            for name, shape in shapes.items()
        }

    def multiply_adds(self, observed: Observation) -> int:
        """Return the multiply-adds of the products, of attention and of the words' classifier, for one sequence."""
        own, model = self.own(observed), ARCHITECTURES[observed.model]
        products = sum(product.output[1] * product.inputs * product.outputs for product in own.products)
        attention = 2 * model.layers * own.sequence_length**2 * model.width
        return products + attention + own.predictions * model.vocabulary * model.width

    def described_multiply_adds(self, model: str) -> int:
        """Return those of the description."""
        return ARCHITECTURES[model].multiply_adds(LENGTH, PREDICTIONS)

    def decays(self, name: str) -> bool:
        """Return whether it is no bias and no norm's weight."""
        return not name.endswith((".bias", "norm.weight"))

    def forms(self, observed: MaskedObservation) -> tuple[Form, Mapping[str, Form]]:
        """Return the form of the reference that is described, and its known variants."""
        # Without padding nothing is masked, regardless of the lengths of the inputs.
        return (DESCRIBED if observed.padded else NOT_MASKED), OTHERS

    def pass_of(self, model: str, form: Any) -> Forward:
        """Return the forward pass of the inputs, computed once."""
        return _forward(model, form)

    def bounds(self, product: str) -> Range:
        """Return the interval in which its activation bends."""
        return TANH if product == "pooler" else super().bounds(product)


@cache
def _forward(model: str, form: Form) -> Forward:
    return forward(ARCHITECTURES[model], MaskedEqualWork().inputs(model), form)
