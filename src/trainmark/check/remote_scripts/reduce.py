"""All-reduce timings over ranks with torch.distributed, by message size; runs in a framework's environment.

    RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 MASTER_ADDR=A MASTER_PORT=P python -c THIS '{"device": "cpu", "sizes": [4096]}'

The first rank of each host prints one line of JSON; rank 0's has the times.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import time


def print_result(value: object) -> None:
    """Print a result as one tagged JSON line."""
    sys.stdout.write("\nTRAINMARK " + json.dumps(value) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Time the all-reduce of each size; the slowest rank's time counts."""
    options = json.loads(sys.argv[1])
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    try:
        import torch
        import torch.distributed as dist
    except ImportError:
        print_result({"problem": "this environment has no torch"})
        sys.exit(1)
    try:
        on_gpu = options["device"] != "cpu"
        device = f"cuda:{os.environ['LOCAL_RANK']}" if on_gpu else "cpu"
        if on_gpu:
            torch.cuda.set_device(device)
        backend = "nccl" if on_gpu else "gloo"
        patience = datetime.timedelta(seconds=options["timeout_s"])
        dist.init_process_group(backend, timeout=patience)
        found = []
        for size in options["sizes"]:
            values = torch.ones(size // 4, device=device)
            seconds = []
            for number in range(options["repeats"] + 2):
                values.fill_(1.0)
                dist.barrier()
                started = time.perf_counter()
                dist.all_reduce(values)
                if on_gpu:
                    torch.cuda.synchronize()
                took = torch.tensor([time.perf_counter() - started], dtype=torch.float64, device=device)
                dist.all_reduce(took, op=dist.ReduceOp.MAX)
                if number >= 2:
                    seconds.append(took.item())
            if not bool((values == float(world)).all()):
                print_result({"problem": f"the sum over {world} ranks of ones was {values[0].item()}"})
                sys.exit(1)
            found.append({"size": size, "seconds": seconds})
        dist.barrier()
        dist.destroy_process_group()
    except Exception as error:
        lines = str(error).splitlines() or [""]
        print_result({"problem": f"rank {rank}: {type(error).__name__}: {lines[0][:200]}"})
        sys.exit(1)
    if rank == 0:
        print_result({"backend": backend, "reductions": found})
    elif os.environ["LOCAL_RANK"] == "0":
        print_result({"took_part": True})


if __name__ == "__main__":
    main()
