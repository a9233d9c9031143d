"""Ranks of one or more nodes that meet by sockets and add up their numbers; each keeps what it was given.

Rank 0 then is the fake training program.
"""

import os
import runpy
import socket
import sys
import time
from pathlib import Path

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
ADDRESS = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
BEHAVIOUR = next((word.partition("=")[2] for word in sys.argv if word.startswith("--behaviour=")), "well")


def gather() -> int:
    """Return the sum of 1 + rank over all ranks, as rank 0 adds it up."""
    if RANK == 0:
        with socket.create_server(ADDRESS) as server:
            links = [server.accept()[0] for _ in range(WORLD - 1)]
        total = 1 + sum(int(link.makefile().readline()) for link in links)
        for link in links:
            link.sendall(f"{total}\n".encode())
        return total
    for _ in range(600):
        try:
            link = socket.create_connection(ADDRESS)
            break
        except OSError:
            time.sleep(0.05)
    link.sendall(f"{1 + RANK}\n".encode())
    return int(link.makefile().readline())


with Path("pids").open("a", encoding="ascii") as pids:
    pids.write(f"{os.getpid()}\n")
total = gather()
Path(f"sum.rank{RANK}").write_text(str(total), encoding="ascii")
sys.stdout.write(f"rank {RANK} has {total}\n")
sys.stdout.flush()
if f"rank-{RANK}-raises" == BEHAVIOUR:
    raise ValueError("this is why")
if f"rank-{RANK}-hangs" == BEHAVIOUR:
    time.sleep(600)
if RANK == 0:
    runpy.run_path(str(Path(__file__).with_name("fake_training.py")), run_name="__main__")
