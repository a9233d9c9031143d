"""Ranks of a small program without a framework, of torchrun, mpirun or srun, each with lines for its steps.

``--slow`` names the host (or the rank) that waits longer for its data, ``--own-pace`` lets it take longer steps too.
``--fork 2`` starts that many ranks itself, with OpenMPI's tags; with ``--logs FOLDER`` each has a file, as by torchrun.
"""

import argparse
import os
import socket
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=80)
parser.add_argument("--slow", default="")
parser.add_argument("--own-pace", action="store_true")
parser.add_argument("--times", action="store_true", help="print the time of a step and of its data")
parser.add_argument("--fork", type=int, default=0)
parser.add_argument("--logs", type=Path)
given = parser.parse_args()

rank = int(
    os.environ.get("RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("SLURM_PROCID") or 0
)
tag = ""
for number in range(given.fork):
    if not os.fork():
        rank, tag = number, f"[1,{number}]<stdout>:"
        break
else:
    for _ in range(given.fork):
        os.wait()
    if given.fork:
        sys.exit()

slow = given.slow in (socket.gethostname(), str(rank))
out = sys.stdout
if given.logs is not None:
    path = given.logs / "none_1" / "attempt_0" / str(rank) / "stdout.log"
    path.parent.mkdir(parents=True)
    out = path.open("w")
for step in range(given.steps):
    began = time.perf_counter()
    time.sleep(0.016 if slow else 0.004)
    data_s = time.perf_counter() - began
    left_s = 0.004 if given.own_pace else 0.02 - data_s
    time.sleep(max(left_s, 0))
    took_s = time.perf_counter() - began
    times = f" | step_time {took_s:.5f} s | data_time {data_s:.5f} s" if given.times else ""
    out.write(f"{tag}step {step} | loss {1 / (step + 1):.4f}{times}\n")
    out.flush()
