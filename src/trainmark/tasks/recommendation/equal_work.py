"""The recommendation task's part of the check of equal work: products, logits, and the described forward pass."""

import math
from collections.abc import Iterable, Mapping
from functools import cache

import numpy as np
from numpy.typing import NDArray

from trainmark.schema.certificate import Check, Subject
from trainmark.schema.observation import Followed, Observation, Sketch
from trainmark.tasks.equal_work import (
    RECTIFIER,
    EqualWork,
    Forward,
    Range,
    check,
    common_range,
    reached,
)
from trainmark.tasks.products import ADAM_OF_THE_CHECK, ProductsObservation, as_described, layers, passes
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


class ClickEqualWork(EqualWork):
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
        return sum(product.inputs * product.outputs for product in _own(observed).products)

    def others(self) -> Mapping[str, Form]:
        """Return the reference variants used to explain a deviation."""
        return OTHERS

    def decay(self, _name: str) -> float:
        """Return the recipe's weight decay."""
        return self.recipe.weight_decay

    def described(self, observed: Observation) -> Iterable[Check]:
        """Yield the checks of the products and of the first forward pass against the description."""
        own, model = _own(observed), _model(observed.model)
        yield _layers(own, model)
        off = abs(self.multiply_adds(observed) - model.multiply_adds())
        yield check(Subject.MULTIPLY_ADDS, (off, None))
        yield reached(_forward(observed.model, DESCRIBED).activated, lambda _name: RECTIFIER)
        yield from as_described(own, lambda form: _forward(observed.model, form), DESCRIBED, self.others())

    def reach(self, observed: Observation) -> Range | None:
        """Return the range that the inputs of every described activation cover."""
        return common_range(_forward(observed.model, DESCRIBED).activated)

    def outputs(self, observed: Observation) -> Mapping[str, Sketch]:
        """Return the sketch of each product's output in the first step."""
        return {product.name: product.sketch for product in _own(observed).products}

    def logits(self, observed: Observation) -> Sketch:
        """Return the sketch of the logits in the first step."""
        return _own(observed).steps[0].logits

    def forward(self, one: Observation, other: Observation) -> Iterable[Check]:
        """Yield the checks of the products' outputs and of the logits."""
        return passes(_own(one), _own(other))


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
        return super().multiply_adds(observed) + PAIRS * _own(observed).embedding_width

    def others(self) -> Mapping[str, Form]:
        """Return the reference variants of DLRM."""
        return OTHER_DLRMS


def _model(name: str) -> Recommender:
    return ARCHITECTURES[name].with_tables(VOCABULARY, EMBEDDING_WIDTH)


def _own(observed: Followed) -> ClickObservation:
    assert isinstance(observed, ClickObservation)
    return observed


@cache
def _forward(model: str, form: Form) -> Forward:
    return forward(_model(model), ClickEqualWork().of(model, {}).inputs(model), form)


def _layers(observed: ClickObservation, model: Recommender) -> Check:
    described = {name: (shape, True, (BATCH, shape[0])) for name, shape in model.products().items()}
    return layers(observed.products, described)
