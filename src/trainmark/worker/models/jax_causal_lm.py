"""GPT-2 and Llama in JAX, as pure functions of their parameters; ``architectures.py`` describes the layers."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ..backends.jax import backend
from ..backends.jax.backend import NamedTraining, Params, Tap, norms, products
from ..backends.jax.collectives import CPU
from ..core.facts import ObservedConfig
from ..core.precision import FP32, Precision
from ..tasks.causal_lm.architectures import ARCHITECTURES, DEVIATION, NORM_EPSILON, Decoder, Llama, is_norm
from ..tasks.causal_lm.packing import predicted
from ..tasks.causal_lm.settings import CausalSettings, LanguageSettings
from ..tasks.causal_lm.training import LanguageTraining
from ..tasks.products import STREAM


def borders(documents: Any) -> tuple[Any, Any]:
    """Return positions within documents (batch, length), and the mask of the keys of a query's document.

    Attention is causal besides.
    """
    index = jnp.arange(documents.shape[1])
    begins = (documents != jnp.roll(documents, 1, axis=1)) | (index == 0)
    starts = jax.lax.cummax(jnp.where(begins, index, 0), axis=1)
    return index - starts, (documents[:, :, None] == documents[:, None, :])[:, None]


def logits_of(
    model: Decoder, precision: Precision, kernel: str, params: Params, tokens: Any, documents: Any, tap: Tap
) -> Any:
    """Map tokens (batch, length), with their ``documents`` if packed, to logits (…, vocabulary) in the compute type.

    ``kernel`` is JAX's word for who computes attention, which shares heads itself. Norms and the turning of queries
    and keys are in FP32.
    """
    compute, llama = precision.compute, isinstance(model, Llama)
    product, norm = products(params, compute, tap), norms(params, compute, NORM_EPSILON, centred=not llama)
    (batch, length), embedding = tokens.shape, params["embedding.tokens"]
    positions, mask = (slice(length), None) if documents is None else borders(documents)
    ends = (model.attended_width, model.attended_width + model.shared_width)
    x = embedding[tokens]
    if isinstance(model, Llama):
        turned = turning(model, positions, length, compute)
    else:
        # Looked up in FP32: the gradient of a row is the sum over all that look it up, and 16 bits lose it.
        x = x + params["embedding.positions"][positions]
    x = x.astype(compute)
    for block in range(model.layers):
        name = f"block{block}.attention"
        qkv = jnp.split(product(f"{name}.qkv", norm(f"{name}.norm", x)), ends, axis=-1)
        queries, keys, values = (part.reshape(batch, length, -1, model.head) for part in qkv)
        if llama:
            queries, keys = turned(queries), turned(keys)
        attended = jax.nn.dot_product_attention(
            queries, keys, values, mask=mask, is_causal=True, implementation=kernel
        )
        x = x + product(f"{name}.output", attended.reshape(batch, length, -1))
        name = f"block{block}.mlp"
        given = norm(f"{name}.norm", x)
        if llama:
            inner = jax.nn.silu(product(f"{name}.gate", given)) * product(f"{name}.up", given)
        else:
            inner = jax.nn.gelu(product(f"{name}.up", given), approximate=False)
        x = x + product(f"{name}.down", inner)
        if block == 0:
            tap(STREAM, x)
    return jnp.einsum("bti,oi->bto", norm("norm", x), embedding.astype(compute))


def turning(model: Llama, positions: Any, length: int, compute: Any) -> Callable[[Any], Any]:
    """Return what turns heads (batch, length, heads, head) by the angles of their positions."""
    turns = np.outer(np.arange(length), model.rotation.frequencies(model.head // 2))[:, None]
    cosines, sines = np.cos(turns).astype(np.float32), np.sin(turns).astype(np.float32)
    if not isinstance(positions, slice):
        cosines, sines = (jnp.asarray(table)[positions] for table in (cosines, sines))

    def turned(given: Any) -> Any:
        first, second = jnp.split(given.astype(jnp.float32), 2, axis=-1)
        pairs = (first * cosines - second * sines, second * cosines + first * sines)
        return jnp.concatenate(pairs, -1).astype(compute)

    return turned


def draw(model: Decoder, key: Any, name: str, shape: Any) -> Any:
    """Return a fresh parameter. May be traced."""
    if is_norm(name):
        return jnp.ones(shape)
    added = name.endswith(("output.weight", "down.weight"))
    return jax.random.normal(key, shape) * (model.added_deviation if added else DEVIATION)


class JaxLanguageTraining(NamedTraining, LanguageTraining):
    """A language model, its loss, and the observation of its products while the step is traced."""

    settings: LanguageSettings
    descriptions: Mapping[str, Any] = ARCHITECTURES
    draw: Callable[..., Any] = staticmethod(draw)

    def build(self) -> None:
        self.parts = self.settings.accumulation
        self.description = self.descriptions[self.settings.model]
        # Attention is computed by cuDNN's fused kernel on a GPU in 16 bits, else by XLA.
        self.kernel = "cudnn" if self.platform != CPU and self.precision.compute != FP32 else "xla"
        decays = {name: self.decays(name) for name in self.description.shapes()}
        self.take_over(backend.adaptive(self.settings.recipe, lambda _params: decays))

    def loss_of(self, params: Params, state: Any, batch: Any, tap: Tap | None = None) -> Any:
        """Return the mean of the tokens' losses; ``tap`` gets the products.

        Packed sequences come with ``documents`` and the weights of the losses, whose weighted sum is the loss then.
        """
        tokens, *packed = batch
        documents = packed[0][:, :-1] if packed else None
        logits = logits_of(
            self.description,
            self.precision,
            self.kernel,
            params,
            tokens[:, :-1],
            documents,
            tap or self._trace,
        ).astype(jnp.float32)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:])
        return (losses * packed[1]).sum() if packed else losses.mean(), (logits, {"batch_stats": state})

    def prepared(self, batch: Any, parts: int, axis: str | None) -> Any:
        """Return the batch; a packed one with weights, so that the parts' and ranks' mean is that of all that count.

        All ranks have equally many tokens that count.
        """
        if not (isinstance(self.settings, CausalSettings) and self.settings.packed):
            return super().prepared(batch, parts, axis)
        weights = predicted(batch[1]).astype(jnp.float32)
        return *batch, weights * (parts / weights.sum())

    def observed_config(self) -> ObservedConfig:
        _, (part, length, _) = next(iter(self.first.values()))
        rows = self.batch[0].addressable_data(0).shape[0]
        axes = {"sequence_length": length, "accumulation": rows // part}
        weight = self.state.params["embedding.tokens"]
        return self.config_of(weight, rows, axes, **{STREAM: self.first[STREAM][0]})

    def steps_taken(self) -> int:
        """Return how many steps the optimizer has counted: except those that overflowed."""
        return int(self.ranks.own_whole(backend.moments_of(self.state.opt_state).count))


open_training = JaxLanguageTraining
