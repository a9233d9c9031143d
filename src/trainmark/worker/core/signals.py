"""End the process at once, with a line on stderr, on SIGTERM or SIGINT.

A Python handler runs only when the main thread is back in the interpreter, and that thread may be waiting in a
collective for a lost rank. The wake-up descriptor is written by the C handler at once, and a thread that
reads it can end the process.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
from pathlib import Path

STOPPING = (signal.SIGTERM, signal.SIGINT)
PARENT_S = 0.5  # the interval at which a spawned process checks its parent
_PR_SET_PDEATHSIG = 1
_prctl = getattr(ctypes.CDLL(None), "prctl", None)


def exit_on_signal(rank: int) -> None:
    """Make SIGTERM and SIGINT end this process with 128 + the signal's number and a line on stderr."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    leaving = threading.Event()

    def leave() -> None:
        while True:
            for number in os.read(reader, 16):
                if number in STOPPING:
                    leaving.set()
                    name = signal.Signals(number).name
                    os.write(2, f"trainmark-worker: rank {rank}: stopped by {name}{doing()}\n".encode())
                    # Loader processes would notice only seconds later that their batches are not needed.
                    for child in multiprocessing.active_children():
                        child.terminate()
                    os._exit(128 + number)

    for number in STOPPING:
        # The C handler writes to the descriptor only if Python has a handler to call.
        signal.signal(number, lambda _number, _frame: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    worker = os.getpid()
    forking = [worker]

    def before() -> None:
        # A pool would replace the loader processes that are ended. MXNet may wait in a fork for an operator that needs
        # the interpreter's lock, which the fork holds: then this process would never end.
        while leaving.is_set() and os.getpid() == worker:
            time.sleep(PARENT_S)
        forking[0] = os.getpid()
        # A signal for a process that still has the worker's descriptor would end the worker.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)

    os.register_at_fork(
        before=before,
        after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING),
        after_in_child=lambda: _begin_fork(worker, forking[0]),
    )
    threading.Thread(target=leave, name="exit-when-told", daemon=True).start()


def doing() -> str:
    """Describe, as the end of a sentence, where the main thread is, because the other ranks may have waited there."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    # All programs wait in the same functions of Python's own library.
    while frame is not None and Path(frame.f_code.co_filename).parent == Path(os.__file__).parent:
        frame = frame.f_back
    if frame is None:
        return ""
    file = frame.f_code.co_filename
    # For a framework, its whole relative path, which shows whether it waits for other ranks.
    file = file.rpartition("site-packages/")[2] if "site-packages/" in file else Path(file).name
    return f", while it was in {frame.f_code.co_name} ({file}:{frame.f_lineno})"


def end_with_parent() -> None:
    """End this process soon after its parent process has ended.

    For spawned loader processes: the kernel's death signal belongs to the thread that starts a process, which a
    framework's loader may end long before its processes.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_S)
        os._exit(1)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()


def _begin_fork(worker: int, parent: int) -> None:
    """Reset the signals of a process that ``parent`` has forked, which inherits the descriptor, but not the thread.

    A loader process must end with the worker: one that a pool forks in the place of a terminated one would hold the log
    open, and wait for work forever.
    """
    signal.set_wakeup_fd(-1)
    for number in STOPPING:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
    if _prctl is not None and parent == worker:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # The worker may have ended before this process started to run.
        if os.getppid() != worker:
            os._exit(1)
