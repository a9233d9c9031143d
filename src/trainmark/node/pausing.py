"""A program that is paused and continued with all of its processes, by SIGSTOP and SIGCONT."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import psutil

from trainmark.errors import InputError, TrainmarkError
from trainmark.node import exec_wrapper
from trainmark.node.processes import MARK, end_all, marked_pids, read_node, read_wait_s
from trainmark.node.telemetry import ArrivalClock
from trainmark.schema.names import ARRIVALS, LOG
from trainmark.training_loop import STEP_LINES_VARIABLE

LOOK_S = 0.002
"""Seconds between two looks at the log: a block of seconds is measured to about a thousandth."""

_STOP_S = 5.0
"""Seconds within which all processes of a program must have stopped."""

_POLL_S = 0.001


@dataclass(frozen=True, slots=True)
class Contention:
    """Counters of a program's competition for CPUs, in seconds since some start.

    ``busy_s`` is the work of all processes on the CPUs that the program may use, of the ``total_s`` that these had,
    ``own_s`` the work of its processes and ``waits_s`` the time for which the main thread of each process was ready
    and waited for a CPU.
    """

    total_s: float
    busy_s: float
    own_s: Mapping[int, float]
    waits_s: Mapping[int, float]

    def shares_until(self, end: "Contention", seconds: float) -> tuple[float, float] | None:
        """Return the share of ``seconds`` for which the program waited for others, and that of the CPUs that they used.

        None if the kernel does not count it. A program with more threads than CPUs waits for its own threads too: no
        more counts than others worked.
        """
        total_s = end.total_s - self.total_s
        if not end.waits_s or seconds <= 0 or total_s <= 0:
            return None
        own = sum(used - self.own_s.get(pid, 0.0) for pid, used in end.own_s.items())
        others = max(0.0, end.busy_s - self.busy_s - own)
        waited = max(waited - self.waits_s.get(pid, 0.0) for pid, waited in end.waits_s.items())
        return min(waited, others, seconds) / seconds, others / total_s


class PausableProgram:
    """A context manager: a program whose output is in ``folder`` and which ends with the context.

    Its processes are those of its session, their descendants, and those with its mark (see ``node.processes``).
    """

    def __init__(self, words: Sequence[str], folder: Path, work_dir: Path) -> None:
        self._words, self._folder, self._work_dir = tuple(words), folder, work_dir
        self._mark = str(folder.resolve())
        self._variables = {MARK: self._mark, "PYTHONUNBUFFERED": "1", STEP_LINES_VARIABLE: "1"}
        self._known: set[int] = set()
        self._cleanup = contextlib.ExitStack()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "PausableProgram":
        """Start the program; raise ``InputError`` if its folder cannot be written."""
        log = self._folder / LOG
        wrapper = [sys.executable, "-I", "-S", exec_wrapper.__file__, str(os.getpid()), "0", "-"]
        try:
            output = self._cleanup.enter_context(log.open("wb"))
        except OSError as error:
            raise InputError(f"{log}: cannot be written: {error.strerror}") from None
        self._cleanup.enter_context(ArrivalClock(log, self._folder / ARRIVALS, LOOK_S))
        self._process = subprocess.Popen(
            [*wrapper, *self._words],
            cwd=self._work_dir,
            env={**os.environ, **self._variables},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all processes of the program; stopped ones are continued, so that they receive the signal."""
        assert self._process is not None
        try:
            self.resume()
            end_all(self._mark, self._process.pid)
            with contextlib.suppress(OSError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        finally:
            self._cleanup.close()

    @property
    def code(self) -> int | None:
        """The program's exit code; None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def find_processes(self) -> None:
        """Find the processes that left the program's session, by their mark; a search of the whole machine."""
        self._known |= set(marked_pids(self._mark))

    def pause(self) -> None:
        """Stop all processes; raise ``TrainmarkError`` if one does not stop."""
        self._signal_group(signal.SIGSTOP)
        deadline = time.monotonic() + _STOP_S
        # A process may have started another one just before it stopped.
        while running := [process for process in self._processes() if not _has_stopped(process)]:
            if time.monotonic() > deadline:
                raise TrainmarkError(f"process {running[0].pid} of {self._folder} does not stop (SIGSTOP)")
            for process in running:
                with contextlib.suppress(psutil.Error):
                    process.suspend()
            time.sleep(_POLL_S)

    def resume(self) -> None:
        """Continue all processes."""
        for process in self._processes():
            with contextlib.suppress(psutil.Error):
                process.resume()
        self._signal_group(signal.SIGCONT)

    def contention(self) -> Contention:
        """Return the counters of this moment."""
        own: dict[int, float] = {}
        waits: dict[int, float] = {}
        for process in self._processes():
            waited_s = read_wait_s(process.pid)
            with contextlib.suppress(psutil.Error):
                own[process.pid] = sum(process.cpu_times()[:4])
                if waited_s is not None:
                    waits[process.pid] = waited_s
        node = read_node(cpus=os.sched_getaffinity(0), memory=False)
        return Contention(node.total_s, node.busy_s, own, waits)

    def _signal_group(self, number: signal.Signals) -> None:
        assert self._process is not None
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, number)

    def _processes(self) -> list[psutil.Process]:
        assert self._process is not None
        found: dict[int, psutil.Process] = {}
        for pid in (self._process.pid, *self._known):
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                found |= {one.pid: one for one in (process, *process.children(recursive=True))}
        return list(found.values())


def _has_stopped(process: psutil.Process) -> bool:
    try:
        return process.status() in (
            psutil.STATUS_STOPPED,
            psutil.STATUS_TRACING_STOP,
            psutil.STATUS_ZOMBIE,
            psutil.STATUS_DEAD,
        )
    except psutil.Error:
        return True
