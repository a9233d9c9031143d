"""The language task's part of the check of equal work: products, logits, and the described forward pass."""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from trainmark.schema.certificate import Check, Subject
from trainmark.schema.observation import Observation
from trainmark.tasks.causal_lm import llama_reference, reference
from trainmark.tasks.equal_work import REDUCED, Forward, check
from trainmark.tasks.products import ADAM_OF_THE_CHECK, Described, ProductsEqualWork, ProductsObservation
from trainmark.worker.core.settings import ADAMW, AdamRecipe
from trainmark.worker.tasks.causal_lm.architectures import ARCHITECTURES, Gpt, Llama, is_norm
from trainmark.worker.tasks.causal_lm.packing import DOCUMENTS, NO_PACKING, number

BATCH, LENGTH, PARTS = 4, 48, 2

SEED = 0

PACKED = [[20, 9, 15], [49], [2, 30, 17], [12, 12, 12, 12]]
"""The lengths of the documents in each sequence: of a packed batch, two sequences end in padding."""

BEFORE_ACTIVATIONS = (".mlp.up.weight", ".mlp.gate.weight", "words.transform.weight")
"""The products before an activation that is not bounded."""

FAR = np.float32(3)
"""The factor by which two rows before an activation are larger than the others."""


class LanguageObservation(ProductsObservation):
    """Three steps of a language model, with its products in forward order."""

    sequence_length: int
    accumulation: int
    packed: bool = False


Own = TypeVar("Own", bound=LanguageObservation)


class TextEqualWork(ProductsEqualWork[Own]):
    """Common part of the checks of language models: a batch that is passed in parts, tied embeddings, reduced forms."""

    batch = BATCH
    # A step and a half: two steps of warm-up, then the first step of the cosine (rates 1/2, 1 and 3/4).
    epoch = BATCH * 3 // 2
    architectures: Mapping[str, Any]
    """The described models and their reduced forms, by name."""

    def form(self, model: str) -> str:
        """Return the reduced form of a large model."""
        reduced = f"{model}{REDUCED}"
        return reduced if reduced in self.architectures else model

    def reduction(self, model: str) -> str:
        """Return the sizes of the reduced form of a large model."""
        if self.form(model) == model:
            return ""
        form = self.architectures[self.form(model)]
        return f"{form.layers} layers, {form.heads} heads, width {form.width}, vocabulary {form.vocabulary:,}"

    def weights(self, random: np.random.Generator, model: str) -> dict[str, NDArray[np.generic]]:
        """Return weights by the shared names, drawn from ``random``.

        Products are normal with variance 2 / inputs, so that the inputs of GELU have a size at which its forms differ.
        Two rows before each activation are long and opposite, so that a bounded activation would cut values off. The
        weights of the norms are near 1, and biases near 0, but not equal to it. The embeddings have a standard
        deviation of 0.3, which gives logits of a few units.
        """
        arrays: dict[str, NDArray[np.generic]] = {}
        for name, shape in self.architectures[model].shapes().items():
            noise = random.standard_normal(shape, np.float32)
            if name.endswith("norm.weight"):
                arrays[name] = 1 + np.float32(0.1) * np.tanh(noise)
            elif len(shape) == 1:
                arrays[name] = np.float32(0.1) * noise
            else:
                size = 0.3 if name.startswith("embedding") else math.sqrt(2 / shape[1])
                arrays[name] = noise * np.float32(size)
            if name.endswith(BEFORE_ACTIVATIONS):
                arrays[name][0] *= FAR
                arrays[name][1] = -arrays[name][0]
        return arrays

    def parameters(self, observed: Observation) -> int:
        """Return the parameters of the described model, with one matrix for embedding and classifier."""
        return int(self.architectures[observed.model].parameters())

    def known_additions(self, observed: Observation) -> Mapping[int, str]:
        """Return the number of extra parameters if the classifier is another matrix than the embedding."""
        model = self.architectures[observed.model]
        size = f"{model.vocabulary:,} x {model.width:,}"
        words = f"as many as a separate classifier of {size} (not tied to the embedding)"
        return {model.vocabulary * model.width: words}

    def layers(self, observed: Own) -> Check:
        """Return the check that the products match the description, and that the batch was passed in parts."""
        if observed.accumulation != PARTS:
            parts = f"the batch was passed in {observed.accumulation} parts instead of {PARTS}"
            return check(Subject.LAYERS, (1, None), parts)
        return super().layers(observed)


class LanguageEqualWork(TextEqualWork[LanguageObservation]):
    """Inputs and checks of a decoder of attention and perceptron layers."""

    shape: Mapping[str, int] = {"sequence_length": LENGTH}
    recipe = AdamRecipe(**ADAM_OF_THE_CHECK, optimizer=ADAMW)
    observation = LanguageObservation
    architectures = ARCHITECTURES

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

    def inputs(self, model: str, seed: int = SEED) -> dict[str, NDArray[np.generic]]:
        """Return weights by the names of ``Decoder.shapes``, and ``tokens`` (4, 49), if packed with ``documents``."""
        random = np.random.default_rng([seed, *model.encode()])
        arrays = self.weights(random, model)
        arrays["tokens"] = random.integers(ARCHITECTURES[model].vocabulary, size=(BATCH, LENGTH + 1))
        if self._packed:
            arrays["documents"] = number(PACKED, LENGTH)
        return arrays

    def products(self, model: str) -> Mapping[str, Described]:
        """Return the described products: (outputs, inputs), whether with a bias, and the shape of the output."""
        shapes = ARCHITECTURES[model].products()
        return {name: (shape, False, (BATCH, LENGTH, shape[0])) for name, shape in shapes.items()}

    def multiply_adds(self, observed: Observation) -> int:
        """Return the multiply-adds of the products, of attention and of the classifier, for one sequence."""
        own, model = self.own(observed), ARCHITECTURES[observed.model]
        products = sum(product.output[1] * product.inputs * product.outputs for product in own.products)
        length = own.sequence_length
        return products + length * (
            model.vocabulary * model.width + 2 * model.layers * length * model.attended_width
        )

    def described_multiply_adds(self, model: str) -> int:
        """Return those of the description."""
        return ARCHITECTURES[model].operations(LENGTH, LENGTH**2)["counted"] // 6

    def decays(self, name: str) -> bool:
        """Return whether it is no norm's weight."""
        return not is_norm(name)

    def forms(self, observed: LanguageObservation) -> tuple[Any, Mapping[str, Any]]:
        """Return the form of the reference that is described, and its known variants."""
        if isinstance(ARCHITECTURES[observed.model], Llama):
            return llama_reference.DESCRIBED, llama_reference.OTHERS
        return reference.DESCRIBED, reference.OTHERS

    def pass_of(self, model: str, form: Any) -> Forward:
        """Return the forward pass of the inputs, computed once."""
        return _forward(model, form, self._packed)


@cache
def _forward(model: str, form: Any, packed: bool) -> Forward:
    described = ARCHITECTURES[model]
    weights = LanguageEqualWork(DOCUMENTS if packed else NO_PACKING).inputs(model)
    if isinstance(described, Llama):
        return llama_reference.forward(described, weights, form)
    assert isinstance(described, Gpt)
    return reference.forward(described, weights, form)
