"""The described forward pass in numpy and float64, and its known variants."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import erf

from trainmark.tasks.equal_work import Forward
from trainmark.tasks.products import DescribedPass
from trainmark.worker.tasks.recommendation.architectures import (
    CATEGORIES,
    DEEP,
    TABLES,
    WIDE,
    Dlrm,
    Recommender,
    pairs,
)

ACTIVATIONS: Mapping[str, Callable[[Any], Any]] = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "gelu": lambda x: x * (1 + erf(x / np.sqrt(2))) / 2,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "leaky": lambda x: np.where(x > 0, x, 0.01 * x),
}


@dataclass(frozen=True, slots=True)
class Form:
    """The details that change a forward pass but no shape; the defaults follow the description.

    ``columns`` are the categorical fields, from 0, in the order in which the layers get them; ``without`` is a field
    whose values are replaced by zeros. The last four are for DLRM: ``transposed`` pairs are in the order 0-1, 0-2, ...,
    0-26, 1-2, ..., and ``straight`` is a bottom without an activation after its last layer.
    """

    activation: str = "relu"
    wide: bool = True
    dense_first: bool = False
    columns: tuple[int, ...] = tuple(range(CATEGORIES))
    without: int | None = None
    mean_of_crosses: bool = False
    pairs_first: bool = False
    transposed: bool = False
    straight: bool = False
    bottom_last: bool = False


DESCRIBED = Form()

Product = Callable[[str, Any], Any]
"""A function from a product's name and input to its output, after the activation if it has one."""


def _swapped(one: int) -> tuple[int, ...]:
    order = list(range(CATEGORIES))
    order[one], order[one + 1] = order[one + 1], order[one]
    return tuple(order)


_COMMON: Mapping[str, Form] = {
    "the activation is bounded (ReLU6)": replace(DESCRIBED, activation="relu6"),
    "the activation is GELU instead of ReLU": replace(DESCRIBED, activation="gelu"),
    "the activation is tanh instead of ReLU": replace(DESCRIBED, activation="tanh"),
    "the activation is a sigmoid instead of ReLU": replace(DESCRIBED, activation="sigmoid"),
    "the activation is a leaky ReLU": replace(DESCRIBED, activation="leaky"),
    **{
        f"C{i + 1} and C{i + 2} are swapped": replace(DESCRIBED, columns=_swapped(i))
        for i in range(CATEGORIES - 1)
    },
    **{f"C{i + 1} is left out": replace(DESCRIBED, without=i) for i in range(CATEGORIES)},
}
OTHERS: Mapping[str, Form] = {
    **_COMMON,
    "the wide side is left out": replace(DESCRIBED, wide=False),
    "the crosses are averaged instead of added": replace(DESCRIBED, mean_of_crosses=True),
    "the dense fields come before the categorical ones": replace(DESCRIBED, dense_first=True),
}
"""Mistakes, and conventions of other models, by description."""

OTHER_DLRMS: Mapping[str, Form] = {
    **_COMMON,
    "the pairs come before the bottom's vector": replace(DESCRIBED, pairs_first=True),
    "the pairs are in the order 0-1, 0-2 instead of 1-0, 2-0, 2-1": replace(DESCRIBED, transposed=True),
    "the bottom's last layer has no ReLU after it": replace(DESCRIBED, straight=True),
    "the bottom's vector is the last of the interaction instead of the first": replace(
        DESCRIBED, bottom_last=True
    ),
}
"""The same for DLRM."""


def forward(model: Recommender, arrays: Mapping[str, Any], form: Form = DESCRIBED) -> Forward:
    """Pass the batch in ``arrays`` through the model with the weights in it."""
    described = DescribedPass(arrays)
    without = {list(model.products())[-1]}
    if isinstance(model, Dlrm) and form.straight:
        without.add(_last_of_bottom(model))

    def product(name: str, given: Any) -> Any:
        result = described.product(name, given)
        activation = ACTIVATIONS[form.activation]
        return result if name in without else described.activate(activation, name, result)

    table = TABLES if isinstance(model, Dlrm) else DEEP
    embedded = described.array(table)[arrays["categories"][:, form.columns]]
    if form.without is not None:
        embedded[:, form.without] = 0
    dense = described.array("dense")
    if isinstance(model, Dlrm):
        logits = _interacting(model, product, dense, embedded, form)
    else:
        logits = _both(model, product, dense, embedded, arrays, form)
    losses = np.logaddexp(0, logits) - arrays["labels"] * logits
    return described.result(logits, float(losses.mean()))


def _both(
    model: Recommender, product: Product, dense: Any, embedded: Any, arrays: Mapping[str, Any], form: Form
) -> Any:
    fields = [embedded.reshape(len(embedded), -1), dense]
    x = np.concatenate(fields[::-1] if form.dense_first else fields, axis=1)
    *hidden, last = model.products()
    for name in hidden:
        x = product(name, x)
    logits = product(last, x)[:, 0]
    if form.wide:
        crosses = np.asarray(arrays[WIDE], np.float64)[arrays["crossed"], 0]
        logits = logits + (crosses.mean(1) if form.mean_of_crosses else crosses.sum(1))
    return logits


def _last_of_bottom(model: Dlrm) -> str:
    return f"bottom{len(model.bottom) + 1}"


def _interacting(model: Dlrm, product: Product, dense: Any, embedded: Any, form: Form) -> Any:
    x = dense
    for name in model.products():
        x = product(name, x)
        if name == _last_of_bottom(model):
            rows = [x[:, None], embedded]
            vectors = np.concatenate(rows[::-1] if form.bottom_last else rows, axis=1)
            first, second = pairs()
            squares = vectors @ vectors.transpose(0, 2, 1)
            found = squares[:, first, second]
            if form.transposed:
                found = squares[:, *np.triu_indices(vectors.shape[1], 1)]
            x = np.concatenate([found, x] if form.pairs_first else [x, found], axis=1)
    return x[:, 0]
