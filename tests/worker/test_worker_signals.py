"""No loader process outlives its worker, however the worker ends."""

import subprocess
import sys
import time

from worker_process import WORKER

from fakes import alive

POOL_THAT_REPLACES_ITS_PROCESSES = f"""
import multiprocessing, os, sys, time
sys.path.insert(0, {str(WORKER)!r})
import start
from trainmark_worker.core.signals import exit_when_told

exit_when_told(rank=0)
pool = multiprocessing.get_context("fork").Pool(2)
first = {{child.pid for child in multiprocessing.active_children()}}
for child in multiprocessing.active_children():
    child.terminate()
while len(later := {{child.pid for child in multiprocessing.active_children()}} - first) < 2:
    time.sleep(0.01)
print(*later, flush=True)
if sys.argv[1] == "killed":
    os.kill(os.getpid(), 9)
os._exit(3)
"""


def test_processes_that_a_pool_forks_while_the_worker_leaves_end_with_it() -> None:
    for ending in ("left", "killed"):
        done = subprocess.run(
            [sys.executable, "-c", POOL_THAT_REPLACES_ITS_PROCESSES, ending],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        children = [int(word) for word in done.stdout.split()]
        assert len(children) == 2, done.stderr
        deadline = time.monotonic() + 10
        while any(alive(child) for child in children) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not [child for child in children if alive(child)]
