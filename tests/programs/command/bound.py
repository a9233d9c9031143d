"""A program that trains nothing, bound by a planted cause: a loader that sleeps, or processors that are missing.

``--load`` seconds of each step are a sleep of the loader, ``--work`` seconds are spent on a processor. With ``--pin``
it may use one processor only; with ``--times`` it prints the time of a step and of its data.
"""

import argparse
import os
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--load", type=float, default=0.0)
parser.add_argument("--work", type=float, default=0.02)
parser.add_argument("--times", action="store_true")
parser.add_argument("--pin", action="store_true")
given = parser.parse_args()
if given.pin:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
for step in range(given.steps):
    began = time.perf_counter()
    time.sleep(given.load)
    data_s = time.perf_counter() - began
    used = time.thread_time()
    while time.thread_time() - used < given.work:
        pass
    took_s = time.perf_counter() - began
    times = f" | step_time {took_s:.5f} s | data_time {data_s:.5f} s" if given.times else ""
    sys.stdout.write(f"step {step} | loss {1 / (step + 1):.4f}{times}\n")
    sys.stdout.flush()
