"""The last error of each rank of a run, from a node's log or the rank's own file, and its launcher's message.

``ranks.py`` saves every rank's standard error as ``stderr.rankN``, ``paddle.distributed.launch`` all output of a rank
as ``paddle/workerlog.N`` (the log repeats rank 0's), NVIDIA's ``multiproc.py`` the standard output of all ranks but 0
as ``GPU_N.log``. ``mpirun --tag-output`` tags each piece of the log with its rank. PyTorch's ``spawn`` prints the error
of one rank only; the others' are saved as ``torch-spawn-error.N``, in unknown order.
"""

import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainmark.logs.transport import Demultiplexer
from trainmark.node.local import SPAWN_ERROR, read_tail

UNKNOWN = -1
"""The rank of output that belongs to a single but unknown rank."""

_FILES = ("stderr.rank{}", "paddle/workerlog.{}", "GPU_{}.log")
_NEXT_TO = "GPU_{}.log"
"""For these launchers the log has more of every rank: the standard error."""
_TAG = re.compile(rb"\]<std(?:out|err|diag)>:")
_RULE = re.compile(rb"^-{74}$", re.MULTILINE)
"""The frame around OpenMPI's own messages."""
_SPAWNED = re.compile(rb"^-- Process (\d+) terminated with the following error:$")
"""``torch.multiprocessing.spawn``: that rank's traceback follows."""

_ERROR = re.compile(
    rb"\s*(?:\[rank(?P<rank>\d+)\]:\s*)?(?P<text>"
    rb"[\w.]*(?:Error|Exception|Exit)(?::.*|$)|terminate called after throwing an instance of .*|what\(\): .*"
    rb"|Fatal Python error: (?!Aborted).*)"
)
"""The line of an exception, which PyTorch prefixes with the rank; it usually precedes an abort."""
_FOLLOWS = re.compile(
    rb"[\w.]*(?:ChildFailedError|ProcessRaisedException|ProcessExitedException)\b|FatalError: `Process abort signal`"
)
"""Exceptions that a launcher raises because a rank has failed, and Paddle's line after every abort."""
_FATAL = re.compile(rb"^Fatal Python error: .*$", re.MULTILINE)
"""The first line of Python's handler of fatal errors; threads, their calls and library names follow."""
_LOST = re.compile(
    rb"Connection (?:closed|reset) by peer|Connection refused|Broken pipe|gloo::(?:Io|Timeout)Exception"
    rb"|TIMEOUT self_rank|Timed out (?:waiting|after)|Socket Timeout|recvValue failed|Failed to recv, got 0 bytes"
    rb"|ncclRemoteError|remote process exit|NCCL[^.\n]{0,80}(?:remote|peer)"
    rb"|Horovod has been shut down|HorovodInternalError"
)
"""Messages of gloo, NCCL, PyTorch's store and Horovod in a rank that lost its peer."""


@dataclass(frozen=True, slots=True)
class Stream:
    """The end of one rank's output, or of all ranks' untagged output (``rank`` None)."""

    rank: int | None
    text: bytes


@dataclass(frozen=True, slots=True)
class ErrorLine:
    """An exception's line, and its rank if known.

    ``lost`` is true if it only reports that another rank is gone.
    """

    rank: int | None
    line: bytes
    lost: bool


def read_streams(folder: Path, tails: Sequence[bytes]) -> list[Stream]:
    """Return the ends of the ranks' output, separated as far as their launcher separates it.

    ``tails`` are the ends of the nodes' logs. If the launcher saves all output of a rank in other files, the logs,
    which repeat it, are left out.
    """
    stored = {pattern: list(_retained(folder, pattern)) for pattern in _FILES}
    spawned = [Stream(UNKNOWN, stream.text) for stream in _retained(folder, SPAWN_ERROR)]
    separate = [*spawned, *(stream for found in stored.values() for stream in found)]
    whole = any(stored[pattern] for pattern in _FILES if pattern != _NEXT_TO)
    return separate if whole else [*separate, *(stream for tail in tails for stream in _by_tag(tail))]


def error_lines(of: list[Stream]) -> list[ErrorLine]:
    """Return the exceptions in the ranks' output, in order within each stream."""
    # A rank's error saved by spawn is one traceback: exceptions before its last line were caught.
    return [
        word
        for stream in of
        for word in (list(_words(stream))[-1:] if stream.rank == UNKNOWN else _words(stream))
    ]


def last_line(of: list[Stream]) -> bytes:
    """Return the last meaningful line; for a fatal error of Python, the first one."""
    reported = [
        stream.text[: fatal[-1].end()] if (fatal := list(_FATAL.finditer(stream.text))) else stream.text
        for stream in of
    ]
    lines = [line for text in reported for line in re.split(rb"[\r\n]+", text)]
    return next((line for line in reversed(lines) if line.strip(b" =-\t")), b"")


def _retained(folder: Path, pattern: str) -> Iterator[Stream]:
    before, after = pattern.split("{}")
    for path in sorted(folder.glob(pattern.format("*"))):
        number = str(path.relative_to(folder))[len(before) :].removesuffix(after)
        if number.isdigit():
            yield Stream(int(number), read_tail(path))


def _by_tag(tail: bytes) -> list[Stream]:
    tags = list(_TAG.finditer(tail))
    if not tags:
        return [Stream(None, tail)]
    # mpirun's own message at the end has no tag, and would be attributed to the preceding rank.
    report = _RULE.search(tail, tags[-1].end())
    of_ranks = tail if report is None else tail[: report.start()]
    demultiplexer = Demultiplexer()
    parts = [*demultiplexer.split(of_ranks), *demultiplexer.rest()]
    return [Stream(rank, text) for rank, text in parts]


def _words(stream: Stream) -> Iterator[ErrorLine]:
    rank = stream.rank
    for line in re.split(rb"[\r\n]+", stream.text):
        if spawned := _SPAWNED.match(line):
            rank = int(spawned[1])
        elif (found := _ERROR.match(line)) and not _FOLLOWS.match(found["text"]):
            whose = int(found["rank"]) if found["rank"] else rank
            yield ErrorLine(whose, found["text"], _LOST.search(line) is not None)


_TORCHRUN = re.compile(
    rb"^\[\d+\]:\n[^\[]*?\brank\s*:\s*(\d+) \(local_rank[^\[]*?\bexitcode\s*:\s*(-?\d+)", re.MULTILINE
)
"""One rank in torchrun's final report (``ChildFailedError``); the root cause comes last."""
_RANKS = re.compile(rb"^trainmark-ranks: rank (\d+) ended with exit code (-?\d+)$", re.MULTILINE)
"""The last line of ``ranks.py`` after a rank failed."""
_MPIRUN_EXIT = re.compile(rb"^ *Process name: \[\S*,(\d+)\]\n *Exit code: +(-?\d+)$", re.MULTILINE)
"""OpenMPI 4 writes ``[[5007,1],1]``, OpenMPI 5 ``[prterun-host-4299@1,1]``: the rank comes last."""
_MPIRUN_SIGNAL = re.compile(
    rb"noticed that process rank (\d+) with PID \d+ on\s+node \S+\s+exited\s+on\s+signal (\d+)"
)
_OPENMPI_MESSAGE = re.compile(rb"^-{74}\n(.*?)^-{74}$", re.MULTILINE | re.DOTALL)
_PADDLE = re.compile(rb"^Container rank (\d+) status failed cmd \[[^\n]*\] code (-?\d+) log ", re.MULTILINE)
"""``paddle.distributed.launch`` names the first failed rank of its list, which may not be the first that failed."""
_SPAWN_CODE = re.compile(rb"ProcessExitedException: process (\d+) terminated with exit code (-?\d+)")
_SPAWN_SIGNAL = re.compile(rb"ProcessExitedException: process (\d+) terminated with signal (\w+)")
"""``torch.multiprocessing.spawn``; an exception is quoted instead, with the rank."""


@dataclass(frozen=True, slots=True)
class FailedRank:
    """A rank that a launcher reports as failed, and its exit code, negative for a signal."""

    rank: int
    code: int


def launcher_reports(text: bytes) -> list[FailedRank]:
    """Return the failed ranks that a launcher reports at the end of a log, in the order of its observation."""
    for pattern in (_TORCHRUN, _RANKS, _MPIRUN_EXIT, _PADDLE, _SPAWN_CODE):
        if found := pattern.findall(text):
            return [FailedRank(int(rank), int(code)) for rank, code in found][::-1]
    if found := _MPIRUN_SIGNAL.findall(text):
        return [FailedRank(int(rank), -int(number)) for rank, number in found]
    return [
        FailedRank(int(rank), -number)
        for rank, name in _SPAWN_SIGNAL.findall(text)
        if (number := _number(name.decode())) is not None
    ]


def openmpi_message(text: bytes) -> bytes:
    """Return the first message of OpenMPI itself in a log, as one line; empty without one.

    mpirun ends with such a message if it could not start the ranks.
    """
    found = _OPENMPI_MESSAGE.search(text)
    return b" ".join(found[1].split()) if found else b""


def _number(name: str) -> int | None:
    return signal.Signals[name].value if name in signal.Signals.__members__ else None
