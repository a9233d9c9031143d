"""Llama as a torch module; ``architectures.py`` describes its layers."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import nn
from torch.nn import functional

from ...tasks.causal_lm.architectures import NORM_EPSILON, Llama
from .attention import Shape, attend
from .block import Recomputable
from .model import Decoder

SHARES_HEADS = torch.__version__ >= "2.5"
"""Whether torch's attention supports fewer key-value heads than query heads."""


class Norm(nn.Module):
    """RMSNorm: the last axis divided by the root of its mean square, times a weight."""

    def __init__(self, width: int) -> None:
        """Initialise the weight with ones."""
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Any) -> Any:
        """Normalise the last axis."""
        return functional.rms_norm(x, self.weight.shape, self.weight, NORM_EPSILON)


class Attention(nn.Module):
    """Causal attention in which several query heads share one key-value head."""

    cudnn = False

    def __init__(self, model: Llama) -> None:
        """Take the model's shape."""
        super().__init__()
        own, shared = model.attended_width, model.shared_width
        self.norm = Norm(model.width)
        self.qkv = nn.Linear(model.width, own + 2 * shared, bias=False)
        self.output = nn.Linear(own, model.width, bias=False)
        self._widths, self._head = (own, shared, shared), model.head
        self._group = model.heads // model.shared_heads

    def forward(self, x: Any, angles: Any) -> Any:
        """Map (batch, length, width) to the same shape; ``angles`` are cosines and sines, (2, length, head)."""
        batch, length, _ = x.shape
        queries, keys, values = (
            part.view(batch, length, -1, self._head).transpose(1, 2)
            for part in self.qkv(self.norm(x)).split(self._widths, dim=2)
        )
        queries, keys = turned(queries, angles), turned(keys, angles)
        attended = attend_shared(queries, keys, values, self._group, self.cudnn)
        return self.output(attended.transpose(1, 2).reshape(batch, length, -1))


def turned(x: Any, angles: Any) -> Any:
    """Rotate the pairs of columns (i, i + half) of each head by its position's angles, in FP32."""
    wide, (cosines, sines) = x.float(), angles
    first, second = wide.chunk(2, dim=-1)
    return (wide * cosines + torch.cat((-second, first), dim=-1) * sines).to(x.dtype)


def attend_shared(queries: Any, keys: Any, values: Any, group: int, cudnn: bool) -> Any:
    """Return the output of attention with shared key-value heads.

    Torch's kernels do not share heads in FP32 and on CPUs; keys and values are then repeated for each query head.
    """
    shares = SHARES_HEADS and queries.is_cuda and queries.dtype != torch.float32
    if shares:
        return attend((queries, keys, values), cudnn, is_causal=True, enable_gqa=True)
    keys, values = (part.repeat_interleave(group, dim=1) for part in (keys, values))
    return attend((queries, keys, values), cudnn, is_causal=True)


class Mlp(nn.Module):
    """SwiGLU: a product through SiLU, times another product, followed by a third product."""

    def __init__(self, model: Llama) -> None:
        """Take the model's shape."""
        super().__init__()
        self.norm = Norm(model.width)
        self.gate = nn.Linear(model.width, model.inner, bias=False)
        self.up = nn.Linear(model.width, model.inner, bias=False)
        self.down = nn.Linear(model.inner, model.width, bias=False)

    def forward(self, x: Any) -> Any:
        """Map (batch, length, width) to the same shape."""
        x = self.norm(x)
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Block(Recomputable):
    """Attention and perceptron, each with a residual connection."""

    def __init__(self, model: Llama) -> None:
        """Take the model's shape."""
        super().__init__()
        self.attention, self.mlp = Attention(model), Mlp(model)

    def body(self, x: Any, angles: Any) -> Any:
        """Map (batch, length, width) to the same shape."""
        x = x + self.attention(x, angles)
        return x + self.mlp(x)


class LlamaModel(Decoder):
    """Llama."""

    angles: Any

    def __init__(self, model: Llama, length: int) -> None:
        """Build it with fresh weights, for sequences of up to ``length`` tokens."""
        super().__init__()
        self.tokens = nn.Embedding(model.vocabulary, model.width)
        self.blocks = nn.ModuleList(Block(model) for _ in range(model.layers))
        self.norm = Norm(model.width)
        turns = torch.tensor(model.rotation.frequencies(model.head // 2), dtype=torch.float64)
        angles = torch.outer(torch.arange(length, dtype=torch.float64), turns).repeat(1, 2)
        self.register_buffer("angles", torch.stack((angles.cos(), angles.sin())).float(), persistent=False)
        self.start(model)
        self._shape = (model.heads, model.shared_heads, model.head)

    def attention(self, batch: int, length: int) -> Shape:
        """Return the shapes of attention's inputs for a batch."""
        heads, shared_heads, head = self._shape
        return Shape(batch, length, heads, shared_heads if SHARES_HEADS else heads, head, causal=True)

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> LlamaModel:
        """Leave the angles in FP32 when the weights are cast: 16 bits cannot distinguish distant positions."""
        angles = self.angles
        super()._apply(fn, recurse)
        self.angles = angles.to(self.angles.device)
        return self

    def hidden(self, tokens: Any) -> Any:
        """Map tokens (batch, length) to the classifier's input (batch, length, width)."""
        x, angles = self.tokens(tokens), self.angles[:, : tokens.shape[1]]
        for block in self.blocks:
            x = block(x, angles)
        return self.norm(x)
