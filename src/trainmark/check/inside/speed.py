"""One round of timings on a host's devices; run inside a framework's environment, with torch or else numpy.

    python -c THIS '{"devices": ["cpu"], "round_s": 0.3}'

Devices are ``cpu`` and ``cuda:N``. Prints one line of JSON.
"""

import json
import platform
import sys
import time

COPIED = 1 << 27


def say(value):
    sys.stdout.write("\nTRAINMARK " + json.dumps(value) + "\n")
    sys.stdout.flush()


def cpu():
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def fastest(work, ready, round_s):
    """Return the seconds of the fastest of the repeats that fit into a round, after one that is not timed."""
    work()
    ready()
    best, end = None, time.perf_counter() + round_s
    while best is None or time.perf_counter() < end:
        began = time.perf_counter()
        work()
        ready()
        took = time.perf_counter() - began
        best = took if best is None else min(best, took)
    return best


def timing(quantity, device, kind, amount, unit, seconds):
    return {
        "quantity": quantity, "device": device, "kind": kind, "amount": amount, "unit": unit, "seconds": [seconds],
    }  # fmt: skip


def with_torch(torch, devices, round_s):
    for device in devices:
        on_gpu = device != "cpu"
        kind = torch.cuda.get_device_name(device) if on_gpu else cpu()
        size, copied = (8192, 8 * COPIED) if on_gpu else (1024, COPIED)

        def ready(device=device, on_gpu=on_gpu):
            if on_gpu:
                torch.cuda.synchronize(device)

        one, other = (torch.rand(size, size, device=device) for _ in range(2))
        into = torch.empty(size, size, device=device)
        took = fastest(lambda: torch.mm(one, other, out=into), ready, round_s)
        yield timing("matrix-product", device, kind, 2.0 * size**3, "FLOP", took)
        source = torch.ones(copied, dtype=torch.uint8, device=device)
        target = torch.zeros(copied, dtype=torch.uint8, device=device)
        took = fastest(lambda: target.copy_(source), ready, round_s)
        yield timing("memory-copy", device, kind, 2.0 * copied, "bytes", took)
        if on_gpu:
            here = torch.ones(COPIED, dtype=torch.uint8).pin_memory()
            there = torch.ones(COPIED, dtype=torch.uint8, device=device)
            took = fastest(lambda: there.copy_(here, non_blocking=True), ready, round_s)
            yield timing("host-to-device", device, kind, float(COPIED), "bytes", took)


def with_numpy(numpy, devices, round_s):
    if "cpu" not in devices:
        raise RuntimeError("there is no torch in this environment, and numpy computes on the CPU alone")
    size, kind = 1024, cpu()
    random = numpy.random.default_rng(1)
    one, other = (random.random((size, size), dtype=numpy.float32) for _ in range(2))
    into = numpy.empty_like(one)
    took = fastest(lambda: numpy.matmul(one, other, out=into), lambda: None, round_s)
    yield timing("matrix-product", "cpu", kind, 2.0 * size**3, "FLOP", took)
    source, target = numpy.full(COPIED, 1, dtype=numpy.uint8), numpy.full(COPIED, 2, dtype=numpy.uint8)
    took = fastest(lambda: numpy.copyto(target, source), lambda: None, round_s)
    yield timing("memory-copy", "cpu", kind, 2.0 * COPIED, "bytes", took)


def main():
    about = json.loads(sys.argv[1])
    try:
        try:
            import torch as library

            measure = with_torch
        except ImportError:
            import numpy as library

            measure = with_numpy
        timings = list(measure(library, about["devices"], about["round_s"]))
    except Exception as error:
        lines = str(error).splitlines() or [""]
        say({"problem": "%s: %s" % (type(error).__name__, lines[0])})
        return
    say({"with": "%s %s" % (library.__name__, library.__version__), "timings": timings})


if __name__ == "__main__":
    main()
