"""A small program of several ranks that average their gradients by gloo; its ranks are torchrun's or OpenMPI's.

Every rank prints each of its steps (with ``--quiet`` rank 0 alone), with the time that it computed.
"""

import argparse
import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=120)
parser.add_argument("--meet", default="env://")
parser.add_argument("--quiet", action="store_true", help="only rank 0 prints")
given = parser.parse_args()

torch.set_num_threads(1)
rank = int(os.environ.get("RANK") or os.environ["OMPI_COMM_WORLD_RANK"])
size = int(os.environ.get("WORLD_SIZE") or os.environ["OMPI_COMM_WORLD_SIZE"])
dist.init_process_group("gloo", given.meet, timedelta(seconds=120), size, rank)
torch.manual_seed(1)
weights = torch.zeros(64)
truth = torch.randn(64)
for step in range(given.steps):
    began = time.perf_counter()
    inputs = torch.randn(2048, 64)
    errors = inputs @ (weights - truth)
    gradient = inputs.T @ errors / len(inputs)
    computed = time.perf_counter()
    dist.all_reduce(gradient)
    weights -= 0.05 * gradient / size
    took = time.perf_counter() - began
    time.sleep(0.01)
    if given.quiet and rank:
        continue
    sys.stdout.write(
        f"step {step} loss {float(errors.pow(2).mean()):.4f} compute {computed - began:.6f} s took {took:.6f} s\n"
    )
    sys.stdout.flush()
dist.destroy_process_group()
