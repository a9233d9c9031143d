"""BERT with the heads of its pre-training as Paddle layers; ``architectures.py`` describes the layers."""

from functools import partial
from typing import Any

import paddle
from paddle import nn
from paddle.nn import functional

from ..core.facts import assert_parameters, count_parameters
from ..tasks.masked_lm.architectures import ARCHITECTURES, DEVIATION, NORM_EPSILON, SEGMENTS, Bert
from ..tasks.masked_lm.task import WEIGHTS, MaskedSettings
from ..tasks.masked_lm.training import MaskedTraining
from .paddle_causal_lm import LanguageModel, PaddleLanguageTraining, drawn, product

_product = partial(product, bias=True)


def _norm(width: int) -> nn.LayerNorm:
    return nn.LayerNorm(width, NORM_EPSILON)


class Block(nn.Layer):
    """Attention to all positions that are no padding, by Paddle's best kernel, and a perceptron; norms follow sums."""

    def __init__(self, model: Bert, dropout: float) -> None:
        super().__init__()
        width, inner = model.width, model.inner
        qkv, output = _product(width, 3 * width), _product(width, width)
        self.attention = nn.LayerDict({"qkv": qkv, "output": output, "norm": _norm(width)})
        up, down = _product(width, inner), _product(inner, width)
        self.mlp = nn.LayerDict({"up": up, "down": down, "norm": _norm(width)})
        self._heads, self._dropout = model.heads, dropout

    def forward(self, x: Any, mask: Any) -> Any:
        """Map (batch, length, width) to the same shape; ``mask`` is what is added to the scores, if anything."""
        attention, mlp, share = self.attention, self.mlp, self._dropout
        heads = (part.reshape([0, 0, self._heads, -1]) for part in attention["qkv"](x).split(3, axis=-1))
        attended = functional.scaled_dot_product_attention(
            *heads, attn_mask=mask, dropout_p=share, training=self.training
        )
        output = attention["output"](attended.reshape([0, 0, -1]))
        x = attention["norm"](x + functional.dropout(output, share, training=self.training))
        output = mlp["down"](functional.gelu(mlp["up"](x), approximate=False))
        return mlp["norm"](x + functional.dropout(output, share, training=self.training))


class Words(nn.Layer):
    """The head that finds hidden words, less its matrix, which is the embedding's."""

    def __init__(self, model: Bert) -> None:
        super().__init__()
        self.transform = _product(model.width, model.width)
        self.norm = _norm(model.width)
        self.bias = self.create_parameter([model.vocabulary], is_bias=True)

    def forward(self, x: Any, embedding: Any) -> Any:
        """Map (batch, predictions, width) to logits (batch, predictions, vocabulary)."""
        x = self.norm(functional.gelu(self.transform(x), approximate=False))
        return paddle.matmul(x, embedding, transpose_y=True) + self.bias


class BertModel(LanguageModel):
    """BERT with its loss."""

    def __init__(self, name: str, dropout: float, padded: bool) -> None:
        """Draw the weights from Paddle's generator; their number is asserted. Not ``padded``: there is no mask."""
        super().__init__()
        model = ARCHITECTURES[name]
        self.tokens, self.positions, self.segments = (
            nn.Embedding(count, model.width, weight_attr=drawn(DEVIATION))
            for count in (model.vocabulary, model.positions, SEGMENTS)
        )
        self.embedding = nn.LayerDict({"norm": _norm(model.width)})
        self.blocks = nn.LayerList([Block(model, dropout) for _ in range(model.layers)])
        self.words = Words(model)
        self.pooler = _product(model.width, model.width)
        self.sentences = _product(model.width, 2)
        self._dropout, self._padded = dropout, padded
        assert_parameters(count_parameters(self.parameters()), model.parameters())

    def heads(self, tokens: Any, segments: Any, lengths: Any, places: Any) -> tuple[Any, Any]:
        """Return the logits of the words at ``places`` alone, and those of the next sentence (batch, 1, 2)."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]] + self.segments(segments)
        x = functional.dropout(self.embedding["norm"](x), self._dropout, training=self.training)
        mask = self._mask(lengths, tokens.shape[1]) if self._padded else None
        for block in self.blocks:
            x = block(x, mask)
        hidden = paddle.take_along_axis(x, places.unsqueeze(-1), 1)
        words = self.words(hidden, self.tokens.weight)
        return words, self.sentences(paddle.tanh(self.pooler(x[:, :1])))

    def _mask(self, lengths: Any, length: int) -> Any:
        """Return 0 for each key that is no padding and a large negative number for others, (batch, 1, length, length).

        As NVIDIA's BERT has it: 16 bits have room for that number.
        """
        outside = (paddle.arange(length) >= lengths.unsqueeze(1)).astype("float32") * -1e4
        return outside.unsqueeze([1, 2]).expand([-1, 1, length, length])

    def batch_logits(self, tokens: Any, segments: Any, lengths: Any, places: Any, *_others: Any) -> Any:
        """Return the words' logits (batch, predictions, vocabulary)."""
        return self.heads(tokens, segments, lengths, places)[0]

    def forward(
        self, tokens: Any, segments: Any, lengths: Any, places: Any, words: Any, weights: Any, follows: Any
    ) -> tuple[Any, Any]:
        """Return the loss twice: the words' cross entropies times the weights, and the mean of the next sentence's."""
        found, sentence = self.heads(tokens, segments, lengths, places)
        flat = found.flatten(0, 1).astype("float32")
        losses = functional.cross_entropy(flat, words.flatten(), reduction="none")
        of_words = (losses.flatten() * weights.flatten()).sum()
        loss = of_words + functional.cross_entropy(sentence.flatten(0, 1).astype("float32"), follows)
        return loss, loss


class PaddleMaskedTraining(MaskedTraining, PaddleLanguageTraining):
    """BERT, trained as a language model is."""

    settings: MaskedSettings

    def make_model(self) -> BertModel:
        return BertModel(self.settings.model, self.settings.recipe.dropout, self.settings.padded)

    def prepared(self, parts: int) -> tuple[Any, ...]:
        """Return the batch with its weights as ``MaskedTraining`` says."""
        batch = list(self.batch)
        batch[WEIGHTS] = batch[WEIGHTS] / self.ranks.mean(batch[WEIGHTS].sum() / parts)
        return tuple(batch)


open_training = PaddleMaskedTraining
