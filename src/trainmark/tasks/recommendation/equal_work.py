"""The recommendation task's part of the check of equal work: products, logits, and the described forward pass."""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.schema.observation import Observation
from trainmark.tasks.equal_work import RECTIFIER, Forward, Range
from trainmark.tasks.products import ADAM_OF_THE_CHECK, Described, ProductsEqualWork, ProductsObservation
from trainmark.tasks.recommendation.reference import DESCRIBED, OTHER_DLRMS, OTHERS, Form, forward
from trainmark.worker.core.settings import ADAM, Recipe
from trainmark.worker.tasks.recommendation.architectures import ARCHITECTURES, DENSE, PAIRS, Dlrm, Recommender
from trainmark.worker.tasks.recommendation.records import made_up
from trainmark.worker.tasks.recommendation.settings import ClickRecipe, DescentRecipe

BATCH, VOCABULARY, EMBEDDING_WIDTH = 32, 1000, 16

FAR = np.float32(8)
"""The first bias before each activation, above the bound of a bounded one (ReLU6)."""


class ClickObservation(ProductsObservation):
    """Three steps of a recommender, with its products in forward order."""

    vocabulary: int
    embedding_width: int


class ClickEqualWork(ProductsEqualWork[ClickObservation]):
    """Inputs and checks of embedding tables and layers; without dropout, which cannot be made equal.

    The tables are small, because a row is processed in the same way in a large table.
    """

    table = 1.0
    batch = BATCH
    shape: Mapping[str, int] = {"vocabulary": VOCABULARY, "embedding_width": EMBEDDING_WIDTH}
    # A step and a half: two steps of warm-up, then the first step of the cosine (rates 1/2, 1 and 3/4).
    epoch = BATCH * 3 // 2
    recipe: Recipe = ClickRecipe(
        **{**ADAM_OF_THE_CHECK, "learning_rate": 0.01, "weight_decay": 0.0},
        optimizer=ADAM,
        dropout=0.0,
    )
    observation = ClickObservation

    def of(self, model: str, _rules: Mapping[str, str]) -> "ClickEqualWork":
        """Return the part for DLRM's models, or this one."""
        return DlrmEqualWork() if isinstance(ARCHITECTURES[model], Dlrm) else self

    def flags(self) -> Mapping[str, object]:
        """Return the sizes of the tables, the optimizer's constants, and the length of an epoch."""
        own = vars(self.recipe)
        return {
            "vocabulary": VOCABULARY,
            "embedding-width": EMBEDDING_WIDTH,
            **{name.replace("_", "-"): own[name] for name in ("second_momentum", "epsilon") if name in own},
            "dropout": own["dropout"],
            "epoch-samples": self.epoch,
        }

    def inputs(self, model: str, seed: int = 0) -> dict[str, NDArray[np.generic]]:
        """Return weights by the names of ``WideDeep.shapes``, and the arrays of a ``Batch``.

        Products are normal with variance 2 / inputs, tables with deviation ``table``; biases are near 0,
        but not equal to 0. Half of the dense fields are negative, so that an activation shows there too.
        """
        random = np.random.default_rng([seed, *model.encode()])
        arrays: dict[str, NDArray[np.generic]] = {}
        for name, shape in _model(model).shapes().items():
            size = (
                0.1 if len(shape) == 1 else self.table if shape[0] == VOCABULARY else math.sqrt(2 / shape[1])
            )
            arrays[name] = random.standard_normal(shape, np.float32) * np.float32(size)
        for name in list(_model(model).products())[:-1]:
            arrays[f"{name}.bias"][0] = FAR
        batch = made_up(random, BATCH, VOCABULARY)
        dense = random.standard_normal((BATCH, DENSE), np.float32)
        return {**arrays, **batch._replace(dense=dense)._asdict()}

    def parameters(self, observed: Observation) -> int:
        """Return the parameters of the described model with tables of the checks' size."""
        return _model(observed.model).parameters()

    def multiply_adds(self, observed: Observation) -> int:
        """Return the multiply-adds of the products, for one sample."""
        return sum(product.inputs * product.outputs for product in self.own(observed).products)

    def described_multiply_adds(self, model: str) -> int:
        """Return those of the description."""
        return _model(model).multiply_adds()

    def products(self, model: str) -> Mapping[str, Described]:
        """Return the described products: (outputs, inputs), whether with a bias, and the shape of the output."""
        shapes = _model(model).products()
        return {name: (shape, True, (BATCH, shape[0])) for name, shape in shapes.items()}

    def forms(self, _observed: ClickObservation) -> tuple[Form, Mapping[str, Form]]:
        """Return the form of the reference that is described, and its known variants."""
        return DESCRIBED, OTHERS

    def pass_of(self, model: str, form: Any) -> Forward:
        """Return the forward pass of the inputs, computed once."""
        return _forward(model, form)

    def bounds(self, _product: str) -> Range:
        """Return the interval in which its activation bends."""
        return RECTIFIER


class DlrmEqualWork(ClickEqualWork):
    """The part for DLRM: plain SGD, and an interaction without weights, whose pairs count as multiply-adds.

    Rows are shorter: a pair's product is a sum of 16 products.
    """

    table = 0.5
    recipe = DescentRecipe(
        learning_rate=0.05,
        momentum=0.0,
        weight_decay=0.0,
        schedule="cosine",
        epochs=2,
        warmup_epochs=1,
        loss_scale=None,
    )

    def multiply_adds(self, observed: Observation) -> int:
        """Return the multiply-adds of the products and of the pairs, for one sample."""
        return super().multiply_adds(observed) + PAIRS * self.own(observed).embedding_width

    def forms(self, _observed: ClickObservation) -> tuple[Form, Mapping[str, Form]]:
        """Return the form of the reference that is described, and its known variants."""
        return DESCRIBED, OTHER_DLRMS


def _model(name: str) -> Recommender:
    return ARCHITECTURES[name].with_tables(VOCABULARY, EMBEDDING_WIDTH)


@cache
def _forward(model: str, form: Form) -> Forward:
    return forward(_model(model), ClickEqualWork().of(model, {}).inputs(model), form)
