"""The described forward pass in numpy and float64, and its known variants."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import erf, log_softmax, softmax

from trainmark.schema.observation import Sketch
from trainmark.tasks.equal_work import Forward, Range, range_of
from trainmark.worker.core.equivalence import sketch
from trainmark.worker.tasks.causal_lm.architectures import NORM_EPSILON, Gpt

Arrays = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Form:
    """The details that change a forward pass but no shape; the defaults follow the description."""

    gelu: str = "erf"
    causal: bool = True
    positions: bool = True
    norm_epsilon: float = NORM_EPSILON
    scaled: bool = True


DESCRIBED = Form()
OTHERS: Mapping[str, Form] = {
    "GELU is approximated by tanh instead of exact (erf)": replace(DESCRIBED, gelu="tanh"),
    "each position attends to all positions, including later ones": replace(DESCRIBED, causal=False),
    "the positions are not added": replace(DESCRIBED, positions=False),
    "the norms add another epsilon: 1e-6": replace(DESCRIBED, norm_epsilon=1e-6),
    "the norms add another epsilon: 1e-12": replace(DESCRIBED, norm_epsilon=1e-12),
    "attention is not divided by the root of a head's width": replace(DESCRIBED, scaled=False),
}
"""Mistakes, and conventions of other models, by description."""


def forward(model: Gpt, weights: Arrays, form: Form = DESCRIBED) -> Forward:
    """Pass ``weights["tokens"]`` (batch, length + 1) through the model with these weights."""
    tokens = weights["tokens"]
    products: dict[str, Sketch] = {}
    activated: dict[str, Range] = {}

    def product(name: str, given: Any) -> Any:
        result = given @ np.asarray(weights[f"{name}.weight"], np.float64).T
        products[name] = Sketch(**sketch(name, result))
        return result

    def norm(name: str, given: Any) -> Any:
        centred = given - given.mean(-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + form.norm_epsilon)
        return centred / deviation * weights[f"{name}.weight"]

    embedding = np.asarray(weights["embedding.tokens"], np.float64)
    x = embedding[tokens[:, :-1]]
    if form.positions:
        x = x + weights["embedding.positions"][: x.shape[1]]
    for block in range(model.layers):
        name = f"block{block}.attention"
        qkv = product(f"{name}.qkv", norm(f"{name}.norm", x))
        x = x + product(f"{name}.output", _attention(qkv, model, form))
        name = f"block{block}.mlp"
        given = product(f"{name}.up", norm(f"{name}.norm", x))
        activated[f"{name}.up"] = range_of(given)
        x = x + product(f"{name}.down", gelu(given, form.gelu))
    logits = norm("norm", x) @ embedding.T
    log_likelihoods = np.take_along_axis(log_softmax(logits, axis=-1), tokens[:, 1:, None], axis=-1)
    return Forward(products, Sketch(**sketch("logits", logits)), float(-log_likelihoods.mean()), activated)


def _attention(qkv: Any, model: Gpt, form: Form) -> Any:
    batch, length, _ = qkv.shape
    queries, keys, values = (
        part.reshape(batch, length, model.heads, -1).transpose(0, 2, 1, 3)
        for part in np.split(qkv, 3, axis=-1)
    )
    scores = queries @ keys.transpose(0, 1, 3, 2)
    if form.scaled:
        scores = scores / np.sqrt(queries.shape[-1])
    if form.causal:
        scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
    return (softmax(scores, axis=-1) @ values).transpose(0, 2, 1, 3).reshape(batch, length, model.width)


def gelu(x: Any, form: str) -> Any:
    """Return GELU, exact (``erf``) or approximated (``tanh``)."""
    if form == "erf":
        return x * (1 + erf(x / np.sqrt(2))) / 2
    return x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2
