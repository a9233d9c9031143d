"""GPT-2 as a torch module; what its layers are stands in ``architectures.py``."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

import torch
from torch import nn
from torch.nn import functional

from ...tasks.causal_lm.architectures import DEVIATION, NORM_EPSILON, Gpt
from ..products import NamedModel
from .attention import Shape, attend
from .block import Recomputable


def product_type(x: Any) -> Any:
    """Return the type in which a product of ``x`` is computed."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


class Norm(nn.Module):
    """Layer norm with a weight and no bias."""

    def __init__(self, width: int) -> None:
        """Begin with ones."""
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Any) -> Any:
        """Normalise the last axis."""
        return functional.layer_norm(x, self.weight.shape, self.weight, None, NORM_EPSILON)


class Attention(nn.Module):
    """Each position attends to itself and to those before it."""

    cudnn = False

    def __init__(self, model: Gpt) -> None:
        """Take the model's shape."""
        super().__init__()
        self.norm = Norm(model.width)
        self.qkv = nn.Linear(model.width, 3 * model.width, bias=False)
        self.output = nn.Linear(model.width, model.width, bias=False)
        self._heads = model.heads

    def forward(self, x: Any) -> Any:
        """Map (batch, length, width) to the same shape."""
        batch, length, width = x.shape
        heads = (
            part.view(batch, length, self._heads, width // self._heads).transpose(1, 2)
            for part in self.qkv(self.norm(x)).split(width, dim=2)
        )
        attended = attend(heads, self.cudnn, is_causal=True)
        return self.output(attended.transpose(1, 2).reshape(batch, length, width))


class Mlp(nn.Module):
    """A product to four times the width, GELU, and a product back."""

    def __init__(self, model: Gpt) -> None:
        """Take the model's shape."""
        super().__init__()
        self.norm = Norm(model.width)
        self.up = nn.Linear(model.width, model.inner, bias=False)
        self.down = nn.Linear(model.inner, model.width, bias=False)

    def forward(self, x: Any) -> Any:
        """Map (batch, length, width) to the same shape."""
        return self.down(functional.gelu(self.up(self.norm(x))))


class Block(Recomputable):
    """Attention and perceptron, each added to what it got."""

    def __init__(self, model: Gpt) -> None:
        """Take the model's shape."""
        super().__init__()
        self.attention, self.mlp = Attention(model), Mlp(model)

    def body(self, x: Any) -> Any:
        """Map (batch, length, width) to the same shape."""
        x = x + self.attention(x)
        return x + self.mlp(x)


class LanguageModel(NamedModel):
    """A row of ``blocks`` with the loss behind it: what a compiler should see in one piece.

    ``tokens`` is the embedding; other modules and parameters of its own have the shared names already.
    """

    tokens: nn.Embedding
    blocks: nn.ModuleList
    cross_entropy: Optional[Callable[[Any, Any, Any], Any]] = None
    """Of classified rows, by a kernel of our own; None: torch's, of their logits."""

    def look(self, *batch: Any) -> Any:
        """Return the logits of a batch."""
        raise NotImplementedError

    def attention(self, batch: int, length: int) -> Shape:
        """Return what attention is given of a batch."""
        raise NotImplementedError

    def attend_by_cudnn(self) -> None:
        """Let cuDNN's kernel be the first choice in all blocks."""
        for block in self.blocks:
            block.attention.cudnn = True

    def named_products(self) -> Dict[str, nn.Linear]:
        """Return the matrix products by the shared names, in forward order."""
        modules = ((_shared(name), module) for name, module in self.named_modules())
        return {name: module for name, module in modules if isinstance(module, nn.Linear)}

    def named_tensors(self) -> Dict[str, Any]:
        """Return the parameters by the shared names."""
        return {_shared(name): tensor for name, tensor in self.named_parameters()}


def _shared(name: str) -> str:
    """Return the shared name of a module or parameter: ``blocks.3.mlp.up`` is ``block3.mlp.up``."""
    first, _, rest = name.partition(".")
    if first == "blocks" and rest:
        return f"block{rest}"
    if first in ("tokens", "positions", "segments"):
        return f"embedding.{first}"
    return name


class Decoder(LanguageModel):
    """A model that predicts each next token from those before it, with its loss."""

    def start(self, model: Any) -> None:
        """Draw the weights from torch's generator; norms begin with ones."""
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                added = name.endswith(("output.weight", "down.weight"))
                nn.init.normal_(parameter, std=model.added_deviation if added else DEVIATION)

    def hidden(self, tokens: Any) -> Any:
        """Map tokens (batch, length) to what is classified (batch, length, width)."""
        raise NotImplementedError

    def logits(self, tokens: Any) -> Any:
        """Map tokens (batch, length) to logits (batch, length, vocabulary); the classifier is the embedding."""
        return functional.linear(self.hidden(tokens), self.tokens.weight)

    def look(self, tokens: Any) -> Any:
        """Return the logits of tokens (batch, length + 1), of which the last is only predicted."""
        return self.logits(tokens[:, :-1])

    def forward(self, tokens: Any) -> Any:
        """Return the loss of tokens (batch, length + 1): the mean of the cross entropies of all but the first."""
        targets = tokens[:, 1:].flatten()
        if self.cross_entropy is not None:
            x = self.hidden(tokens[:, :-1]).flatten(0, 1)
            kind = product_type(x)
            return self.cross_entropy(x.to(kind), self.tokens.weight.to(kind), targets)
        logits = self.logits(tokens[:, :-1])
        # In FP32: a logarithm of sums of 16 bits is what loss scaling cannot mend.
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets)


class GptModel(Decoder):
    """GPT-2."""

    def __init__(self, model: Gpt) -> None:
        """Build it with fresh weights."""
        super().__init__()
        self.tokens = nn.Embedding(model.vocabulary, model.width)
        self.positions = nn.Embedding(model.positions, model.width)
        self.blocks = nn.ModuleList(Block(model) for _ in range(model.layers))
        self.norm = Norm(model.width)
        self.start(model)
        self._heads, self._head = model.heads, model.width // model.heads

    def attention(self, batch: int, length: int) -> Shape:
        """Return what attention is given of a batch."""
        return Shape(batch, length, self._heads, self._heads, self._head, causal=True)

    def hidden(self, tokens: Any) -> Any:
        """Map tokens (batch, length) to what is classified (batch, length, width)."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x)
