"""The described forward pass in numpy and float64, and how others are known to differ from it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import erf

from trainmark.words.observation import Sketch
from trainmark.worker.core.equivalence import sketch
from trainmark.worker.tasks.recommendation.architectures import CATEGORIES, DEEP, WIDE, WideDeep

ACTIVATIONS: Mapping[str, Callable[[Any], Any]] = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: x * (1 + erf(x / np.sqrt(2))) / 2,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "leaky": lambda x: np.where(x > 0, x, 0.01 * x),
}


@dataclass(frozen=True, slots=True)
class Form:
    """What a model can do otherwise without another shape; the defaults are the described ones.

    ``columns`` are the categorical fields, from 0, in the order in which the layers get them; one less than there are
    is the number of a field whose values are zeros.
    """

    activation: str = "relu"
    wide: bool = True
    dense_first: bool = False
    columns: tuple[int, ...] = tuple(range(CATEGORIES))
    without: int | None = None
    mean_of_crosses: bool = False


DESCRIBED = Form()


def _swapped(one: int) -> tuple[int, ...]:
    order = list(range(CATEGORIES))
    order[one], order[one + 1] = order[one + 1], order[one]
    return tuple(order)


OTHERS: Mapping[str, Form] = {
    "the activation is GELU, and not ReLU": replace(DESCRIBED, activation="gelu"),
    "the activation is tanh, and not ReLU": replace(DESCRIBED, activation="tanh"),
    "the activation is a sigmoid, and not ReLU": replace(DESCRIBED, activation="sigmoid"),
    "the activation is a leaky ReLU": replace(DESCRIBED, activation="leaky"),
    "the wide side is left out": replace(DESCRIBED, wide=False),
    "the crosses are averaged, and not added": replace(DESCRIBED, mean_of_crosses=True),
    "the dense fields come before the categorical ones": replace(DESCRIBED, dense_first=True),
    **{
        f"C{i + 1} and C{i + 2} are swapped": replace(DESCRIBED, columns=_swapped(i))
        for i in range(CATEGORIES - 1)
    },
    **{f"C{i + 1} is left out": replace(DESCRIBED, without=i) for i in range(CATEGORIES)},
}
"""Mistakes, and conventions of other models, in words."""


@dataclass(frozen=True, slots=True)
class Forward:
    """What a forward pass gives: the sketch of each product's output and of the logits, and the loss."""

    products: Mapping[str, Sketch]
    logits: Sketch
    loss: float


def forward(model: WideDeep, arrays: Mapping[str, Any], form: Form = DESCRIBED) -> Forward:
    """Pass the batch in ``arrays`` through the model with the weights in it."""
    products: dict[str, Sketch] = {}

    def product(name: str, given: Any) -> Any:
        weight, bias = (np.asarray(arrays[f"{name}.{part}"], np.float64) for part in ("weight", "bias"))
        result = given @ weight.T + bias
        products[name] = Sketch(**sketch(name, result))
        return result

    embedded = np.asarray(arrays[DEEP], np.float64)[arrays["categories"][:, form.columns]]
    if form.without is not None:
        embedded[:, form.without] = 0
    fields = [embedded.reshape(len(embedded), -1), np.asarray(arrays["dense"], np.float64)]
    x = np.concatenate(fields[::-1] if form.dense_first else fields, axis=1)
    *hidden, last = model.products()
    for name in hidden:
        x = ACTIVATIONS[form.activation](product(name, x))
    logits = product(last, x)[:, 0]
    if form.wide:
        crosses = np.asarray(arrays[WIDE], np.float64)[arrays["crossed"], 0]
        logits = logits + (crosses.mean(1) if form.mean_of_crosses else crosses.sum(1))
    losses = np.logaddexp(0, logits) - arrays["labels"] * logits
    return Forward(products, Sketch(**sketch("logits", logits)), float(losses.mean()))
