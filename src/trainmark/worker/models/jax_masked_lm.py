"""BERT with the heads of its pre-training in JAX, as a pure function of its parameters.

``architectures.py`` describes the layers.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from ..backends.jax.backend import KEY, Params, Tap, biased, norms, products
from ..core.precision import Precision
from ..tasks.masked_lm.architectures import ARCHITECTURES, DEVIATION, NORM_EPSILON, Bert
from ..tasks.masked_lm.task import WEIGHTS, MaskedSettings
from ..tasks.masked_lm.training import MaskedTraining
from ..tasks.products import STREAM
from .jax_causal_lm import JaxLanguageTraining

# XLA's own generator, on a GPU cuRAND's: JAX's default, threefry, takes twenty rounds of integers for each number.
RANDOM = "rbg"


def draw(_model: Bert, key: Any, name: str, shape: Any) -> Any:
    """Return a fresh parameter. May be traced."""
    if len(shape) == 2:
        return jax.random.normal(key, shape) * DEVIATION
    return (jnp.ones if name.endswith("norm.weight") else jnp.zeros)(shape)


class Dropping:
    """Drops a share of values, each time by new random numbers of one key."""

    def __init__(self, share: float, key: Any) -> None:
        self._share, self._key = share, jax.random.wrap_key_data(key, impl=RANDOM)

    def __call__(self, values: Any) -> Any:
        """Return the values, some of them dropped and the rest as much larger."""
        if not self._share:
            return values
        self._key, key = jax.random.split(self._key)
        retained = jax.random.bernoulli(key, 1 - self._share, values.shape)
        return jnp.where(retained, values / (1 - self._share), 0).astype(values.dtype)

    def attend(self, queries: Any, keys: Any, values: Any, lengths: Any | None, kernel: str) -> Any:
        """Attend to the positions before ``lengths``, or to all.

        JAX's own attention drops nothing, so with a share it is written out.
        """
        if not self._share:
            return jax.nn.dot_product_attention(
                queries, keys, values, key_value_seq_lengths=lengths, implementation=kernel
            )
        scores = jnp.einsum("bqhd,bkhd->bhqk", queries, keys).astype(jnp.float32) * queries.shape[-1] ** -0.5
        if lengths is not None:
            within = jnp.arange(keys.shape[1]) < lengths[:, None]
            scores = jnp.where(within[:, None, None], scores, -1e9)
        weights = self(jax.nn.softmax(scores).astype(values.dtype))
        return jnp.einsum("bhqk,bkhd->bqhd", weights, values)

    def next_key(self) -> Any:
        """Return the key for the next pass, as data."""
        return jax.random.key_data(self._key)


def heads_of(
    model: Bert, precision: Precision, kernel: str, params: Params, batch: Any, drop: Dropping, tap: Tap
) -> tuple[Any, Any]:
    """Return the logits of the hidden words alone, and those of the next sentence (batch, 1, 2).

    ``kernel`` is JAX's word for who computes attention; the batch has no lengths where nothing is padding. Norms are in
    FP32, and so are rows that are looked up until the first one.
    """
    compute, (tokens, segments, lengths, places) = precision.compute, batch
    product, norm = products(params, compute, tap), norms(params, compute, NORM_EPSILON)
    heads = (*tokens.shape, model.heads, model.head)
    embedding = params["embedding.tokens"]
    x = embedding[tokens] + params["embedding.positions"][: tokens.shape[1]]
    x = drop(norm("embedding.norm", x + params["embedding.segments"][segments]))
    for block in range(model.layers):
        name = f"block{block}.attention"
        query, key, value = (part.reshape(heads) for part in jnp.split(product(f"{name}.qkv", x), 3, axis=-1))
        attended = drop.attend(query, key, value, lengths, kernel)
        x = norm(f"{name}.norm", x + drop(product(f"{name}.output", attended.reshape(x.shape))))
        name = f"block{block}.mlp"
        inner = jax.nn.gelu(product(f"{name}.up", x), approximate=False)
        x = norm(f"{name}.norm", x + drop(product(f"{name}.down", inner)))
        if block == 0:
            tap(STREAM, x)
    hidden = jnp.take_along_axis(x, places[..., None], axis=1)
    hidden = norm("words.norm", jax.nn.gelu(product("words.transform", hidden), approximate=False))
    words = jnp.einsum("bti,oi->bto", hidden, embedding.astype(compute))
    words = biased(words, params["words.bias"])
    return words, product("sentences", jnp.tanh(product("pooler", x[:, :1])))


class JaxMaskedTraining(MaskedTraining, JaxLanguageTraining):
    """BERT, trained as a language model is; the key of its dropout is part of the state."""

    settings: MaskedSettings
    descriptions = ARCHITECTURES
    draw = staticmethod(draw)
    GENERATOR = RANDOM

    def prepared(self, batch: Any, parts: int, axis: str | None) -> Any:
        """Return the batch with its weights as ``MaskedTraining`` says."""
        own = batch[WEIGHTS].sum() / parts
        mean = own if axis is None else jax.lax.pmean(own, axis)
        return (*batch[:WEIGHTS], batch[WEIGHTS] / mean, *batch[WEIGHTS + 1 :])

    def loss_of(self, params: Params, state: Any, batch: Any, tap: Tap | None = None) -> Any:
        """Return the sum of the hidden words' cross entropies times their weights, and the next sentence's mean."""
        tokens, segments, lengths, places, words, weights, follows = batch
        given = (tokens, segments, lengths if self.settings.padded else None, places)
        drop = Dropping(self.settings.recipe.dropout, state[KEY])
        model = (self.description, self.precision, self.kernel)
        found, sentence = heads_of(*model, params, given, drop, tap or self._trace)
        found, sentence = found.astype(jnp.float32), sentence[:, 0].astype(jnp.float32)
        of_words = (optax.softmax_cross_entropy_with_integer_labels(found, words) * weights).sum()
        of_sentences = optax.softmax_cross_entropy_with_integer_labels(sentence, follows).mean()
        return of_words + of_sentences, (found, {"batch_stats": {KEY: drop.next_key()}})


open_training = JaxMaskedTraining
