"""The work in a batch of tensors: its samples, or its tokens."""

from collections.abc import Iterator, Mapping
from typing import Any

TOKENS = "tokens"
SAMPLES = "samples"
_TOKEN_IDS = ("input_ids", "decoder_input_ids", "labels")


def work_of_batch(batch: Any, unit: str) -> int:
    """Return the ``samples`` or ``tokens`` of a batch: a tensor, a mapping or a sequence of tensors.

    Samples are the first dimension of its first tensor, tokens the elements of ``input_ids`` (padding counts), or of
    the first tensor. Raises ``ValueError`` for a batch without a tensor, and for another unit.
    """
    if unit not in (SAMPLES, TOKENS):
        raise ValueError(
            f"unit '{unit}': a batch has samples or tokens; count others with work=function_of_batch"
        )
    if unit == TOKENS and isinstance(batch, Mapping):
        named = next((batch[name] for name in _TOKEN_IDS if hasattr(batch.get(name), "shape")), None)
        batch = batch if named is None else named
    first = next(_tensors(batch), None)
    if first is None:
        raise ValueError("the batch has no tensor: count its work with work=function_of_batch")
    sizes = [int(size) for size in first.shape] or [1]
    if unit == SAMPLES:
        return sizes[0]
    count = 1
    for size in sizes:
        count *= size
    return count


def _tensors(value: Any) -> Iterator[Any]:
    if hasattr(value, "shape"):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _tensors(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _tensors(one)
