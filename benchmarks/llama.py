r"""Llama as it is trained now, on the GPUs of one host: FSDP2, FP8 and torchtitan's step, in turn.

Run it with a Python that has PyTorch; alone on one GPU, or by torchrun on several:

    PYTHON benchmarks/llama.py --contestants bf16 fp8 --one-by-one --json one.json
    torchrun --nproc-per-node=2 benchmarks/llama.py --contestants fsdp2-bf16 fsdp2-fp8 titan --json two.json

Blocks of steps take turns in random order (the same on every rank); with ``--one-by-one`` a contestant has all of its
blocks before the next one is opened, for models of which only one fits into memory. A block lasts from a barrier to the
end of its slowest rank. Printed are tokens/s of all GPUs, the median of the blocks and its 95 % interval, the ratio to
the first contestant, memory, and clock and power of rank 0's GPU, sampled 20 times a second.

``bf16`` and ``fp8``: the worker with ``torch.compile-fused``; ``fsdp2-…`` the same with ``--parallel=fsdp2``, with
``-ac`` selective activation checkpointing, with ``-packed`` packed documents (tokens/s are of all places;
``useful_share`` of them count in the loss), and with ``-packed-mask`` those by a mask instead of the kernel.
``titan``: the step of https://github.com/pytorch/torchtitan, written after
its recipe (``models/llama3``, ``llama3_8b.toml`` at 018740b): rotations of complex numbers, separate products for
queries, keys and values, repeated keys and values, SDPA that prefers cuDNN, each block compiled by itself, the loss
compiled, FSDP2 with BF16 weights and FP32 reductions, fused AdamW, clipped gradients. It ties the embedding to the
classifier, as this model does. torchtitan's FP8 needs torchao, which is not part of PyTorch.
"""

import argparse
import gc
import importlib
import json
import os
import random
import runpy
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from overhead import START, median_interval

WARM_UP = 8


class Opened(NamedTuple):
    """A contestant that is ready: one step, and its end."""

    step: Callable[[], Any]
    close: Callable[[], None]
    facts: dict[str, Any]


def main() -> int:
    """Measure the contestants, and print what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--contestants", nargs="+", required=True, metavar="NAME")
    parser.add_argument("--model", default="llama3.2_1b")
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=4, help="sequences of a GPU")
    parser.add_argument("--rounds", type=int, default=6, help="fewer than 6 give a range")
    parser.add_argument("--steps", type=int, default=10, help="of a block")
    parser.add_argument("--one-by-one", action="store_true")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--json", type=Path)
    own = parser.parse_args()

    import torch
    import torch.distributed as dist

    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if own.device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    if ranks > 1:
        dist.init_process_group("nccl" if own.device == "cuda" else "gloo")
        # One group for all contestants: none of them may end it.
        destroy, dist.destroy_process_group = dist.destroy_process_group, lambda *_: None
        dist.init_process_group = lambda *_, **__: None
    runpy.run_path(str(START))
    sampler = Sampler(own.device)
    found: dict[str, dict[str, Any]] = {}
    order = random.Random(1)
    if own.one_by_one:
        for name in own.contestants:
            measure(own, sampler, found, [name], order)
    else:
        measure(own, sampler, found, own.contestants, order)
    if rank == 0:
        tell(own, ranks, found)
    if ranks > 1:
        destroy()
    return 0


def measure(
    own: argparse.Namespace, sampler: "Sampler", found: dict[str, Any], names: list[str], order: random.Random
) -> None:
    """Open these contestants, let their blocks take turns, and close them."""
    import torch

    opened: dict[str, Opened] = {}
    for name in names:
        started, before = time.monotonic(), memory(own)
        if own.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        opened[name] = contestant(own, name)
        for _ in range(WARM_UP):
            opened[name].step()
        synchronize(own)
        found[name] = {"tokens_per_s": [], "mhz": [], "watts": [], **opened[name].facts}
        # What a contestant before it leaves is not freed at once, and would be taken off this one's.
        known = not (own.one_by_one and len(found) > 1)
        found[name]["memory_gib"] = round(memory(own, peak=True) - before, 2) if known else None
        found[name]["open_and_compile_s"] = round(time.monotonic() - started, 1)
    gc.collect()
    gc.freeze()
    gc.disable()
    for _ in range(own.rounds):
        for name in order.sample(names, len(names)):
            # One step that no clock sees: the caches are another contestant's.
            opened[name].step()
            rate, mhz, watts = block(own, sampler, opened[name].step)
            found[name]["tokens_per_s"].append(rate)
            found[name]["mhz"] += mhz
            found[name]["watts"] += watts
    gc.enable()
    gc.unfreeze()
    for one in opened.values():
        one.close()
    opened.clear()
    gc.collect()
    if own.device == "cuda":
        torch.cuda.empty_cache()


def block(
    own: argparse.Namespace, sampler: "Sampler", step: Callable[[], Any]
) -> tuple[float, list[int], list[float]]:
    """Return the tokens/s of a block on all ranks, and the samples of clock and power in it."""
    import torch
    import torch.distributed as dist

    ranks = dist.get_world_size() if dist.is_initialized() else 1
    synchronize(own)
    if ranks > 1:
        dist.barrier()
    sampler.start()
    started = time.perf_counter()
    for _ in range(own.steps):
        step()
    synchronize(own)
    seconds = torch.tensor(time.perf_counter() - started, dtype=torch.float64, device=own.device)
    mhz, watts = sampler.stop()
    if ranks > 1:
        dist.all_reduce(seconds, dist.ReduceOp.MAX)
    return own.steps * own.batch * own.length * ranks / float(seconds), mhz, watts


def synchronize(own: argparse.Namespace) -> None:
    import torch

    if own.device == "cuda":
        torch.cuda.synchronize()


def memory(own: argparse.Namespace, peak: bool = False) -> float:
    """Return the GiB that torch's tensors take on this rank's GPU."""
    import torch

    if own.device == "cpu":
        return 0.0
    return int(torch.cuda.max_memory_allocated() if peak else torch.cuda.memory_allocated()) / 2**30


class Sampler:
    """Samples clock and power of rank 0's GPU, 20 times a second, while a block runs."""

    def __init__(self, device: str) -> None:
        self._handle: Any = None
        self._on = False
        if device == "cuda" and os.environ.get("RANK", "0") == "0":
            try:
                self._nvml = importlib.import_module("pynvml")
                self._nvml.nvmlInit()
                visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
                self._handle = self._nvml.nvmlDeviceGetHandleByIndex(int(visible))
            except Exception as error:
                print(f"no power is sampled: {error}", file=sys.stderr)

    def start(self) -> None:
        self._mhz: list[int] = []
        self._watts: list[float] = []
        self._on = self._handle is not None
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()

    def _sample(self) -> None:
        while self._on:
            self._mhz.append(self._nvml.nvmlDeviceGetClockInfo(self._handle, 1))
            self._watts.append(self._nvml.nvmlDeviceGetPowerUsage(self._handle) / 1000)
            time.sleep(0.05)

    def stop(self) -> tuple[list[int], list[float]]:
        self._on = False
        self._thread.join()
        return self._mhz, self._watts


def contestant(own: argparse.Namespace, name: str) -> Opened:
    """Open a contestant by its name."""
    if name.startswith("titan"):
        return titan(own, selective=name.endswith("-ac"))
    flags = ["--compiler=none" if own.device == "cpu" else "--compiler=torch.compile-fused"]
    flags += ["--precision=fp8"] if "fp8" in name else ["--precision=amp-bf16"]
    flags += ["--parallel=fsdp2"] if name.startswith("fsdp2") else []
    flags += ["--activation-checkpointing=selective"] if "-ac" in name else []
    flags += ["--packing=documents"] if "-packed" in name else []
    return worker(own, flags, masked=name.endswith("-mask"))


def worker(own: argparse.Namespace, flags: list[str], masked: bool) -> Opened:
    """Open the worker's training with its default recipe, which is torchtitan's."""
    place = importlib.import_module("trainmark_worker.core.place").place_from()
    steps = WARM_UP + own.rounds * (own.steps + 1)
    given = [
        "--framework=pytorch", f"--model={own.model}", f"--sequence-length={own.length}", f"--device={own.device}",
        f"--batch-per-device={own.batch}", f"--steps={steps}", "--warmup-steps=1", *flags,
    ]  # fmt: skip
    settings = importlib.import_module("trainmark_worker.core.arguments").parse(given, place.world_size)
    trainer = importlib.import_module("trainmark_worker.models.pytorch_causal_lm")
    training = trainer.open_training(settings, place)
    if masked:
        training.model.attend_documents(None)
    work = training.task.work(settings, own.batch)
    facts = {
        "flags": flags,
        "attention": "mask" if masked else training._attention,
        "attention_ms": training._attention_ms,
        "useful_share": round(work.get("useful_tokens", work["tokens"]) / work["tokens"], 4),
        "operations_per_token": training.task.parameters(settings, 1)["operations_per_token"],
    }
    done = 0

    def step() -> None:
        nonlocal done
        training.step(done)
        if done == 0:
            training.actual()
        done += 1

    return Opened(step, lambda: None, facts)


def titan(own: argparse.Namespace, selective: bool) -> Opened:
    """Open torchtitan's step: the model, FSDP2, the optimizer and the loop of its recipe."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    from torch.nn import functional

    described = importlib.import_module("trainmark_worker.tasks.causal_lm.architectures").ARCHITECTURES[
        own.model
    ]
    torch.manual_seed(1)
    with torch.device(own.device):
        model = titan_model(described, own.length, selective)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == described.parameters(), f"{count} parameters"
    if own.device == "cuda":
        for block in model.blocks:
            block.compile(fullgraph=True)
    if not dist.is_initialized():
        dist.init_process_group(
            "nccl" if own.device == "cuda" else "gloo", store=dist.HashStore(), rank=0, world_size=1
        )
    mesh = init_device_mesh(own.device, (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=3e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=own.device == "cuda"
    )

    def loss_of(logits: Any, targets: Any) -> Any:
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(0, 1))

    compiled = torch.compile(loss_of) if own.device == "cuda" else loss_of
    generator = torch.Generator().manual_seed(dist.get_rank())
    batch = torch.randint(described.vocabulary, (own.batch, own.length + 1), generator=generator).to(
        own.device
    )
    tokens, targets = batch[:, :-1].contiguous(), batch[:, 1:].contiguous()
    parameters = list(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        logits = model(tokens)
        loss = compiled(logits, targets)
        del logits
        loss.backward()
        norm = torch.nn.utils.get_total_norm([one.grad for one in parameters], foreach=True).full_tensor()
        torch.nn.utils.clip_grads_with_norm_(parameters, 1.0, norm, foreach=True)
        optimizer.step()

    return Opened(step, lambda: None, {"recipe": "torchtitan 018740b"})


def titan_model(described: Any, length: int, selective: bool) -> Any:
    """Return Llama in the form of torchtitan's ``models/llama3``."""
    import torch
    from torch import nn
    from torch.nn import functional
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.checkpoint import checkpoint

    block_module = importlib.import_module("trainmark_worker.models.pytorch_decoders")
    backends = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
    width, head, inner = described.width, described.head, described.inner
    heads, shared = described.heads, described.shared_heads

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.attention_norm, self.ffn_norm = (nn.RMSNorm(width, eps=1e-5) for _ in range(2))
            self.wq = nn.Linear(width, heads * head, bias=False)
            self.wk, self.wv = (nn.Linear(width, shared * head, bias=False) for _ in range(2))
            self.wo = nn.Linear(heads * head, width, bias=False)
            self.w1, self.w3 = (nn.Linear(width, inner, bias=False) for _ in range(2))
            self.w2 = nn.Linear(inner, width, bias=False)

        def forward(self, x: Any, turns: Any) -> Any:
            if selective:
                return checkpoint(
                    self.body, x, turns, use_reentrant=False, preserve_rng_state=False,
                    context_fn=block_module._selective_contexts,
                )  # fmt: skip
            return self.body(x, turns)

        def body(self, x: Any, turns: Any) -> Any:
            batch, size, _ = x.shape
            given = self.attention_norm(x)
            queries = rotated(self.wq(given).view(batch, size, heads, head), turns)
            keys = repeated(rotated(self.wk(given).view(batch, size, shared, head), turns))
            values = repeated(self.wv(given).view(batch, size, shared, head))
            parts = (part.transpose(1, 2) for part in (queries, keys, values))
            with sdpa_kernel(backends, set_priority=True):
                attended = functional.scaled_dot_product_attention(*parts, is_causal=True)
            x = x + self.wo(attended.transpose(1, 2).contiguous().view(batch, size, -1))
            given = self.ffn_norm(x)
            return x + self.w2(functional.silu(self.w1(given)) * self.w3(given))

    def rotated(x: Any, turns: Any) -> Any:
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * turns[None, : x.shape[1], None]).flatten(3).type_as(x)

    def repeated(x: Any) -> Any:
        batch, size, count, own = x.shape
        times = heads // shared
        return (
            x[:, :, :, None].expand(batch, size, count, times, own).reshape(batch, size, count * times, own)
        )

    class Model(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.tok_embeddings = nn.Embedding(described.vocabulary, width)
            self.blocks = nn.ModuleList(Block() for _ in range(described.layers))
            self.norm = nn.RMSNorm(width, eps=1e-5)
            angles = torch.tensor(described.rotation.frequencies(head // 2))
            angles = torch.outer(torch.arange(length), angles).float()
            self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles), persistent=False)
            for parameter in self.parameters():
                if parameter.dim() == 2:
                    nn.init.trunc_normal_(parameter, std=0.02)

        def forward(self, tokens: Any) -> Any:
            x = self.tok_embeddings(tokens)
            for block in self.blocks:
                x = block(x, self.turns)
            return functional.linear(self.norm(x), self.tok_embeddings.weight)

    return Model()


def tell(own: argparse.Namespace, ranks: int, found: dict[str, dict[str, Any]]) -> None:
    """Print the medians and ratios, and write them with their blocks."""
    import torch

    result: dict[str, Any] = {
        "model": own.model, "length": own.length, "batch_per_gpu": own.batch, "gpus": ranks,
        "rounds": own.rounds, "steps_of_a_block": own.steps, "one_by_one": own.one_by_one,
        "torch": torch.__version__, "date": time.strftime("%Y-%m-%d"),
        "device": torch.cuda.get_device_name() if own.device == "cuda" else "cpu",
        "command": " ".join(sys.argv), "contestants": {},
    }  # fmt: skip
    first = found[own.contestants[0]]["tokens_per_s"]
    for name, one in found.items():
        rates = one.pop("tokens_per_s")
        ratios = [rate / base for rate, base in zip(rates, first, strict=True)]
        mhz, watts = (one.pop(key) for key in ("mhz", "watts"))
        (low, high), (ratio_low, ratio_high) = (
            median_interval(values) if len(values) >= 6 else (min(values), max(values))
            for values in (rates, ratios)
        )
        told = {
            "tokens_per_s": round(statistics.median(rates)),
            "interval": [round(low), round(high)],
            "ratio": round(statistics.median(ratios), 4),
            "ratio_interval": [round(ratio_low, 4), round(ratio_high, 4)],
            "mhz": round(statistics.mean(mhz)) if mhz else None,
            "watts": round(statistics.mean(watts)) if watts else None,
            "mj_per_token": round(1e3 * statistics.mean(watts) * ranks / statistics.median(rates), 3)
            if watts
            else None,
            "blocks": [round(rate) for rate in rates],
            **one,
        }
        result["contestants"][name] = told
        print(name, json.dumps(told), flush=True)
    if own.json:
        own.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
