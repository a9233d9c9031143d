"""The described forward pass in numpy and float64, and its known variants."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import log_softmax

from trainmark.tasks.causal_lm.reference import gelu
from trainmark.tasks.equal_work import Forward
from trainmark.tasks.products import DescribedPass, attend, heads_of
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
    described = DescribedPass(weights)

    def norm(name: str, given: Any) -> Any:
        return described.norm(name, given, form.norm_epsilon)

    def smooth(name: str, given: Any) -> Any:
        product = described.product(name, given)
        return described.activate(lambda values: gelu(values, form.gelu), name, product)

    embedding = described.array("embedding.tokens")
    x = embedding[weights["tokens"]]
    if form.positions:
        x = x + weights["embedding.positions"][: x.shape[1]]
    if form.segments:
        x = x + weights["embedding.segments"][weights["segments"]]
    x = norm("embedding.norm", x)
    visible = _visible(weights["lengths"], x.shape[1], form)
    for block in range(model.layers):
        name = f"block{block}.attention"
        qkv = described.product(f"{name}.qkv", x)
        queries, keys, values = heads_of(qkv, model.heads, model.heads, model.heads)
        attended = attend(queries, keys, values, visible)
        x = norm(f"{name}.norm", x + described.product(f"{name}.output", attended))
        name = f"block{block}.mlp"
        x = norm(f"{name}.norm", x + described.product(f"{name}.down", smooth(f"{name}.up", x)))
    hidden = np.take_along_axis(x, weights["places"][..., None], axis=1)
    words = norm("words.norm", smooth("words.transform", hidden)) @ embedding.T + weights["words.bias"]
    pooled = described.activate(np.tanh, "pooler", described.product("pooler", x[:, :1]))
    next_sentence = described.product("sentences", pooled)[:, 0]
    loss = _cross_entropy(words, weights["words"], weights["weights"] if form.weighted else None)
    if form.sentences:
        loss += _cross_entropy(next_sentence, weights["follows"])
    return described.result(words, loss)


def _visible(lengths: Any, length: int, form: Form) -> Any:
    """Return the keys that each query sees, (batch, 1, length, length)."""
    visible = np.ones((len(lengths), 1, length, length), bool)
    if form.padded:
        visible &= (np.arange(length) < lengths[:, None])[:, None, None]
    return visible & np.tri(length, dtype=bool) if form.causal else visible


def _cross_entropy(logits: Any, targets: Any, weights: Any = None) -> float:
    losses = -np.take_along_axis(log_softmax(logits, axis=-1), targets[..., None], axis=-1)[..., 0]
    return float(np.average(losses, weights=weights))
