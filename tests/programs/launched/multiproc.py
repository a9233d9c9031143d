"""Starts the ranks of a node with the flags of NVIDIA's ``multiproc.py``.

Like that one it keeps what ranks other than 0 print in ``GPU_N.log``, and ends all of them once one has failed.
"""

import argparse
import os
import subprocess
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--nnodes", type=int, default=1)
parser.add_argument("--node_rank", type=int, default=0)
parser.add_argument("--nproc_per_node", type=int, default=1)
parser.add_argument("--master_addr", default="127.0.0.1")
parser.add_argument("--master_port", default="29500")
parser.add_argument("words", nargs=argparse.REMAINDER)
given = parser.parse_args()

ranks = []
for local_rank in range(given.nproc_per_node):
    place = {
        "MASTER_ADDR": given.master_addr,
        "MASTER_PORT": given.master_port,
        "WORLD_SIZE": str(given.nproc_per_node * given.nnodes),
        "RANK": str(given.nproc_per_node * given.node_rank + local_rank),
        "LOCAL_RANK": str(local_rank),
    }
    output = None if local_rank == 0 else open(f"GPU_{local_rank}.log", "w")  # noqa: PTH123, SIM115
    ranks.append(
        subprocess.Popen([sys.executable, "-u", *given.words], env={**os.environ, **place}, stdout=output)
    )
while any(rank.poll() is None for rank in ranks):
    time.sleep(1)
    if any(rank.poll() not in (None, 0) for rank in ranks):
        for rank in ranks:
            rank.terminate()
        sys.exit(1)
sys.exit(any(rank.returncode for rank in ranks))
