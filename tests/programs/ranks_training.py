"""One of several ranks that train nothing: rank 0 is the fake program, another one misbehaves as it is told."""

import os
import runpy
import signal
import sys
from pathlib import Path

RANK = int(os.environ.get("RANK", "0"))
PLACE = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

sys.stdout.write("place " + " ".join(os.environ.get(name, "-") for name in PLACE) + "\n")
sys.stdout.flush()
if RANK == 0:
    runpy.run_path(str(Path(__file__).with_name("fake_training.py")), run_name="__main__")
else:
    with Path("pids").open("a", encoding="ascii") as pids:
        pids.write(f"{os.getpid()}\n")
    if "--behaviour=rank-1-dies" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    if "--behaviour=hangs" in sys.argv:
        while True:
            signal.pause()
    if "--behaviour=well" in sys.argv:
        sys.exit("rank 1 has something to say")
