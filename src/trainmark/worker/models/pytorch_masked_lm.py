"""BERT with the heads of its pre-training as a torch module, and its training."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ..core.facts import assert_parameters, count_parameters
from ..pytorch_fast.attention import Shape, attend
from ..tasks.masked_lm.architectures import ARCHITECTURES, DEVIATION, NORM_EPSILON, SEGMENTS, Bert
from ..tasks.masked_lm.task import WEIGHTS, MaskedSettings
from ..tasks.masked_lm.training import MaskedTraining
from .pytorch_causal_lm import PyTorchLanguageTraining
from .pytorch_decoders import LanguageModel, product_type


def _norm(width: int) -> nn.LayerNorm:
    return nn.LayerNorm(width, eps=NORM_EPSILON)


class Block(nn.Module):
    """Attention to all positions that are no padding, and a perceptron; norms follow sums."""

    def __init__(self, model: Bert, dropout: float) -> None:
        super().__init__()
        width, inner = model.width, model.inner
        qkv, output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.attention: Any = nn.ModuleDict({"qkv": qkv, "output": output, "norm": _norm(width)})
        self.attention.cudnn = False
        up, down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.mlp = nn.ModuleDict({"up": up, "down": down, "norm": _norm(width)})
        self._heads, self._dropout = model.heads, dropout

    def forward(self, x: Any, mask: Any) -> Any:
        """Map (batch, length, width) to the same shape; ``mask`` is true where a key is no padding."""
        batch, length, width = x.shape
        attention, mlp, share = self.attention, self.mlp, self._dropout
        heads = (
            part.view(batch, length, self._heads, width // self._heads).transpose(1, 2)
            for part in attention["qkv"](x).split(width, dim=2)
        )
        dropped = share if self.training else 0.0
        attended = attend(heads, attention.cudnn, attn_mask=mask, dropout_p=dropped)
        output = attention["output"](attended.transpose(1, 2).reshape(batch, length, width))
        x = attention["norm"](x + functional.dropout(output, share, self.training))
        output = mlp["down"](functional.gelu(mlp["up"](x)))
        return mlp["norm"](x + functional.dropout(output, share, self.training))


class Words(nn.Module):
    """The head that finds hidden words, less its matrix, which is the embedding's.

    As many words are classified as are a multiple of ``even``.
    """

    even = 1

    def __init__(self, model: Bert) -> None:
        super().__init__()
        self.transform = nn.Linear(model.width, model.width)
        self.norm = _norm(model.width)
        self.bias = nn.Parameter(torch.zeros(model.vocabulary))

    def forward(self, x: Any, embedding: Any) -> Any:
        """Map (batch, predictions, width) to logits (batch, predictions, vocabulary).

        Matrix products are slow where rows are no multiple of 16 bytes: for the product alone words are added, which
        are no parameters and whose logits are left out.
        """
        x, words = self.norm(functional.gelu(self.transform(x))), len(self.bias)
        more = -words % self.even
        if not more:
            return functional.linear(x, embedding, self.bias)
        embedding = functional.pad(embedding.to(product_type(x)), (0, 0, 0, more))
        return functional.linear(x, embedding, functional.pad(self.bias, (0, more)))[..., :words]


class BertModel(LanguageModel):
    """BERT with its loss."""

    def __init__(self, model: Bert, dropout: float, padded: bool) -> None:
        """Draw the weights from torch's generator; biases are zero. Not ``padded``: attention needs no mask."""
        super().__init__()
        self.tokens = nn.Embedding(model.vocabulary, model.width)
        self.positions = nn.Embedding(model.positions, model.width)
        self.segments = nn.Embedding(SEGMENTS, model.width)
        self.embedding = nn.ModuleDict({"norm": _norm(model.width)})
        self.blocks = nn.ModuleList(Block(model, dropout) for _ in range(model.layers))
        self.words = Words(model)
        self.pooler = nn.Linear(model.width, model.width)
        self.sentences = nn.Linear(model.width, 2)
        self._dropout, self._padded = dropout, padded
        self._shape = (model.heads, model.heads, model.head)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=DEVIATION)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def attention(self, batch: int, length: int) -> Shape:
        return Shape(batch, length, *self._shape, False, self._padded, self._dropout)

    def heads(self, tokens: Any, segments: Any, lengths: Any, places: Any) -> tuple[Any, Any]:
        """Return the logits of the words at ``places`` alone, and those of the next sentence (batch, 1, 2)."""
        mask = None
        if self._padded:
            mask = (torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None])[:, None, None]
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]] + self.segments(segments)
        x = functional.dropout(self.embedding["norm"](x), self._dropout, self.training)
        for block in self.blocks:
            x = block(x, mask)
        hidden = x.gather(1, places.unsqueeze(-1).expand(-1, -1, x.shape[2]))
        words = self.words(hidden, self.tokens.weight)
        return words, self.sentences(torch.tanh(self.pooler(x[:, :1])))

    def batch_logits(self, tokens: Any, segments: Any, lengths: Any, places: Any, *_others: Any) -> Any:
        """Return the words' logits (batch, predictions, vocabulary)."""
        return self.heads(tokens, segments, lengths, places)[0]

    def forward(
        self, tokens: Any, segments: Any, lengths: Any, places: Any, words: Any, weights: Any, follows: Any
    ) -> Any:
        """Return the loss: the hidden words' cross entropies times the weights, and the mean of the next sentence's."""
        found, sentence = self.heads(tokens, segments, lengths, places)
        losses = functional.cross_entropy(found.flatten(0, 1).float(), words.flatten(), reduction="none")
        return (losses * weights.flatten()).sum() + functional.cross_entropy(
            sentence.flatten(0, 1).float(), follows
        )


def build_model(name: str, dropout: float, padded: bool) -> BertModel:
    """Return the model with fresh weights in FP32; its number of parameters is asserted."""
    description = ARCHITECTURES[name]
    model = BertModel(description, dropout, padded)
    assert_parameters(count_parameters(model.parameters()), description.parameters())
    return model


EVEN = 8  # words that a GPU's product of 16 bits takes at once: 16 bytes


class PyTorchMaskedTraining(MaskedTraining, PyTorchLanguageTraining):
    """BERT, trained as a language model is."""

    settings: MaskedSettings
    REPEATS_DROPOUT = True

    def make_model(self) -> BertModel:
        model = build_model(self.settings.model, self.settings.recipe.dropout, self.settings.padded)
        if self._device.type == "cuda":
            model.words.even = EVEN
        return model

    def prepared(self, parts: int) -> tuple[Any, ...]:
        """Return the batch with its weights as ``MaskedTraining`` says."""
        batch = list(self.batch)
        weights = batch[WEIGHTS]
        own = weights.sum() / parts
        # Without padding all weights are 1, on every rank.
        mean = self.ranks.mean(own) if self.settings.padded and not self.by_itself else own
        batch[WEIGHTS] = weights / mean
        return tuple(batch)

    def plain_pass(self) -> tuple[float, dict[str, Any]]:
        """Pass the parts of the batch as the step does; its loss is not verified by a formula."""
        return float(self._pass()), {}


open_training = PyTorchMaskedTraining
