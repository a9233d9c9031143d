"""Map work over processes that die with their parent and leave Ctrl-C to it."""

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
Result = TypeVar("Result")
ProgressListener = Callable[[int, int], None]
"""Called with (done, total), always in the process and thread that started the work."""


def available_cores() -> int:
    """Return the number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_in_processes(
    work: Callable[[Task], Result], tasks: Sequence[Task], jobs: int
) -> Generator[Result, None, None]:
    """Yield ``work(task)`` for each task in order of completion, from ``jobs`` processes (this process if 1).

    ``work`` and the tasks must be picklable. An exception in ``work`` is raised here. When the iteration ends (close
    the iterator when leaving it early), pending tasks are dropped and no process remains.
    """
    if jobs <= 1 or len(tasks) <= 1:
        yield from map(work, tasks)
        return
    # Spawn, because the caller may have threads, and a fork would copy their locks in an arbitrary state.
    pool = ProcessPoolExecutor(min(jobs, len(tasks)), get_context("spawn"), _die_with_parent)
    try:
        # The processes inherit this mask: Ctrl-C reaches the whole group, but only the parent handles it.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            futures = [pool.submit(work, task) for task in tasks]
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool:
        raise TrainmarkError("a helper process was killed (out of memory?); use fewer --jobs") from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _die_with_parent() -> None:
    """Exit when the parent ends, so that no helper outlives a parent that was killed by signal 9."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
