"""What launchers print when a rank has failed: which one it was, and how it ended."""

import re
import signal
from dataclasses import dataclass

_TORCHRUN = re.compile(
    rb"^\[\d+\]:\n[^\[]*?\brank\s*:\s*(\d+) \(local_rank[^\[]*?\bexitcode\s*:\s*(-?\d+)", re.MULTILINE
)
"""One rank in the report with which torchrun ends (``ChildFailedError``); the root cause comes last."""
_RANKS = re.compile(rb"^trainmark-ranks: rank (\d+) ended with exit code (-?\d+)$", re.MULTILINE)
"""The line with which ``ranks.py`` ends when a rank failed."""
_MPIRUN_EXIT = re.compile(rb"^ *Process name: \[\S*,(\d+)\]\n *Exit code: +(-?\d+)$", re.MULTILINE)
"""OpenMPI 4 writes ``[[5007,1],1]``, OpenMPI 5 ``[prterun-host-4299@1,1]``: the rank comes last."""
_MPIRUN_SIGNAL = re.compile(
    rb"noticed that process rank (\d+) with PID \d+ on\s+node \S+\s+exited\s+on\s+signal (\d+)"
)
_OPENMPI_MESSAGE = re.compile(rb"^-{74}\n(.*?)^-{74}$", re.MULTILINE | re.DOTALL)
_PADDLE = re.compile(rb"^Container rank (\d+) status failed cmd \[[^\n]*\] code (-?\d+) log ", re.MULTILINE)
"""``paddle.distributed.launch`` names the first of its list that has failed, whoever failed first."""
_SPAWN_CODE = re.compile(rb"ProcessExitedException: process (\d+) terminated with exit code (-?\d+)")
_SPAWN_SIGNAL = re.compile(rb"ProcessExitedException: process (\d+) terminated with signal (\w+)")
"""``torch.multiprocessing.spawn``; an exception it quotes instead, with the rank (``last_words.py``)."""


@dataclass(frozen=True, slots=True)
class Report:
    """A rank that a launcher reports as failed, and its exit code, negative for a signal."""

    rank: int
    code: int


def reports(text: bytes) -> list[Report]:
    """Return the failed ranks that a launcher reports at the end of a log, the one that it saw first, first."""
    for pattern in (_TORCHRUN, _RANKS, _MPIRUN_EXIT, _PADDLE, _SPAWN_CODE):
        if found := pattern.findall(text):
            return [Report(int(rank), int(code)) for rank, code in found][::-1]
    if found := _MPIRUN_SIGNAL.findall(text):
        return [Report(int(rank), -int(number)) for rank, number in found]
    return [
        Report(int(rank), -number)
        for rank, name in _SPAWN_SIGNAL.findall(text)
        if (number := _number(name.decode())) is not None
    ]


def openmpi_message(text: bytes) -> bytes:
    """Return the first message of OpenMPI's own in a log, as one line; nothing without one.

    With such a message mpirun ends when it could not start the ranks.
    """
    found = _OPENMPI_MESSAGE.search(text)
    return b" ".join(found[1].split()) if found else b""


def _number(name: str) -> int | None:
    return signal.Signals[name].value if name in signal.Signals.__members__ else None
