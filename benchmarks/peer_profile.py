"""Kernel times of a contestant's step by kind, from torch's profiler."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

STEPS = 6
MOST_KERNELS = 15
KINDS = {
    "optimizer": r"multi_tensor_apply|adam",
    "matmul": r"^triton_tem|gemm|nvjet|cutlass|xmma|cublas|splitk",
    "loss": r"^triton.*(softmax|nll_loss|cross_entropy)|cross_entropy|^_?loss",
    "attention": r"^(?!triton_).*(fmha|flash|sdpa|attention)",
}
"""Patterns of kernel names, the first that matches; Inductor's own kernels are named after all they fuse."""


def kind_of(kernel: str) -> str:
    """Return the kind of work of a kernel; ``rest``: norms, activations, dropout, embeddings and copies."""
    name = kernel.lower()
    for kind, pattern in KINDS.items():
        if re.search(pattern, name):
            return kind
    return "rest"


def kernel_times(block: Callable[[int], float]) -> dict[str, Any]:
    """Return milliseconds a step by kind, the span of a step on the GPU, and the slowest kernels by name."""
    import torch
    from torch.autograd import DeviceType

    block(STEPS)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        block(STEPS)
    kernels = [event for event in profiler.events() if event.device_type == DeviceType.CUDA]
    times: Counter[str] = Counter()
    for event in kernels:
        times[event.name] += event.time_range.elapsed_us() / 1e3 / STEPS
    kinds: Counter[str] = Counter()
    for name, ms in times.items():
        kinds[kind_of(name)] += ms
    first = min((event.time_range.start for event in kernels), default=0)
    last = max((event.time_range.end for event in kernels), default=0)
    return {
        "steps": STEPS,
        "span_ms_per_step": round((last - first) / 1e3 / STEPS, 4),
        "ms_per_step": {kind: round(ms, 4) for kind, ms in kinds.most_common()},
        "slowest": [
            {"name": name[:120], "kind": kind_of(name), "ms_per_step": round(ms, 4)}
            for name, ms in times.most_common(MOST_KERNELS)
        ],
    }
