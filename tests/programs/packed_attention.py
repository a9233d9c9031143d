"""Attention within documents by FlashAttention's interface, emulated on a CPU, beside a mask; prints JSON.

``distances``: of results and gradients, with as many heads of keys and with fewer. ``losses``: of a model by the mask
and by the interface, for each model. ``ends``: the first places of documents that the interface gets of two sequences.
"""

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "trainmark" / "worker"))
importlib.import_module("start")


def of(name: str) -> Any:
    return importlib.import_module(f"trainmark_worker.{name}")


packed: Any = of("pytorch_fast.packed_attention")
DOCUMENTS = torch.tensor([[1, 1, 1, 2, 2, 3, 0, 0], [1, 1, 1, 1, 1, 1, 1, 1]])


def by_documents(queries: Any, keys: Any, values: Any, ends: Any, others: Any, *how: Any) -> tuple[Any, ...]:
    """Attend in each document by itself, as the kernel does: rows are (tokens, heads, head)."""
    longest, same, dropout, causal, _ = how
    assert (ends is others, longest, dropout, causal) == (True, same, 0.0, True)
    assert ends.dtype == torch.int32
    group, found = queries.shape[1] // keys.shape[1], []
    for first, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        assert end - first <= longest
        parts = [part[first:end].transpose(0, 1) for part in (queries, keys, values)]
        parts[1:] = [part.repeat_interleave(group, dim=0) for part in parts[1:]]
        found.append(functional.scaled_dot_product_attention(*parts, is_causal=True).transpose(0, 1))
    return torch.cat(found), None


class Operators:
    """Torch's operators, of which one is emulated."""

    _flash_attention_forward = staticmethod(by_documents)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.ops.aten, name)


class Torch:
    """Torch with these operators."""

    ops = SimpleNamespace(aten=Operators())

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


def distances(shared: int) -> list[float]:
    shape = of("pytorch_fast.attention").Shape(2, 8, 4, shared, 16, causal=True)
    results = []
    for varlen in (False, True):
        torch.manual_seed(1)
        results.append(packed._passes(shape, DOCUMENTS, torch.float32, torch.device("cpu"), varlen)())
    return [float((one - other).abs().max()) for one, other in zip(*results, strict=True)]


def losses(model: str) -> list[float]:
    flags = [f"--model={model}", "--sequence-length=48", "--batch-per-device=4", "--packing=documents"]
    words = ["--framework=pytorch", "--device=cpu", "--threads=1", "--steps=9", "--warmup-steps=1", *flags]
    place = of("core.place").place_from({})
    own = of("models.pytorch_causal_lm").open_training(of("core.arguments").parse(words, 1), place)
    found = []
    for most in (None, packed.most_of(own.batch[1])):
        own.model.attend_documents(most)
        with torch.no_grad():
            found.append(float(own.model(*own.prepared(1))))
    return found


if __name__ == "__main__":
    packed.torch = Torch()
    told = {
        "distances": {shared: distances(shared) for shared in (4, 2)},
        "losses": {model: losses(model) for model in ("gpt2_tiny", "llama_tiny")},
        "ends": packed.ends_of(packed.starts_of(DOCUMENTS)[0], 5).tolist(),
        "positions": packed.starts_of(DOCUMENTS)[1].tolist(),
    }
    sys.stdout.write(json.dumps(told) + "\n")
