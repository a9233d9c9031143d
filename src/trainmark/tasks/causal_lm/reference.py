"""The described forward pass in numpy and float64, and its known variants."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import erf, log_softmax

from trainmark.tasks.equal_work import Forward
from trainmark.tasks.products import Arrays, DescribedPass, attend, heads_of
from trainmark.worker.tasks.causal_lm.architectures import NORM_EPSILON, Gpt


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
    positions, visible, counted = borders_of(weights, form.packed, form.causal)
    described = DescribedPass(weights)
    embedding = described.array("embedding.tokens")
    x = embedding[weights["tokens"][:, :-1]]
    if form.positions:
        x = x + weights["embedding.positions"][positions]
    for block in range(model.layers):
        name = f"block{block}.attention"
        qkv = described.product(f"{name}.qkv", described.norm(f"{name}.norm", x, form.norm_epsilon))
        queries, keys, values = heads_of(qkv, model.heads, model.heads, model.heads)
        attended = attend(queries, keys, values, visible, form.scaled)
        x = x + described.product(f"{name}.output", attended)
        name = f"block{block}.mlp"
        given = described.product(f"{name}.up", described.norm(f"{name}.norm", x, form.norm_epsilon))
        inner = described.activate(lambda values: gelu(values, form.gelu), f"{name}.up", given)
        x = x + described.product(f"{name}.down", inner)
    logits = described.norm("norm", x, form.norm_epsilon) @ embedding.T
    return described.result(logits, loss_of(logits, weights["tokens"], counted))


def loss_of(logits: Any, tokens: Any, counted: Any) -> float:
    """Return the mean cross entropy of the tokens that are ``counted`` (batch, length), each but a sequence's first."""
    likelihoods = np.take_along_axis(log_softmax(logits, axis=-1), tokens[:, 1:, None], axis=-1)
    return float(-likelihoods[counted].mean())


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


def gelu(x: Any, form: str) -> Any:
    """Return GELU, exact (``erf``) or approximated (``tanh``)."""
    if form == "erf":
        return x * (1 + erf(x / np.sqrt(2))) / 2
    return x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2
