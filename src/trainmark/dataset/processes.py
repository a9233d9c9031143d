"""Spreading work over processes that die with their parent and leave Ctrl-C to it."""

import os
import signal
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, get_context, parent_process
from typing import TypeVar

from trainmark.errors import TrainmarkError

Task = TypeVar("Task")
Done = TypeVar("Done")
ProgressListener = Callable[[int, int], None]
"""Called with (how many are done, of how many); ever from the process and thread that asked for the work."""


def available_cores() -> int:
    """Return how many cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spread(work: Callable[[Task], Done], tasks: Sequence[Task], jobs: int) -> Generator[Done, None, None]:
    """Yield ``work(task)`` for each task, as they end, from ``jobs`` processes (this one alone, if 1).

    ``work`` and the tasks must be picklable. What ``work`` raises is raised here. However the iteration ends
    (close the iterator when leaving it early), what has not begun is dropped and no process is left behind.
    """
    if jobs <= 1 or len(tasks) <= 1:
        yield from map(work, tasks)
        return
    # Spawned, because the caller may have threads, and a fork copies their locks in whatever state they are.
    pool = ProcessPoolExecutor(min(jobs, len(tasks)), get_context("spawn"), _die_with_parent)
    try:
        # The processes start here and keep this mask: Ctrl-C reaches the whole group, and only the parent answers.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            waiting = [pool.submit(work, task) for task in tasks]
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for future in as_completed(waiting):
            yield future.result()
    except BrokenProcessPool:
        raise TrainmarkError("a helper process was killed (out of memory?); fewer --jobs need less") from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _die_with_parent() -> None:
    """Watch the parent, so that none of us outlives one that was killed by signal 9."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
