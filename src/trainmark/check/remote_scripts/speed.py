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
MULTIPLIED = 1 << 14
"""Numbers that stay in a core's cache, and too few for a library to use several threads."""


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


def waited_s() -> float | None:
    """Return how long this thread has waited for a core since it began; None if the kernel does not count that."""
    try:
        with open("/proc/thread-self/schedstat") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return None


def throttlings() -> int:
    """Return how often a CPU quota has stopped this process; the kernel counts that as waiting for a core too."""
    count = 0
    for path in ("/sys/fs/cgroup", "/sys/fs/cgroup/cpu"):
        try:
            with open("/proc/self/cgroup") as file:
                own = file.readline().rstrip().rpartition(":")[2].strip("/").split("/")
        except OSError:
            own = []
        for depth in range(len(own) + 1):
            try:
                with open("/".join([path, *own[:depth], "cpu.stat"])) as file:
                    count += sum(int(line.split()[1]) for line in file if line.startswith("nr_throttled "))
            except OSError:
                pass
    return count


def one_core(multiply: Callable[[], object], round_s: float) -> float:
    """Return the mean seconds of a repeat on one thread over a round, without the time in which it waited for a core.

    Other processes lengthen that wait only, so that a slow core shows on a busy host too. Time for which the process is
    stopped counts, and so does the wait if a quota may be its cause.
    """
    multiply()
    repeats, throttled, waited, started = 0, throttlings(), waited_s(), time.perf_counter()
    while repeats == 0 or time.perf_counter() - started < round_s:
        for _ in range(100):
            multiply()
        repeats += 100
    took, now = time.perf_counter() - started, waited_s()
    if waited is not None and now is not None and throttlings() == throttled:
        took -= now - waited
    return took / repeats


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

    if not on_gpu:
        few, more, product = (torch.ones(MULTIPLIED) for _ in range(3))
        took = one_core(partial(torch.mul, few, more, out=product), round_s)
        yield timing("one-core", device, kind, float(MULTIPLIED), "FLOP", took, "fp32")
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
    few, more, product = (numpy.ones(MULTIPLIED, dtype=numpy.float32) for _ in range(3))
    took = one_core(partial(numpy.multiply, few, more, out=product), round_s)
    yield timing("one-core", device, kind, float(MULTIPLIED), "FLOP", took, "fp32")
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
