"""One round of timings on a host's devices; runs in a framework's environment, with torch or else numpy.

    python -c THIS '{"devices": ["cpu"], "round_s": 0.3, "precisions": ["fp32", "bf16"]}'

Devices are ``cpu`` and ``cuda:N``. A matrix product is timed in each precision that the library and the device have.
Prints one line of JSON.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from functools import partial
from typing import Any, Callable, Iterator

COPIED = 1 << 27


def print_result(value: object) -> None:
    """Print a result as one tagged JSON line."""
    sys.stdout.write("\nTRAINMARK " + json.dumps(value) + "\n")
    sys.stdout.flush()


def cpu() -> str:
    """Return the CPU's model; only devices of the same model are compared."""
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def mean(work: Callable[[], object], ready: Callable[[], object], round_s: float) -> float:
    """Return the mean seconds of a repeat over a round, after one untimed repeat.

    The fastest repeat would hide a device that is stalled now and then for some milliseconds.
    """
    work()
    ready()
    repeats, started = 0, time.perf_counter()
    while repeats == 0 or time.perf_counter() - started < round_s:
        work()
        ready()
        repeats += 1
    return (time.perf_counter() - started) / repeats


def timing(
    quantity: str,
    device: str,
    kind: str,
    amount: float,
    unit: str,
    seconds: float,
    precision: str | None = None,
) -> dict[str, Any]:
    """Return one timing as a dictionary of the result."""
    options = {"quantity": quantity, "device": device, "kind": kind, "amount": amount, "unit": unit}
    return {**options, "precision": precision, "seconds": [seconds]}


def with_torch(torch: Any, device: str, round_s: float, precisions: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the timings of one device; a GPU is synchronised after each repeat."""
    on_gpu = device != "cpu"
    kind = torch.cuda.get_device_name(device) if on_gpu else cpu()
    size, copied = (8192, 8 * COPIED) if on_gpu else (1024, COPIED)

    def ready() -> None:
        if on_gpu:
            torch.cuda.synchronize(device)

    types = {"fp32": torch.float32, "tf32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
    for precision in precisions:
        if precision == "tf32" and not on_gpu:
            continue
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        # Values around zero, as weights and gradients have: they draw more power than values of one sign.
        one, other = (torch.randn(size, size, device=device).to(types[precision]) for _ in range(2))
        took = mean(partial(torch.mm, one, other, out=torch.empty_like(one)), ready, round_s)
        yield timing("matrix-product", device, kind, 2.0 * size**3, "FLOP", took, precision)
    source = torch.ones(copied, dtype=torch.uint8, device=device)
    target = torch.zeros(copied, dtype=torch.uint8, device=device)
    took = mean(lambda: target.copy_(source), ready, round_s)
    yield timing("memory-copy", device, kind, 2.0 * copied, "bytes", took)
    if on_gpu:
        here = torch.ones(COPIED, dtype=torch.uint8).pin_memory()
        there = torch.zeros(COPIED, dtype=torch.uint8, device=device)
        took = mean(lambda: there.copy_(here, non_blocking=True), ready, round_s)
        yield timing("host-to-device", device, kind, float(COPIED), "bytes", took)


def with_numpy(numpy: Any, device: str, round_s: float, _: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the timings of the CPU in FP32: numpy supports no other device, and computes in no narrow format."""
    if device != "cpu":
        raise RuntimeError("this environment has no torch, and numpy runs on the CPU only")
    size, kind = 1024, cpu()
    random = numpy.random.default_rng(1)
    one, other = (random.random((size, size), dtype=numpy.float32) for _ in range(2))
    into = numpy.empty_like(one)
    took = mean(lambda: numpy.matmul(one, other, out=into), lambda: None, round_s)
    yield timing("matrix-product", device, kind, 2.0 * size**3, "FLOP", took, "fp32")
    source, target = (numpy.full(COPIED, value, dtype=numpy.uint8) for value in (1, 2))
    took = mean(lambda: numpy.copyto(target, source), lambda: None, round_s)
    yield timing("memory-copy", device, kind, 2.0 * COPIED, "bytes", took)


def main() -> None:
    """Time every requested device with torch, or else numpy."""
    options = json.loads(sys.argv[1])
    library: Any
    measure: Callable[[Any, str, float, list[str]], Iterator[dict[str, Any]]]
    try:
        try:
            import torch

            library, measure = torch, with_torch
        except ImportError:
            import numpy

            library, measure = numpy, with_numpy
        words = (options["round_s"], options["precisions"])
        timings = [one for device in options["devices"] for one in measure(library, device, *words)]
    except Exception as error:
        lines = str(error).splitlines() or [""]
        print_result({"problem": f"{type(error).__name__}: {lines[0]}"})
        return
    print_result({"with": f"{library.__name__} {library.__version__}", "timings": timings})


if __name__ == "__main__":
    main()
