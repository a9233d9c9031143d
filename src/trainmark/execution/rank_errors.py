"""The last error of each rank of a run, from a node's log or the rank's own file, and its launcher's message.

``ranks.py`` keeps every rank's standard error as ``stderr.rankN``, ``paddle.distributed.launch`` all that a rank prints
as ``paddle/workerlog.N`` (of which the log repeats rank 0), NVIDIA's ``multiproc.py`` the standard output of all but
rank 0 as ``GPU_N.log``. ``mpirun --tag-output`` tags each piece of the log with its rank. PyTorch's ``spawn`` shows the
error of one rank only; the others' are kept as ``torch-spawn-error.N``, in no known order.
"""

import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainmark.logs.transport import Demultiplexer
from trainmark.node.local import SPAWN_ERROR, read_tail

UNKNOWN = -1
"""The rank of words that are one rank's, nobody knows whose."""

_FILES = ("stderr.rank{}", "paddle/workerlog.{}", "GPU_{}.log")
_NEXT_TO = "GPU_{}.log"
"""Of these the log holds more of every rank: the standard error."""
_TAG = re.compile(rb"\]<std(?:out|err|diag)>:")
_RULE = re.compile(rb"^-{74}$", re.MULTILINE)
"""What OpenMPI puts around a message of its own."""
_SPAWNED = re.compile(rb"^-- Process (\d+) terminated with the following error:$")
"""``torch.multiprocessing.spawn``: what follows is that rank's traceback."""

_ERROR = re.compile(
    rb"\s*(?:\[rank(?P<rank>\d+)\]:\s*)?(?P<text>"
    rb"[\w.]*(?:Error|Exception|Exit)(?::.*|$)|terminate called after throwing an instance of .*|what\(\): .*"
    rb"|Fatal Python error: (?!Aborted).*)"
)
"""The line of an exception; PyTorch puts the rank before it. Whoever aborts has mostly said why before."""
_FOLLOWS = re.compile(
    rb"[\w.]*(?:ChildFailedError|ProcessRaisedException|ProcessExitedException)\b|FatalError: `Process abort signal`"
)
"""What a launcher raises because a rank has failed, and what Paddle adds to every abort."""
_FATAL = re.compile(rb"^Fatal Python error: .*$", re.MULTILINE)
"""What Python's handler of fatal errors begins with: threads, their calls and names of libraries follow."""
_LOST = re.compile(
    rb"Connection (?:closed|reset) by peer|Connection refused|Broken pipe|gloo::(?:Io|Timeout)Exception"
    rb"|TIMEOUT self_rank|Timed out (?:waiting|after)|Socket Timeout|recvValue failed|Failed to recv, got 0 bytes"
    rb"|ncclRemoteError|remote process exit|NCCL[^.\n]{0,80}(?:remote|peer)"
    rb"|Horovod has been shut down|HorovodInternalError"
)
"""What gloo, NCCL, PyTorch's store and Horovod say in a rank that another one has left."""


@dataclass(frozen=True, slots=True)
class Stream:
    """The end of what one rank printed, or of what all did, untagged (``rank`` None)."""

    rank: int | None
    text: bytes


@dataclass(frozen=True, slots=True)
class ErrorLine:
    """An exception's line, and whose it is where that is known.

    ``lost`` when all it says is that another rank has gone.
    """

    rank: int | None
    line: bytes
    lost: bool


def read_streams(folder: Path, tails: Sequence[bytes]) -> list[Stream]:
    """Return the ends of what the ranks printed, as far apart as their launcher kept them.

    ``tails`` are the ends of the nodes' logs. Where the launcher keeps all of a rank's words elsewhere, the logs,
    which repeat them, are left out.
    """
    stored = {pattern: list(_retained(folder, pattern)) for pattern in _FILES}
    spawned = [Stream(UNKNOWN, stream.text) for stream in _retained(folder, SPAWN_ERROR)]
    separate = [*spawned, *(stream for found in stored.values() for stream in found)]
    whole = any(stored[pattern] for pattern in _FILES if pattern != _NEXT_TO)
    return separate if whole else [*separate, *(stream for tail in tails for stream in _by_tag(tail))]


def error_lines(of: list[Stream]) -> list[ErrorLine]:
    """Return the exceptions in what the ranks printed, those of one stream in their order."""
    # A rank's error as spawn keeps it is one traceback: what comes before its last line was caught.
    return [
        word
        for stream in of
        for word in (list(_words(stream))[-1:] if stream.rank == UNKNOWN else _words(stream))
    ]


def last_line(of: list[Stream]) -> bytes:
    """Return the last line that says something; of a fatal error of Python's, the first."""
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
    # What mpirun itself says at the end has no tag, and would be taken for the words of the rank before it.
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
class FailedRank:
    """A rank that a launcher reports as failed, and its exit code, negative for a signal."""

    rank: int
    code: int


def launcher_reports(text: bytes) -> list[FailedRank]:
    """Return the failed ranks that a launcher reports at the end of a log, the one that it saw first, first."""
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
    """Return the first message of OpenMPI's own in a log, as one line; nothing without one.

    With such a message mpirun ends when it could not start the ranks.
    """
    found = _OPENMPI_MESSAGE.search(text)
    return b" ".join(found[1].split()) if found else b""


def _number(name: str) -> int | None:
    return signal.Signals[name].value if name in signal.Signals.__members__ else None
