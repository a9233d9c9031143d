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
class Packed:
    """The details of packed sequences; the defaults follow the description."""

    isolated: bool = True
    restarted: bool = True
    counted: bool = True


AS_DESCRIBED = Packed()

PACKED_OTHERS: Mapping[str, Packed] = {
    "attention crosses the borders of documents": Packed(isolated=False),
    "positions run on across documents": Packed(restarted=False),
    "the loss counts padding, and the first token of each document": Packed(counted=False),
}
"""Mistakes with packed documents, by description."""


@dataclass(frozen=True, slots=True)
class Form:
    """The details that change a forward pass but no shape; the defaults follow the description."""

    gelu: str = "erf"
    causal: bool = True
    positions: bool = True
    norm_epsilon: float = NORM_EPSILON
    scaled: bool = True
    packed: Packed = AS_DESCRIBED


DESCRIBED = Form()
OTHERS: Mapping[str, Form] = {
    "GELU is approximated by tanh instead of exact (erf)": replace(DESCRIBED, gelu="tanh"),
    "each position attends to all positions, including later ones": replace(DESCRIBED, causal=False),
    "the positions are not added": replace(DESCRIBED, positions=False),
    "the norms add another epsilon: 1e-6": replace(DESCRIBED, norm_epsilon=1e-6),
    "the norms add another epsilon: 1e-12": replace(DESCRIBED, norm_epsilon=1e-12),
    "attention is not divided by the root of a head's width": replace(DESCRIBED, scaled=False),
    **{words: replace(DESCRIBED, packed=form) for words, form in PACKED_OTHERS.items()},
}
"""Mistakes, and conventions of other models, by description."""


def forward(model: Gpt, weights: Arrays, form: Form = DESCRIBED) -> Forward:
    """Pass ``weights["tokens"]`` (batch, length + 1) through the model with these weights.

    ``weights["documents"]`` of the same shape, if there are any, are the documents that the sequences are packed with.
    """
    tokens = weights["tokens"]
    positions, visible, counted = borders_of(weights, form.packed, form.causal)
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
        x = x + weights["embedding.positions"][positions]
    for block in range(model.layers):
        name = f"block{block}.attention"
        qkv = product(f"{name}.qkv", norm(f"{name}.norm", x))
        x = x + product(f"{name}.output", _attention(qkv, model, form, visible))
        name = f"block{block}.mlp"
        given = product(f"{name}.up", norm(f"{name}.norm", x))
        activated[f"{name}.up"] = range_of(given)
        x = x + product(f"{name}.down", gelu(given, form.gelu))
    logits = norm("norm", x) @ embedding.T
    log_likelihoods = np.take_along_axis(log_softmax(logits, axis=-1), tokens[:, 1:, None], axis=-1)
    loss = float(-log_likelihoods[counted].mean())
    return Forward(products, Sketch(**sketch("logits", logits)), loss, activated)


def borders_of(weights: Arrays, form: Packed, causal: bool) -> tuple[Any, Any, Any]:
    """Return positions (batch, length), the keys that each query sees (batch, 1, length, length), and what counts.

    Written place by place, as the definition reads.
    """
    batch, length = weights["tokens"].shape[0], weights["tokens"].shape[1] - 1
    documents = weights.get("documents", np.ones((batch, length + 1), np.int64))
    positions = np.tile(np.arange(length), (batch, 1))
    visible = np.tile(
        np.tri(length, dtype=bool) if causal else np.ones((length, length), bool), (batch, 1, 1, 1)
    )
    counted = np.ones((batch, length), bool)
    for row in range(batch):
        for place in range(length):
            own = documents[row, place]
            if form.restarted and place:
                same = own == documents[row, place - 1]
                positions[row, place] = positions[row, place - 1] + 1 if same else 0
            if form.isolated:
                visible[row, 0, place] &= documents[row, :-1] == own
            if form.counted:
                counted[row, place] = own > 0 and documents[row, place + 1] == own
    return positions, visible, counted


def _attention(qkv: Any, model: Gpt, form: Form, visible: Any) -> Any:
    batch, length, _ = qkv.shape
    queries, keys, values = (
        part.reshape(batch, length, model.heads, -1).transpose(0, 2, 1, 3)
        for part in np.split(qkv, 3, axis=-1)
    )
    scores = queries @ keys.transpose(0, 1, 3, 2)
    if form.scaled:
        scores = scores / np.sqrt(queries.shape[-1])
    scores = np.where(visible, scores, -np.inf)
    return (softmax(scores, axis=-1) @ values).transpose(0, 2, 1, 3).reshape(batch, length, model.width)


def gelu(x: Any, form: str) -> Any:
    """Return GELU, exact (``erf``) or approximated (``tanh``)."""
    if form == "erf":
        return x * (1 + erf(x / np.sqrt(2))) / 2
    return x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2
