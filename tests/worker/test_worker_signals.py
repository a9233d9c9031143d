"""No loader process outlives its worker, however the worker ends."""

import signal
import subprocess
import sys
import time
from subprocess import PIPE

from worker_process import LONG_S, WORKER, end_group

from fakes import alive

POOL_THAT_REPLACES_ITS_PROCESSES = f"""
import multiprocessing, os, sys, time
sys.path.insert(0, {str(WORKER)!r})
import start
from trainmark_worker.core.signals import exit_on_signal

exit_on_signal(rank=0)
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

A_FORK_THAT_BEGINS_WHEN_THE_WORKER_HAS_GONE = f"""
import os, sys, time
sys.path.insert(0, {str(WORKER)!r})
import start
from trainmark_worker.core.signals import exit_on_signal

def wait_for_its_end(worker=os.getpid()):
    while os.getppid() == worker:
        time.sleep(0.01)

# Hooks run in the order of their registration.
os.register_at_fork(after_in_child=wait_for_its_end)
exit_on_signal(rank=0)
if pid := os.fork():
    print(pid, flush=True)
    os._exit(3)
time.sleep(10_000)
"""


def ended(code: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run Python to its end; both pipes are at theirs when nobody holds them any more."""
    return subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=LONG_S, check=False
    )


def test_a_process_that_is_forked_in_the_workers_last_moment_ends_with_it() -> None:
    done = ended(A_FORK_THAT_BEGINS_WHEN_THE_WORKER_HAS_GONE)
    assert done.returncode == 3, done.stderr
    wait_for_the_end_of([int(done.stdout)])


def test_processes_that_a_pool_forks_while_the_worker_leaves_end_with_it() -> None:
    for ending in ("left", "killed"):
        done = ended(POOL_THAT_REPLACES_ITS_PROCESSES, ending)
        children = [int(word) for word in done.stdout.split()]
        assert len(children) == 2, done.stderr
        wait_for_the_end_of(children)


A_CHILD_THAT_IS_TOLD_TO_END_BEFORE_ITS_FIRST_TURN = f"""
import os, signal, sys, time
sys.path.insert(0, {str(WORKER)!r})
import start
from trainmark_worker.core.signals import exit_on_signal

# Hooks after the fork run in the order of their registration: this one before the worker's own.
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))
exit_on_signal(rank=0)
if pid := os.fork():
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    time.sleep(0.2)
    os._exit(0)
time.sleep(10_000)
"""


def test_a_child_that_is_told_to_end_in_its_first_moment_does_not_end_the_worker() -> None:
    done = ended(A_CHILD_THAT_IS_TOLD_TO_END_BEFORE_ITS_FIRST_TURN)
    assert (done.returncode, done.stdout, done.stderr) == (0, "-15\n", "")


A_FORK_THAT_NEVER_ENDS_WHILE_LOADERS_ARE_ENDED = f"""
import ctypes, multiprocessing, os, signal, sys, time
from multiprocessing.process import BaseProcess
sys.path.insert(0, {str(WORKER)!r})
import start
from trainmark_worker.core.signals import exit_on_signal

started = []

def wait_with_the_lock():
    if len(started) == 2:
        ctypes.PyDLL(None).sleep(10_000)
    started.append(None)

# Hooks before the fork run in the opposite order: this one, as a framework's own in C, is the last.
os.register_at_fork(before=wait_with_the_lock)
exit_on_signal(rank=0)
pool = multiprocessing.get_context("fork").Pool(2)
end = BaseProcess.terminate
# Long enough for the pool to see that a process has ended.
BaseProcess.terminate = lambda process: (end(process), time.sleep(0.5))
print(flush=True)
time.sleep(10_000)
"""


def test_no_process_is_forked_while_the_worker_leaves() -> None:
    command = [sys.executable, "-c", A_FORK_THAT_NEVER_ENDS_WHILE_LOADERS_ARE_ENDED]
    with subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "\n"
            process.terminate()
            _, stderr = process.communicate(timeout=20)
        finally:
            end_group(process)

    assert process.returncode == 128 + signal.SIGTERM
    assert "stopped by SIGTERM" in stderr


def wait_for_the_end_of(children: list[int]) -> None:
    deadline = time.monotonic() + LONG_S
    while any(alive(child) for child in children) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not [child for child in children if alive(child)]
