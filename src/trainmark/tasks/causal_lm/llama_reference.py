"""Llama's described forward pass in numpy and float64, and its known variants.

It was written from the published programs and not from the workers' description, so that a mistake in the description
is not repeated here. Sources: ``modeling_llama.py`` and ``_compute_llama3_parameters`` of transformers, and the
configuration of the checkpoint ``meta-llama/Llama-3.2-1B``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit

from trainmark.tasks.causal_lm.reference import AS_DESCRIBED, PACKED_OTHERS, Packed, borders_of, gelu, loss_of
from trainmark.tasks.equal_work import Forward
from trainmark.tasks.products import Arrays, DescribedPass, attend, heads_of
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
    positions, visible, counted = borders_of(weights, form.packed, form.causal)
    described = DescribedPass(weights)

    def norm(name: str, given: Any) -> Any:
        return described.norm(name, given, form.norm_epsilon, form.centred)

    def activation(gate: Any) -> Any:
        return gate * expit(gate) if form.activation == "silu" else gelu(gate, "erf")

    embedding = described.array("embedding.tokens")
    x = embedding[weights["tokens"][:, :-1]]
    for block in range(model.layers):
        name = f"block{block}.attention"
        qkv = described.product(f"{name}.qkv", norm(f"{name}.norm", x))
        x = x + described.product(f"{name}.output", _attention(qkv, model, form, positions, visible))
        name = f"block{block}.mlp"
        given = norm(f"{name}.norm", x)
        both = {part: described.product(f"{name}.{part}", given) for part in ("gate", "up")}
        opened = described.activate(activation, f"{name}.{form.gated_by}", both.pop(form.gated_by))
        (other,) = both.values()
        x = x + described.product(f"{name}.down", opened * other)
    logits = norm("norm", x) @ embedding.T
    return described.result(logits, loss_of(logits, weights["tokens"], counted))


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
    queries, keys, values = heads_of(qkv, model.heads, model.shared_heads, model.shared_heads)
    queries, keys = (_turn(part, model, form, positions) for part in (queries, keys))
    own = np.arange(model.heads)
    shared = own // (model.heads // model.shared_heads)
    if form.shared_by == "turns":
        shared = own % model.shared_heads
    return attend(queries, keys[:, shared], values[:, shared], visible, form.scaled)
