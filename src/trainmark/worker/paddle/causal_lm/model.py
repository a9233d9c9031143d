"""GPT-2 as Paddle layers; what its layers are stands in ``architectures.py``."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import paddle
from paddle import ParamAttr, nn
from paddle.nn import functional
from paddle.nn.initializer import Normal

from ...tasks.causal_lm.architectures import ARCHITECTURES, DEVIATION, NORM_EPSILON, Gpt


def drawn(deviation: float) -> ParamAttr:
    """Return the attribute of weights that begin normal, with this deviation."""
    return ParamAttr(initializer=Normal(0.0, deviation))


def _product(inputs: int, outputs: int, deviation: float = DEVIATION) -> nn.Linear:
    return nn.Linear(inputs, outputs, weight_attr=drawn(deviation), bias_attr=False)


def _norm(width: int) -> nn.LayerNorm:
    return nn.LayerNorm(width, NORM_EPSILON, bias_attr=False)


class Attention(nn.Layer):
    """Each position attends to itself and to those before it, by the kernel that Paddle finds best."""

    def __init__(self, model: Gpt) -> None:
        """Take the model's shape."""
        super().__init__()
        self.norm = _norm(model.width)
        self.qkv = _product(model.width, 3 * model.width)
        self.output = _product(model.width, model.width, model.added_deviation)
        self._heads = model.heads

    def forward(self, x: Any) -> Any:
        """Map (batch, length, width) to the same shape."""
        parts = self.qkv(self.norm(x)).split(3, axis=-1)
        heads = (part.reshape([0, 0, self._heads, -1]) for part in parts)
        attended = functional.scaled_dot_product_attention(*heads, is_causal=True)
        return self.output(attended.reshape([0, 0, -1]))


class Mlp(nn.Layer):
    """A product to four times the width, GELU, and a product back."""

    def __init__(self, model: Gpt) -> None:
        """Take the model's shape."""
        super().__init__()
        self.norm = _norm(model.width)
        self.up = _product(model.width, model.inner)
        self.down = _product(model.inner, model.width, model.added_deviation)

    def forward(self, x: Any) -> Any:
        """Map (batch, length, width) to the same shape."""
        return self.down(functional.gelu(self.up(self.norm(x)), approximate=False))


class Block(nn.Layer):
    """Attention and perceptron, each added to what it got."""

    def __init__(self, model: Gpt) -> None:
        """Take the model's shape."""
        super().__init__()
        self.attention, self.mlp = Attention(model), Mlp(model)

    def forward(self, x: Any) -> Any:
        """Map (batch, length, width) to the same shape."""
        x = x + self.attention(x)
        return x + self.mlp(x)


class LanguageModel(nn.Layer):
    """A row of ``blocks`` with the loss behind it, so that a compiled program holds both.

    ``tokens`` is the embedding; ``forward`` returns the loss twice: as output, and as what is differentiated.
    """

    tokens: nn.Embedding
    blocks: nn.LayerList

    def look(self, *batch: Any) -> Any:
        """Return the logits of a batch."""
        raise NotImplementedError


class GptModel(LanguageModel):
    """GPT-2 with its loss."""

    def __init__(self, name: str) -> None:
        """Draw the weights from Paddle's generator; their number is asserted."""
        super().__init__()
        model = ARCHITECTURES[name]
        assert isinstance(model, Gpt)
        self.tokens = nn.Embedding(model.vocabulary, model.width, weight_attr=drawn(DEVIATION))
        self.positions = nn.Embedding(model.positions, model.width, weight_attr=drawn(DEVIATION))
        self.blocks = nn.LayerList([Block(model) for _ in range(model.layers)])
        self.norm = _norm(model.width)
        found = sum(int(parameter.size) for parameter in self.parameters())
        assert found == model.parameters(), f"{name} has {found} parameters instead of {model.parameters()}"

    def logits(self, tokens: Any) -> Any:
        """Map tokens (batch, length) to logits (batch, length, vocabulary); the classifier is the embedding."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return paddle.matmul(self.norm(x), self.tokens.weight, transpose_y=True)

    def look(self, tokens: Any) -> Any:
        """Return the logits of tokens (batch, length + 1), of which the last is only predicted."""
        return self.logits(tokens[:, :-1])

    def forward(self, tokens: Any) -> Tuple[Any, Any]:
        """Return the loss of tokens (batch, length + 1) twice: as output, and as what is differentiated."""
        logits = self.logits(tokens[:, :-1]).astype("float32")
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        return loss, loss


def named_products(model: LanguageModel) -> Dict[str, nn.Linear]:
    """Return the products by the shared names, in forward order."""
    return {shared(name): layer for name, layer in model.named_sublayers() if isinstance(layer, nn.Linear)}


def named_tensors(model: LanguageModel) -> Dict[str, Any]:
    """Return the parameters by the shared names."""
    return {shared(name): tensor for name, tensor in model.named_parameters()}


def shared(name: str) -> str:
    """Return the shared name of a layer or parameter: ``blocks.3.mlp.up`` is ``block3.mlp.up``."""
    first, _, rest = name.partition(".")
    if first == "blocks" and rest:
        return f"block{rest}"
    return f"embedding.{first}" if first in ("tokens", "positions", "segments") else name
