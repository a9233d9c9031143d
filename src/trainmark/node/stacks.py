"""Where each rank's Python is when a limit has passed: its own fatal-error handler says so, as its last word.

The jobs of a run of several ranks are started with ``PYTHONFAULTHANDLER``, so that Python answers SIGABRT with its
stack. All ranks of a run are stopped first: one that lost its peers in the meantime would no longer be where it was.
Ranks that are no Python, that handle SIGABRT in a way of their own, or run in a container say nothing.
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
ANSWER_S = 10.0
"""How long a rank may take to write its stack and end, seconds."""

LAST_WORDS_S = 0.3
"""How long what an ended rank wrote may be on its way, seconds."""

_MOST_FRAMES = 40
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
_MOST_NAMED = 4


@dataclass(frozen=True, slots=True)
class Frame:
    """A call that had not returned."""

    file: str
    line: int
    function: str

    @property
    def waits_for_others(self) -> bool:
        """Tell whether it is a collective operation, or what contains one."""
        return bool(_WAITS.search(self.function) or _WAITING_IN.search(self.file))

    def text(self) -> str:
        """Return it as a sentence has it."""
        return f"{self.function} ({Path(self.file).name}:{self.line})"


Stack = tuple[Frame, ...]
"""The calls of a rank's main thread, the innermost first."""


def stop_ranks(mark: str, leader: int) -> None:
    """Stop the ranks of a job where they are, and launchers that would end the others when one has ended."""
    for process in rank_processes(mark, leader).values():
        with suppress(psutil.Error, OSError):
            parent = process.parent()
            # Who reads a rank's words from a pipe must go on reading.
            ours = parent is not None and parent.pid != os.getpid() and belongs_to_job(parent, mark, leader)
            if parent is not None and ours and _own_errors(process.pid).exists():
                parent.suspend()
            process.suspend()


def stacks(mark: str, leader: int, kept: Path) -> dict[int, Stack]:
    """End the ranks of a job that can be asked, one after the other; return where each was, nothing where it is silent.

    ``kept`` is the folder in which a launcher of ours keeps the ranks' standard error apart.
    """
    found: dict[int, Stack] = {}
    for rank, process in sorted(rank_processes(mark, leader).items(), reverse=True):
        with suppress(psutil.Error, OSError):
            own = _own_errors(process.pid)
            file = own if own.exists() else kept / f"stderr.rank{rank}"
            if _catches(process.pid, signal.SIGABRT):
                found[rank] = ()
                found[rank] = _ask(process, file)
    return found


def _ask(process: psutil.Process, file: Path) -> Stack:
    before = file.stat().st_size if file.exists() else 0
    _limit, most = process.rlimit(resource.RLIMIT_CORE)
    # 1: no image in a file, and none to a program that collects them, which 0 would not keep from it.
    process.rlimit(resource.RLIMIT_CORE, (1 if most < 0 else min(1, most), most))
    process.send_signal(signal.SIGABRT)
    process.resume()
    deadline = time.monotonic() + ANSWER_S
    while True:
        ended = not process.is_running() or process.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        if ended:
            # What it wrote may still be on its way through a pipe.
            deadline = min(deadline, time.monotonic() + LAST_WORDS_S)
        stack = read_stack(_since(file, before))
        if (ended and stack) or time.monotonic() > deadline:
            return stack
        time.sleep(0.02)


def read_stack(text: str) -> Stack:
    """Return the main thread's calls in what Python's handler of fatal errors has written."""
    # The youngest thread is written first, and the one that has got the signal need not be the main one.
    threads = _THREAD.findall(text)
    return _frames(threads[-1])[:_MOST_FRAMES] if threads else ()


def crash_location(text: str) -> str:
    """Return, as the end of a sentence, where the thread was that a fatal signal met; nothing where nobody wrote it."""
    threads = _CRASHED.findall(text)
    if not threads:
        return ""
    frames = _frames(threads[-1])
    return f", in {frames[0].text()}" if frames else ", in no call of Python's"


def _frames(calls: str) -> Stack:
    return tuple(Frame(file, int(line), function) for file, line, function in _FRAME.findall(calls))


def describe_missing_ranks(ranks: Mapping[int, Stack], hosts: Mapping[int, str]) -> str:
    """Return, as the end of a sentence, which ranks were not where the others wait, and where they all were."""
    there = {rank: f"rank {rank} on {hosts[rank]} was in {stack[0].text()}" for rank, stack in ranks.items()}
    # The innermost waiting call says the most of a rank that waits.
    waiting = {
        rank: f"rank {rank} on {hosts[rank]} waited in {frame.text()}"
        for rank, stack in ranks.items()
        if (frame := next((frame for frame in stack if frame.waits_for_others), None))
    }
    missing = [said for rank, said in there.items() if rank not in waiting]
    if missing and waiting:
        return f"; {_listed(missing)}, while {next(iter(waiting.values()))}"
    return f"; {_listed([waiting.get(rank, said) for rank, said in there.items()])}" if there else ""


def _listed(said: Sequence[str]) -> str:
    more = f" and {len(said) - _MOST_NAMED} more" if len(said) > _MOST_NAMED else ""
    return ", ".join(said[:_MOST_NAMED]) + more


def _own_errors(pid: int) -> Path:
    """Return the file that a process's standard error goes to; one that is not there where that is a pipe."""
    return Path(os.readlink(f"/proc/{pid}/fd/2"))  # noqa: PTH115 - it may be no path


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
