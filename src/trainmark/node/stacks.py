"""Stack dumps of hanging ranks, written by Python's fatal-error handler after a limit was exceeded.

Runs of several ranks are started with ``PYTHONFAULTHANDLER``, so that Python writes its stack on SIGABRT. All ranks of
a run are stopped first, because a rank that loses its peers meanwhile would move on. Ranks that are not Python, that
handle SIGABRT differently, or that run in a container write no stack.
"""

import os
import re
import resource
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from trainmark.node.processes import belongs_to_job, rank_processes

FAULTHANDLER_ENV = {"PYTHONFAULTHANDLER": "1"}
DUMP_LIMIT_S = 10.0
"""Time limit for a rank to write its stack and exit, in seconds."""

STDERR_DRAIN_S = 0.3
"""Time limit for the last output of an ended rank to arrive, in seconds."""

_MAX_FRAMES = 40
_CALLS = r" 0x\w+.*\(most recent call first\):\n((?:  .*\n)*)"
_THREAD = re.compile(rf"^(?:Current thread|Thread){_CALLS}", re.MULTILINE)
_CRASHED = re.compile(rf"^Current thread{_CALLS}", re.MULTILINE)
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)
_WAITS = re.compile(
    r"all_?reduce|all_?gather|reduce_scatter|all_?to_?all|barrier|broadcast|_engine_run_backward|synchronize"
    r"|wait_to_read|asnumpy|waitall|block_until_ready",
    re.IGNORECASE,
)
_WAITING_IN = re.compile(
    r"/(?:torch/distributed/(?!elastic)|horovod/|mpi4py/|paddle/distributed/communication/"
    r"|tensorflow/python/eager/(?:execute|context)|jax/_src/(?:array|dispatch|pjit|interpreters/pxla)"
    r"|mindspore/common/api|mindspore/common/_executor)"
)
_MAX_LISTED = 4


@dataclass(frozen=True, slots=True)
class Frame:
    """A stack frame."""

    file: str
    line: int
    function: str

    @property
    def waits_for_others(self) -> bool:
        """True if the call is, or contains, a collective operation."""
        return bool(_WAITS.search(self.function) or _WAITING_IN.search(self.file))

    def text(self) -> str:
        """Return the frame as text for a sentence."""
        return f"{self.function} ({Path(self.file).name}:{self.line})"


Stack = tuple[Frame, ...]
"""The frames of a rank's main thread, the innermost first."""


def stop_ranks(mark: str, leader: int) -> None:
    """Stop the ranks of a job, and launchers that would end the other ranks when one has ended."""
    for process in rank_processes(mark, leader).values():
        with suppress(psutil.Error, OSError):
            parent = process.parent()
            # A parent that reads a rank's output from a pipe must keep running, and so must our wrapper, which reaps
            # the aborted rank and ends no other.
            if (
                parent is not None
                and parent.pid not in (os.getpid(), leader)
                and belongs_to_job(parent, mark, leader)
                and _own_errors(process.pid).exists()
            ):
                parent.suspend()
            process.suspend()


def stacks(mark: str, leader: int, stderr_folder: Path) -> dict[int, Stack]:
    """Abort the ranks of a job that dump their stack, one after the other; return the stacks, () for a silent rank.

    ``stderr_folder`` is the folder in which our launcher saves each rank's standard error.
    """
    found: dict[int, Stack] = {}
    for rank, process in sorted(rank_processes(mark, leader).items(), reverse=True):
        with suppress(psutil.Error, OSError):
            own = _own_errors(process.pid)
            file = own if own.exists() else stderr_folder / f"stderr.rank{rank}"
            if _catches(process.pid, signal.SIGABRT):
                found[rank] = ()
                found[rank] = _abort_and_read(process, file)
    return found


def _abort_and_read(process: psutil.Process, file: Path) -> Stack:
    before = file.stat().st_size if file.exists() else 0
    _limit, most = process.rlimit(resource.RLIMIT_CORE)
    # A limit of 1 prevents core dumps to files and to a collecting program; 0 would not stop the latter.
    process.rlimit(resource.RLIMIT_CORE, (1 if most < 0 else min(1, most), most))
    process.send_signal(signal.SIGABRT)
    process.resume()
    deadline = time.monotonic() + DUMP_LIMIT_S
    while True:
        ended = not process.is_running() or process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        if ended:
            # Its output may still be in a pipe.
            deadline = min(deadline, time.monotonic() + STDERR_DRAIN_S)
        stack = read_stack(_since(file, before))
        if (ended and stack) or time.monotonic() > deadline:
            return stack
        time.sleep(0.02)


def read_stack(text: str) -> Stack:
    """Return the main thread's frames from the output of Python's fatal-error handler."""
    # The main thread is written last; the thread that received the signal may be another one.
    threads = _THREAD.findall(text)
    return _frames(threads[-1])[:_MAX_FRAMES] if threads else ()


def crash_location(text: str) -> str:
    """Return, as the end of a sentence, where the thread that received a fatal signal was; empty if unknown."""
    threads = _CRASHED.findall(text)
    if not threads:
        return ""
    frames = _frames(threads[-1])
    return f", in {frames[0].text()}" if frames else ", outside of Python code"


def _frames(calls: str) -> Stack:
    return tuple(Frame(file, int(line), function) for file, line, function in _FRAME.findall(calls))


def describe_missing_ranks(ranks: Mapping[int, Stack], hosts: Mapping[int, str]) -> str:
    """Return, as the end of a sentence, which ranks are missing where the others wait, and where each rank was."""
    there = {rank: f"rank {rank} on {hosts[rank]} was in {stack[0].text()}" for rank, stack in ranks.items()}
    # The innermost collective call describes a waiting rank best.
    waiting = {
        rank: f"rank {rank} on {hosts[rank]} waited in {frame.text()}"
        for rank, stack in ranks.items()
        if (frame := next((frame for frame in stack if frame.waits_for_others), None))
    }
    missing = [text for rank, text in there.items() if rank not in waiting]
    if missing and waiting:
        return f"; {_join_limited(missing)}, while {next(iter(waiting.values()))}"
    return f"; {_join_limited([waiting.get(rank, text) for rank, text in there.items()])}" if there else ""


def _join_limited(text: Sequence[str]) -> str:
    more = f" and {len(text) - _MAX_LISTED} more" if len(text) > _MAX_LISTED else ""
    return ", ".join(text[:_MAX_LISTED]) + more


def _own_errors(pid: int) -> Path:
    """Return the file of a process's standard error; the path does not exist if it is a pipe."""
    return Path(os.readlink(f"/proc/{pid}/fd/2"))  # noqa: PTH115 - it may not be a path


def _catches(pid: int, number: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    found = re.search(r"^SigCgt:\s*(\w+)$", status, re.MULTILINE)
    return found is not None and bool(int(found[1], 16) >> (number - 1) & 1)


def _since(file: Path, before: int) -> str:
    try:
        with file.open("rb") as opened:
            opened.seek(before)
            return opened.read(1 << 20).decode(errors="replace")
    except FileNotFoundError:
        return ""
