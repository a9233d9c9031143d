"""GPT-2 and Llama as torch modules; ``architectures.py`` describes their layers."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from ..backends.pytorch.backend import NamedModel
from ..pytorch_fast.attention import Shape, attend
from ..pytorch_fast.packed_attention import attend_within, ends_of, mask_of, starts_of
from ..tasks.causal_lm.architectures import DEVIATION, NORM_EPSILON, Llama, shared_name
from ..tasks.causal_lm.architectures import Decoder as Described
from ..tasks.causal_lm.settings import NO_CHECKPOINTING, SELECTIVE

_aten = torch.ops.aten
# The matrix products, of which selective checkpointing saves every second one, as torchtitan does.
PRODUCTS = (_aten.mm.default, _aten._scaled_mm.default)

SAVED = (
    _aten._scaled_dot_product_flash_attention.default,
    _aten._scaled_dot_product_efficient_attention.default,
    _aten._scaled_dot_product_cudnn_attention.default,
    _aten._scaled_dot_product_flash_attention_for_cpu.default,
    _aten._flash_attention_forward.default,
)  # attention, whose result selective checkpointing saves


def _selective_contexts() -> Any:
    observed: dict[bool, int] = {False: 0, True: 0}
    return create_selective_checkpoint_contexts(partial(_policy, observed))


def _policy(observed: dict[bool, int], context: Any, operator: Any, *_: Any, **__: Any) -> CheckpointPolicy:
    """Return whether the result of an operator is saved; ``observed`` counts each pass's products."""
    if operator in PRODUCTS:
        observed[context.is_recompute] += 1
        save = observed[context.is_recompute] % 2 == 1
    else:
        save = operator in SAVED
    return CheckpointPolicy.MUST_SAVE if save else CheckpointPolicy.PREFER_RECOMPUTE


def product_type(x: Any) -> Any:
    """Return the type in which a product of ``x`` is computed."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


class GptNorm(nn.Module):
    """Layer norm with a weight and no bias."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Any) -> Any:
        """Normalise the last axis."""
        return functional.layer_norm(x, self.weight.shape, self.weight, None, NORM_EPSILON)


class LlamaNorm(GptNorm):
    """RMSNorm: the last axis divided by the root of its mean square, times a weight."""

    def forward(self, x: Any) -> Any:
        return functional.rms_norm(x, self.weight.shape, self.weight, NORM_EPSILON)


SHARES_HEADS = torch.__version__ >= "2.5"  # whether attention supports fewer heads of keys than of queries


class Attention(nn.Module):
    """Causal attention, within documents if it gets their ``borders``; query heads may share key-value heads."""

    cudnn = varlen = False

    def __init__(self, model: Described, norm: type[GptNorm]) -> None:
        super().__init__()
        own, shared = model.attended_width, model.shared_width
        self.norm = norm(model.width)
        self.qkv = nn.Linear(model.width, own + 2 * shared, bias=False)
        self.output = nn.Linear(own, model.width, bias=False)
        self._widths, self._head = own if own == shared else (own, shared, shared), model.head
        self._group = model.heads // model.shared_heads

    def forward(self, x: Any, angles: Any = None, borders: Any = None) -> Any:
        """Map (batch, length, width) to the same shape; ``angles`` are cosines and sines, (2, …, length, head).

        Torch's kernels do not share heads in FP32 and on CPUs; keys and values are then repeated for each query head.
        """
        batch, length, _ = x.shape
        queries, keys, values = (
            part.view(batch, length, -1, self._head).transpose(1, 2)
            for part in self.qkv(self.norm(x)).split(self._widths, dim=2)
        )
        if angles is not None:
            queries, keys = turned(queries, angles), turned(keys, angles)
        if borders is not None:
            attended = attend_within((queries, keys, values), borders, self.varlen)
        elif self._group > 1 and SHARES_HEADS and queries.is_cuda and queries.dtype != torch.float32:
            attended = attend((queries, keys, values), self.cudnn, is_causal=True, enable_gqa=True)
        else:
            if self._group > 1:
                keys, values = (part.repeat_interleave(self._group, dim=1) for part in (keys, values))
            attended = attend((queries, keys, values), self.cudnn, is_causal=True)
        return self.output(attended.transpose(1, 2).reshape(batch, length, -1))


def turned(x: Any, angles: Any) -> Any:
    """Rotate the pairs of columns (i, i + half) of each head by its position's angles, in FP32."""
    wide, (cosines, sines) = x.float(), angles
    first, second = wide.chunk(2, dim=-1)
    return (wide * cosines + torch.cat((-second, first), dim=-1) * sines).to(x.dtype)


class GptMlp(nn.Module):
    """A product to a larger width, GELU, and a product back."""

    def __init__(self, model: Described) -> None:
        super().__init__()
        self.norm = GptNorm(model.width)
        self.up = nn.Linear(model.width, model.inner, bias=False)
        self.down = nn.Linear(model.inner, model.width, bias=False)

    def forward(self, x: Any) -> Any:
        """Map (batch, length, width) to the same shape."""
        return self.down(functional.gelu(self.up(self.norm(x))))


class LlamaMlp(nn.Module):
    """SwiGLU: a product through SiLU, times another product, followed by a third product."""

    def __init__(self, model: Described) -> None:
        super().__init__()
        self.norm = LlamaNorm(model.width)
        self.gate = nn.Linear(model.width, model.inner, bias=False)
        self.up = nn.Linear(model.width, model.inner, bias=False)
        self.down = nn.Linear(model.inner, model.width, bias=False)

    def forward(self, x: Any) -> Any:
        """Map (batch, length, width) to the same shape."""
        x = self.norm(x)
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """Attention and perceptron, each added to what it got; it runs compiled, or with recomputed activations."""

    checkpointing = NO_CHECKPOINTING
    compiled: Callable[..., Any] | None = None  # ``run``, compiled; None: it runs as it is

    def __init__(self, attention: nn.Module, mlp: nn.Module) -> None:
        super().__init__()
        self.attention, self.mlp = attention, mlp

    def forward(self, *inputs: Any) -> Any:
        """Map (batch, length, width), and what attention takes besides, to the same shape."""
        return (self.compiled or self.run)(*inputs)

    def run(self, *inputs: Any) -> Any:
        """Return the result of ``body``; its activations are recomputed as requested."""
        if self.checkpointing == NO_CHECKPOINTING or not torch.is_grad_enabled():
            return self.body(*inputs)
        contexts = {"context_fn": _selective_contexts} if self.checkpointing == SELECTIVE else {}
        # No random numbers are drawn in a block.
        return checkpoint(self.body, *inputs, use_reentrant=False, preserve_rng_state=False, **contexts)

    def body(self, x: Any, *places: Any) -> Any:
        """Pass attention and perceptron; ``places`` are what attention takes besides."""
        x = x + self.attention(x, *places)
        return x + self.mlp(x)


class LanguageModel(NamedModel):
    """A row of ``blocks`` with the loss behind it: what a compiler should see in one piece.

    ``tokens`` is the embedding; other modules and parameters of its own have the shared names already.
    """

    tokens: nn.Embedding
    blocks: nn.ModuleList
    # Of classified rows, by a kernel of our own; None: torch's, of their logits.
    cross_entropy: Callable[..., Any] | None = None

    def attention(self, batch: int, length: int) -> Shape:
        """Return what attention is given of a batch."""
        raise NotImplementedError

    def attend_by_cudnn(self) -> None:
        """Make cuDNN's kernel the first choice in all blocks."""
        for block in self.blocks:
            block.attention.cudnn = True

    def named_products(self) -> dict[str, nn.Linear]:
        modules = ((shared_name(name), module) for name, module in self.named_modules())
        return {name: module for name, module in modules if isinstance(module, nn.Linear)}

    def named_tensors(self) -> dict[str, Any]:
        return {shared_name(name): tensor for name, tensor in self.named_parameters()}


class Decoder(LanguageModel):
    """A model that predicts each next token from those before it, with its loss; a subclass has its own embedding."""

    def __init__(self, model: Described, norm: type[GptNorm], mlp: Callable[[Described], nn.Module]) -> None:
        """Draw the weights from torch's generator; norms begin with ones."""
        super().__init__()
        self.tokens = nn.Embedding(model.vocabulary, model.width)
        if "embedding.positions" in model.embeddings():
            self.positions = nn.Embedding(model.positions, model.width)
        blocks = (Block(Attention(model, norm), mlp(model)) for _ in range(model.layers))
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm(model.width)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                added = name.endswith(("output.weight", "down.weight"))
                nn.init.normal_(parameter, std=model.added_deviation if added else DEVIATION)
        self._shape = (model.heads, model.shared_heads if SHARES_HEADS else model.heads, model.head)

    def attention(self, batch: int, length: int) -> Shape:
        return Shape(batch, length, *self._shape, causal=True)

    # The documents of a sequence that the kernel is prepared for; None: attention within documents has a mask.
    most_documents: int | None = None

    def attend_documents(self, most: int | None) -> None:
        """Use the kernel for attention within up to ``most`` documents of a sequence, or a mask for None."""
        self.most_documents = most
        for block in self.blocks:
            block.attention.varlen = most is not None

    def borders(self, documents: Any) -> tuple[Any, Any]:
        """Return the positions within documents (batch, length), and what attention takes to be their borders."""
        begins, positions = starts_of(documents)
        most = self.most_documents
        return positions, mask_of(documents) if most is None else ends_of(begins, most)

    def hidden(self, tokens: Any, documents: Any = None) -> Any:
        """Map tokens (batch, length), with their ``documents`` if packed, to the classifier's input (…, width)."""
        x, *inputs = self.embedded(tokens, documents)
        for block in self.blocks:
            x = block(x, *inputs)
        return self.norm(x)

    def embedded(self, tokens: Any, documents: Any) -> tuple[Any, ...]:
        """Return the input of the first block, and what attention takes besides."""
        raise NotImplementedError

    def logits(self, *inputs: Any) -> Any:
        """Map what ``hidden`` takes to logits (batch, length, vocabulary); the classifier is the embedding."""
        return functional.linear(self.hidden(*inputs), self.tokens.weight)

    def batch_logits(self, *batch: Any) -> Any:
        """Return the logits of tokens (batch, length + 1) and their documents; the last token is only predicted."""
        return self.logits(*(array[:, :-1] for array in batch))

    def forward(self, tokens: Any, documents: Any = None, weights: Any = None) -> Any:
        """Return the loss of tokens (batch, length + 1): the mean of the cross entropies of all but the first.

        Packed ones have their ``documents``, and the sum of the cross entropies times the ``weights`` (batch, length).
        """
        targets = tokens[:, 1:].flatten()
        inputs = (tokens[:, :-1],) if documents is None else (tokens[:, :-1], documents[:, :-1])
        each = () if weights is None else (weights.flatten(),)
        if self.cross_entropy is not None:
            x = self.hidden(*inputs).flatten(0, 1)
            kind = product_type(x)
            return self.cross_entropy(x.to(kind), self.tokens.weight.to(kind), targets, *each)
        return weighted_loss(self.logits(*inputs).flatten(0, 1), targets, *each)


def weighted_loss(logits: Any, targets: Any, weights: Any = None) -> Any:
    """Return the mean cross entropy of logits (rows, classes), or the sum of the rows' ones times their weights."""
    # In FP32: a logarithm of sums of 16 bits is what loss scaling cannot mend.
    if weights is None:
        return functional.cross_entropy(logits.float(), targets)
    return (functional.cross_entropy(logits.float(), targets, reduction="none") * weights).sum()


class GptModel(Decoder):
    """GPT-2."""

    def __init__(self, model: Described) -> None:
        super().__init__(model, GptNorm, GptMlp)

    def embedded(self, tokens: Any, documents: Any) -> tuple[Any, ...]:
        if documents is None:
            return (self.tokens(tokens) + self.positions.weight[: tokens.shape[1]],)
        positions, borders = self.borders(documents)
        return self.tokens(tokens) + self.positions(positions), None, borders


class LlamaModel(Decoder):
    """Llama."""

    angles: Any

    def __init__(self, model: Llama, length: int) -> None:
        super().__init__(model, LlamaNorm, LlamaMlp)
        turns = torch.tensor(model.rotation.frequencies(model.head // 2), dtype=torch.float64)
        angles = torch.outer(torch.arange(length, dtype=torch.float64), turns).repeat(1, 2)
        self.register_buffer("angles", torch.stack((angles.cos(), angles.sin())).float(), persistent=False)

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> "LlamaModel":
        """Leave the angles in FP32 when the weights are cast: 16 bits cannot distinguish distant positions."""
        angles = self.angles
        super()._apply(fn, recurse)
        self.angles = angles.to(self.angles.device)
        return self

    def embedded(self, tokens: Any, documents: Any) -> tuple[Any, ...]:
        if documents is None:
            return self.tokens(tokens), self.angles[:, : tokens.shape[1]]
        positions, borders = self.borders(documents)
        # The same for all heads.
        return self.tokens(tokens), self.angles[:, positions].unsqueeze(2), borders
