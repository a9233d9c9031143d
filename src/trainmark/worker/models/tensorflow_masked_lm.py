"""BERT with the heads of its pre-training on Keras variables; ``architectures.py`` describes the layers."""

from typing import Any

import tensorflow as tf

from ..tasks.masked_lm.architectures import ARCHITECTURES, DEVIATION, NORM_EPSILON, SEGMENTS
from ..tasks.masked_lm.task import WEIGHTS, MaskedSettings
from ..tasks.masked_lm.training import MaskedTraining
from ..tasks.products import STREAM
from .tensorflow_causal_lm import LanguageModel, Tap, TensorFlowLanguageTraining, cross_entropy, drawn_weights


class BertModel(LanguageModel):
    """BERT; values are dropped in every pass, as in training."""

    def __init__(self, name: str, compute: str, dropout: float, padded: bool) -> None:
        super().__init__(ARCHITECTURES[name], compute, lambda name, _shape: drawn_weights(name, DEVIATION))
        self._dropout, self._padded = dropout, padded

    def _drop(self, values: Any) -> Any:
        return tf.nn.dropout(values, self._dropout) if self._dropout else values

    def heads(self, batch: Any, tap: Tap) -> tuple[Any, Any]:
        """Return the logits of the hidden words alone, and those of the next sentence (batch, 1, 2)."""
        tokens, segments, lengths, places = batch[:4]
        model, (count, length) = self.description, tokens.shape
        weights = {name: variable.value for name, variable in self.variables.items()}

        def product(name: str, given: Any) -> Any:
            result = tf.tensordot(given, tf.cast(weights[f"{name}.weight"], self._compute), 1)
            result = result + tf.cast(weights[f"{name}.bias"], self._compute)
            tap(name, result)
            return result

        def norm(name: str, given: Any) -> Any:
            wide = tf.cast(given, tf.float32)
            mean, variance = tf.nn.moments(wide, -1, keepdims=True)
            scaled = (wide - mean) * tf.math.rsqrt(variance + NORM_EPSILON)
            return tf.cast(scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"], self._compute)

        mask = tf.sequence_mask(lengths, length)[:, None, None] if self._padded else None
        embedding = weights["embedding.tokens"]
        # As a product, whose gradient is no list of rows.
        one_hot = tf.one_hot(segments, SEGMENTS)
        x = tf.gather(embedding, tokens) + weights["embedding.positions"][:length]
        x = self._drop(norm("embedding.norm", x + tf.matmul(one_hot, weights["embedding.segments"])))
        for block in range(model.layers):
            name = f"block{block}.attention"
            parts = tf.split(product(f"{name}.qkv", x), 3, axis=-1)
            heads = (
                tf.transpose(tf.reshape(part, (count, length, model.heads, -1)), (0, 2, 1, 3))
                for part in parts
            )
            attended = tf.reshape(tf.transpose(self._attend(mask, *heads), (0, 2, 1, 3)), x.shape)
            x = norm(f"{name}.norm", x + self._drop(product(f"{name}.output", attended)))
            name = f"block{block}.mlp"
            inner = tf.nn.gelu(product(f"{name}.up", x), approximate=False)
            x = norm(f"{name}.norm", x + self._drop(product(f"{name}.down", inner)))
            if block == 0:
                tap(STREAM, x)
        hidden = tf.gather(x, places, batch_dims=1)
        hidden = norm("words.norm", tf.nn.gelu(product("words.transform", hidden), approximate=False))
        words = tf.tensordot(hidden, tf.transpose(tf.cast(embedding, self._compute)), 1)
        words = words + tf.cast(weights["words.bias"], self._compute)
        return words, product("sentences", tf.tanh(product("pooler", x[:, :1])))

    def _attend(self, mask: Any, queries: Any, keys: Any, values: Any) -> Any:
        """Attend to the positions of the mask, or to all; the softmax is in FP32. TensorFlow has no fused kernel."""
        scores = tf.cast(tf.matmul(queries, keys, transpose_b=True), tf.float32) * queries.shape[-1] ** -0.5
        if mask is not None:
            scores = tf.where(mask, scores, -1e9)
        return tf.matmul(self._drop(tf.cast(tf.nn.softmax(scores), values.dtype)), values)

    def observe(self, batch: Any, tap: Tap) -> Any:
        """Return the words' logits (batch, predictions, vocabulary)."""
        return self.heads(batch, tap)[0]

    def loss(self, batch: Any, tap: Tap) -> Any:
        found, sentence = self.heads(batch, tap)
        words, weights, follows = batch[4:]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(words, tf.cast(found, tf.float32))
        return tf.reduce_sum(losses * weights) + cross_entropy(sentence[:, 0], follows)


class TensorFlowMaskedTraining(MaskedTraining, TensorFlowLanguageTraining):
    """BERT, trained as a language model is."""

    settings: MaskedSettings

    def make_model(self, compute: str) -> BertModel:
        model = BertModel(self.settings.model, compute, self.settings.recipe.dropout, self.settings.padded)
        # Ranks drop different places: only dropout draws from here on.
        tf.random.set_seed(self.settings.seed + 1 + self.ranks.place.rank)
        return model

    def prepared(self, batch: tuple[Any, ...], parts: int, alone: bool) -> tuple[Any, ...]:
        """Return the batch with its weights as ``MaskedTraining`` says."""
        weights = batch[WEIGHTS]
        total = tf.reduce_sum(weights) / parts
        if not alone and self.ranks.place.world_size > 1:
            (total,) = self.ranks.total([total / self.ranks.place.world_size], 0)
        return (*batch[:WEIGHTS], weights / total, *batch[WEIGHTS + 1 :])

    def observed_predictions(self) -> int:
        return self.first["words.transform"][1][1]


open_training = TensorFlowMaskedTraining
