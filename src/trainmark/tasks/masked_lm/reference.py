"""The described forward pass in numpy and float64, and its known variants."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax

from trainmark.schema.observation import Sketch
from trainmark.tasks.causal_lm.reference import gelu
from trainmark.tasks.equal_work import Forward, Range, range_of
from trainmark.worker.core.equivalence import sketch
from trainmark.worker.tasks.masked_lm.architectures import NORM_EPSILON, Bert


@dataclass(frozen=True, slots=True)
class Form:
    """The details that change a forward pass but no shape; the defaults follow the description."""

    gelu: str = "erf"
    causal: bool = False
    positions: bool = True
    segments: bool = True
    norm_epsilon: float = NORM_EPSILON
    sentences: bool = True
    padded: bool = True
    weighted: bool = True


DESCRIBED = Form()
NOT_MASKED = replace(DESCRIBED, padded=False)
OTHERS: Mapping[str, Form] = {
    "GELU is approximated by tanh instead of exact (erf)": replace(DESCRIBED, gelu="tanh"),
    "each position attends only to earlier positions": replace(DESCRIBED, causal=True),
    "the positions are not added": replace(DESCRIBED, positions=False),
    "the segments are not added": replace(DESCRIBED, segments=False),
    "the norms add another epsilon: 1e-5": replace(DESCRIBED, norm_epsilon=1e-5),
    "the loss covers only the words, without the next sentence": replace(DESCRIBED, sentences=False),
    "padding is attended to": NOT_MASKED,
    "the loss counts places without a word": replace(DESCRIBED, weighted=False),
}
"""Mistakes, and conventions of other models, by description."""


def forward(model: Bert, weights: Mapping[str, Any], form: Form = DESCRIBED) -> Forward:
    """Pass the batch in ``weights`` through the model with these weights."""
    products: dict[str, Sketch] = {}
    activated: dict[str, Range] = {}

    def product(name: str, given: Any) -> Any:
        result = given @ np.asarray(weights[f"{name}.weight"], np.float64).T + weights[f"{name}.bias"]
        products[name] = Sketch(**sketch(name, result))
        return result

    def before(activation: Callable[[Any], Any], name: str, given: Any) -> Any:
        result = product(name, given)
        activated[name] = range_of(result)
        return activation(result)

    def smooth(given: Any) -> Any:
        return gelu(given, form.gelu)

    def norm(name: str, given: Any) -> Any:
        centred = given - given.mean(-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + form.norm_epsilon)
        return centred / deviation * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    embedding = np.asarray(weights["embedding.tokens"], np.float64)
    x = embedding[weights["tokens"]]
    if form.positions:
        x = x + weights["embedding.positions"][: x.shape[1]]
    if form.segments:
        x = x + weights["embedding.segments"][weights["segments"]]
    x = norm("embedding.norm", x)
    for block in range(model.layers):
        name = f"block{block}.attention"
        attended = _attention(product(f"{name}.qkv", x), weights["lengths"], model, form)
        x = norm(f"{name}.norm", x + product(f"{name}.output", attended))
        name = f"block{block}.mlp"
        inner = before(smooth, f"{name}.up", x)
        x = norm(f"{name}.norm", x + product(f"{name}.down", inner))
    hidden = np.take_along_axis(x, weights["places"][..., None], axis=1)
    found = norm("words.norm", before(smooth, "words.transform", hidden)) @ embedding.T
    found = found + weights["words.bias"]
    next_sentence = product("sentences", before(np.tanh, "pooler", x[:, :1]))[:, 0]
    loss = _cross_entropy(found, weights["words"], weights["weights"] if form.weighted else None)
    if form.sentences:
        loss += _cross_entropy(next_sentence, weights["follows"])
    return Forward(products, Sketch(**sketch("logits", found)), loss, activated)


def _cross_entropy(logits: Any, targets: Any, weights: Any = None) -> float:
    losses = -np.take_along_axis(log_softmax(logits, axis=-1), targets[..., None], axis=-1)[..., 0]
    return float(np.average(losses, weights=weights))


def _attention(qkv: Any, lengths: Any, model: Bert, form: Form) -> Any:
    batch, length, _ = qkv.shape
    queries, keys, values = (
        part.reshape(batch, length, model.heads, -1).transpose(0, 2, 1, 3)
        for part in np.split(qkv, 3, axis=-1)
    )
    scores = queries @ keys.transpose(0, 1, 3, 2) / np.sqrt(queries.shape[-1])
    if form.padded:
        scores = np.where((np.arange(length) < lengths[:, None])[:, None, None], scores, -np.inf)
    if form.causal:
        scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
    return (softmax(scores, axis=-1) @ values).transpose(0, 2, 1, 3).reshape(batch, length, model.width)
