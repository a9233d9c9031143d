"""Llama's described forward pass in numpy and float64, and its known variants.

It was written from the published programs and not from the workers' description, so that a mistake in the description
is not repeated here. Sources: ``modeling_llama.py`` and ``_compute_llama3_parameters`` of transformers, and the
configuration of the checkpoint ``meta-llama/Llama-3.2-1B``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit, log_softmax, softmax

from trainmark.schema.observation import Sketch
from trainmark.tasks.causal_lm.reference import AS_DESCRIBED, PACKED_OTHERS, Arrays, Packed, borders_of, gelu
from trainmark.tasks.equal_work import Forward, Range, range_of
from trainmark.worker.core.equivalence import sketch
from trainmark.worker.tasks.causal_lm.architectures import Llama


@dataclass(frozen=True, slots=True)
class Form:
    """The details that change a forward pass but no shape; the defaults follow the description."""

    activation: str = "silu"
    gated_by: str = "gate"
    causal: bool = True
    turned: str = "halves"
    stretched: bool = True
    shared_by: str = "neighbours"
    norm_epsilon: float = 1e-5
    centred: bool = False
    scaled: bool = True
    packed: Packed = AS_DESCRIBED


DESCRIBED = Form()
OTHERS: Mapping[str, Form] = {
    "the gate goes through GELU instead of SiLU": replace(DESCRIBED, activation="gelu"),
    "the gate and the up projection are exchanged": replace(DESCRIBED, gated_by="up"),
    "each position attends to all positions, including later ones": replace(DESCRIBED, causal=False),
    "queries and keys are not rotated by their positions": replace(DESCRIBED, turned="none"),
    "neighbouring columns are rotated as pairs, instead of columns of a head's two halves": replace(
        DESCRIBED, turned="neighbours"
    ),
    "the frequencies of the rotation are not scaled": replace(DESCRIBED, stretched=False),
    "query heads share keys and values in turn, instead of in groups of neighbours": replace(
        DESCRIBED, shared_by="turns"
    ),
    "the norms add another epsilon: 1e-6": replace(DESCRIBED, norm_epsilon=1e-6),
    "the norms subtract the mean, like layer norms": replace(DESCRIBED, centred=True),
    "attention is not divided by the root of a head's width": replace(DESCRIBED, scaled=False),
    **{words: replace(DESCRIBED, packed=form) for words, form in PACKED_OTHERS.items()},
}
"""Mistakes, and conventions of other models, by description."""


def forward(model: Llama, weights: Arrays, form: Form = DESCRIBED) -> Forward:
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
        if form.centred:
            given = given - given.mean(-1, keepdims=True)
        root = np.sqrt((given**2).mean(-1, keepdims=True) + form.norm_epsilon)
        return given / root * weights[f"{name}.weight"]

    embedding = np.asarray(weights["embedding.tokens"], np.float64)
    x = embedding[tokens[:, :-1]]
    for block in range(model.layers):
        name = f"block{block}.attention"
        qkv = product(f"{name}.qkv", norm(f"{name}.norm", x))
        x = x + product(f"{name}.output", _attention(qkv, model, form, positions, visible))
        name = f"block{block}.mlp"
        given = norm(f"{name}.norm", x)
        both = {part: product(f"{name}.{part}", given) for part in ("gate", "up")}
        gate = both.pop(form.gated_by)
        activated[f"{name}.{form.gated_by}"] = range_of(gate)
        (other,) = both.values()
        opened = gate * expit(gate) if form.activation == "silu" else gelu(gate, "erf")
        x = x + product(f"{name}.down", opened * other)
    logits = norm("norm", x) @ embedding.T
    log_likelihoods = np.take_along_axis(log_softmax(logits, axis=-1), tokens[:, 1:, None], axis=-1)
    loss = float(-log_likelihoods[counted].mean())
    return Forward(products, Sketch(**sketch("logits", logits)), loss, activated)


def inverse_frequencies(model: Llama, stretched: bool = True) -> Any:
    """Return the angle of each pair of a head for one position, as computed by transformers' ``rope_type: llama3``."""
    rule = model.rotation
    plain = 1.0 / rule.base ** (np.arange(0, model.head, 2) / model.head)
    if not stretched:
        return plain
    wavelength = 2 * np.pi / plain
    longest, shortest = rule.positions / rule.slow, rule.positions / rule.fast
    smooth = (rule.positions / wavelength - rule.slow) / (rule.fast - rule.slow)
    between = (1 - smooth) * plain / rule.factor + smooth * plain
    long = np.where(wavelength > longest, plain / rule.factor, plain)
    return np.where((wavelength <= longest) & (wavelength >= shortest), between, long)


def _turn(heads: Any, model: Llama, form: Form, positions: Any) -> Any:
    """Rotate (batch, heads, length, head) as complex numbers, whose real and imaginary parts are a pair's columns."""
    if form.turned == "none":
        return heads
    angles = positions[:, None, :, None] * inverse_frequencies(model, form.stretched)
    half = model.head // 2
    real, imaginary = (
        (heads[..., :half], heads[..., half:])
        if form.turned == "halves"
        else (heads[..., ::2], heads[..., 1::2])
    )
    found = (real + 1j * imaginary) * np.exp(1j * angles)
    if form.turned == "halves":
        return np.concatenate((found.real, found.imag), axis=-1)
    return np.stack((found.real, found.imag), axis=-1).reshape(heads.shape)


def _attention(qkv: Any, model: Llama, form: Form, positions: Any, visible: Any) -> Any:
    batch, length, _ = qkv.shape
    counts = (model.heads, model.shared_heads, model.shared_heads)
    cuts = np.cumsum(counts)[:-1] * model.head
    queries, keys, values = (
        part.reshape(batch, length, count, model.head).transpose(0, 2, 1, 3)
        for part, count in zip(np.split(qkv, cuts, axis=-1), counts, strict=True)
    )
    queries, keys = (_turn(part, model, form, positions) for part in (queries, keys))
    own = np.arange(model.heads)
    shared = own // (model.heads // model.shared_heads)
    if form.shared_by == "turns":
        shared = own % model.shared_heads
    keys, values = keys[:, shared], values[:, shared]
    scores = queries @ keys.transpose(0, 1, 3, 2)
    if form.scaled:
        scores = scores / np.sqrt(model.head)
    scores = np.where(visible, scores, -np.inf)
    return (softmax(scores, axis=-1) @ values).transpose(0, 2, 1, 3).reshape(batch, length, -1)
