"""Attention by the kernel of torch's that is fastest here, measured before the first step as cuDNN measures its own."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.nn import functional

try:
    # With an order of preference, since 2.6.
    from torch.nn.attention import SDPBackend, sdpa_kernel
except ImportError:
    sdpa_kernel = None

ORDERED = torch.__version__ >= "2.6" and sdpa_kernel is not None

TORCH, CUDNN = "torch", "cudnn"  # Torch's own choice, which may be cuDNN's kernel already, and cuDNN's

ORDER = ("CUDNN_ATTENTION", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "MATH")
CUDNN_FIRST = [getattr(SDPBackend, name) for name in ORDER] if ORDERED else []

CAPABILITY = (9, 0)  # before that cuDNN's kernels are not faster than those that torch takes by itself
FASTER = 0.97  # another kernel than torch's choice must take less than this part of its time

EAGER, TIMES = 2, 5
# Products of this size before those passes: some milliseconds in which the host gets ahead of the GPU. Without them a
# short pass takes as long as its launches, and not as long as its kernels.
AHEAD, SIZE = 10, 8192


class Shape(NamedTuple):
    """The shape of attention's inputs: ``shared_heads`` are of keys and values; with a ``mask`` keys may be padding."""

    batch: int
    length: int
    heads: int
    shared_heads: int
    head: int
    causal: bool
    mask: bool = False
    dropout: float = 0.0


def attend(parts: Iterable[Any], cudnn: bool, **how: Any) -> Any:
    """Return torch's attention of queries, keys and values; ``cudnn``: by its kernel where that takes them."""
    queries, keys, values = parts
    if not cudnn:
        return functional.scaled_dot_product_attention(queries, keys, values, **how)
    with sdpa_kernel(CUDNN_FIRST, set_priority=True):
        return functional.scaled_dot_product_attention(queries, keys, values, **how)


def measured(shape: Shape, kind: Any, device: Any) -> dict[str, float]:
    """Return the milliseconds of a pass forward and backward by torch's choice and by cuDNN, where both are there.

    Empty where there is nothing to choose: on CPUs, on older GPUs, in FP32.
    """
    if device.type != "cuda" or kind.itemsize != 2 or not ORDERED:
        return {}
    if torch.cuda.get_device_capability(device) < CAPABILITY:
        return {}
    found: dict[str, float] = {}
    # cuDNN may not take this shape, or have no memory for it: then it is not chosen.
    with attempt(device):
        how: dict[str, Any] = {"is_causal": shape.causal, "dropout_p": shape.dropout}
        if shape.shared_heads != shape.heads:
            how["enable_gqa"] = True
        if shape.mask:
            how["attn_mask"] = torch.ones(shape.batch, 1, 1, shape.length, dtype=torch.bool, device=device)
        once = passes(shape, kind, device, partial(attend, cudnn=False, **how))
        busy = torch.ones(SIZE, SIZE, device=device, dtype=kind)
        kernels = {TORCH: None, CUDNN: [SDPBackend.CUDNN_ATTENTION]}
        found |= {name: milliseconds(once, backends, busy) for name, backends in kernels.items()}
    return found


@contextmanager
def attempt(device: Any) -> Iterator[None]:
    """End at a RuntimeError; neither the random numbers nor the peak of memory of the training show the context."""
    with torch.random.fork_rng([device]):
        try:
            with suppress(RuntimeError):
                yield
        finally:
            torch.cuda.reset_peak_memory_stats(device)


def is_faster(milliseconds: Mapping[str, float]) -> bool:
    """Return whether cuDNN's kernel is to be taken."""
    return bool(milliseconds) and milliseconds[CUDNN] < FASTER * milliseconds[TORCH]


def passes(
    shape: Shape, kind: Any, device: Any, attention: Callable[[list[Any]], Any]
) -> Callable[[], tuple[Any, ...]]:
    """Return a pass of random queries, keys and values, as of one product, to attention's result and gradients."""
    own, shared = shape.heads * shape.head, shape.shared_heads * shape.head
    qkv = torch.randn(shape.batch, shape.length, own + 2 * shared, device=device, dtype=kind)
    parts = [
        part.view(shape.batch, shape.length, -1, shape.head).transpose(1, 2).detach().requires_grad_()
        for part in qkv.split((own, shared, shared), dim=2)
    ]
    outcome = torch.randn(shape.batch, shape.length, shape.heads, shape.head, device=device, dtype=kind)

    def once() -> tuple[Any, ...]:
        found = attention(parts)
        return found, *torch.autograd.grad(found, parts, outcome.transpose(1, 2))

    return once


def milliseconds(once: Callable[[], Any], backends: list[Any] | None, busy: Any) -> float:
    """Return the time of a pass by these kernels, or torch's choice; ``busy`` is a square matrix to get ahead with."""
    result = torch.empty_like(busy)
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def several(count: int) -> None:
        for _ in range(count):
            once()

    def timed() -> float:
        several(EAGER)
        for _ in range(AHEAD):
            torch.mm(busy, busy, out=result)
        first.record()
        several(TIMES)
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) / TIMES

    if backends is None:
        return timed()
    with sdpa_kernel(backends):
        return timed()
