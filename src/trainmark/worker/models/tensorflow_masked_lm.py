"""BERT with the heads of its pre-training on Keras variables; ``architectures.py`` describes the layers."""

from typing import Any

import tensorflow as tf

from ..backends.tensorflow.backend import Tap
from ..tasks.masked_lm.architectures import ARCHITECTURES, DEVIATION, NORM_EPSILON, SEGMENTS
from ..tasks.masked_lm.task import WEIGHTS, MaskedSettings
from ..tasks.masked_lm.training import MaskedTraining
from ..tasks.products import STREAM
from .tensorflow_causal_lm import LanguageModel, TensorFlowLanguageTraining, cross_entropy, drawn_weights


class BertModel(LanguageModel):
    """BERT; values are dropped in every pass, as in training."""

    epsilon = NORM_EPSILON

    def __init__(self, name: str, compute: str, dropout: float, padded: bool) -> None:
        super().__init__(ARCHITECTURES[name], compute, lambda name, _shape: drawn_weights(name, DEVIATION))
        self.dropout, self._padded = dropout, padded

    def heads(self, batch: Any, tap: Tap) -> tuple[Any, Any]:
        """Return the logits of the hidden words alone, and those of the next sentence (batch, 1, 2)."""
        tokens, segments, lengths, places = batch[:4]
        length = tokens.shape[1]
        mask = tf.sequence_mask(lengths, length)[:, None, None] if self._padded else None
        embedding = self.variables["embedding.tokens"].value
        # As a product, whose gradient is no list of rows.
        of_segments = tf.matmul(tf.one_hot(segments, SEGMENTS), self.variables["embedding.segments"].value)
        x = tf.gather(embedding, tokens) + self.variables["embedding.positions"].value[:length]
        x = self._drop(self.norm("embedding.norm", x + of_segments))
        for block in range(self.description.layers):
            name = f"block{block}.attention"
            attended = self.attention(self.product(f"{name}.qkv", x, tap), mask)
            x = self.norm(f"{name}.norm", x + self._drop(self.product(f"{name}.output", attended, tap)))
            name = f"block{block}.mlp"
            inner = tf.nn.gelu(self.product(f"{name}.up", x, tap), approximate=False)
            x = self.norm(f"{name}.norm", x + self._drop(self.product(f"{name}.down", inner, tap)))
            if block == 0:
                tap(STREAM, x)
        hidden = tf.gather(x, places, batch_dims=1)
        hidden = tf.nn.gelu(self.product("words.transform", hidden, tap), approximate=False)
        hidden = self.norm("words.norm", hidden)
        words = tf.tensordot(hidden, tf.transpose(tf.cast(embedding, self._compute)), 1)
        words = words + tf.cast(self.variables["words.bias"].value, self._compute)
        pooled = tf.tanh(self.product("pooler", x[:, :1], tap))
        return words, self.product("sentences", pooled, tap)

    def batch_logits(self, batch: Any, tap: Tap) -> Any:
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
        return BertModel(self.settings.model, compute, self.settings.recipe.dropout, self.settings.padded)

    def prepared(self, batch: tuple[Any, ...], parts: int, alone: bool) -> tuple[Any, ...]:
        """Return the batch with its weights as ``MaskedTraining`` says."""
        weights = batch[WEIGHTS]
        total = tf.reduce_sum(weights) / parts
        if not alone and self.ranks.place.world_size > 1:
            (total,) = self.ranks.total([total / self.ranks.place.world_size], 0)
        return (*batch[:WEIGHTS], weights / total, *batch[WEIGHTS + 1 :])


open_training = TensorFlowMaskedTraining
