"""What each rank of a run said last: in the run's log, or where its launcher keeps a rank's output by itself.

``ranks.py`` keeps every rank's standard error as ``stderr.rankN``, ``paddle.distributed.launch`` all that a rank prints
as ``paddle/workerlog.N`` (of which the log repeats rank 0), NVIDIA's ``multiproc.py`` the standard output of all but
rank 0 as ``GPU_N.log``. ``mpirun --tag-output`` tags each piece of the log with its rank.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainmark.logs.transport import Demultiplexer

TAIL_BYTES = 64 * 1024

_FILES = ("stderr.rank{}", "paddle/workerlog.{}", "GPU_{}.log")
_BESIDE = "GPU_{}.log"
"""Of these the log holds more of every rank: the standard error."""
_TAG = re.compile(rb"\]<std(?:out|err|diag)>:")
_RULE = re.compile(rb"^-{74}$", re.MULTILINE)
"""What OpenMPI puts around a message of its own."""
_SPAWNED = re.compile(rb"^-- Process (\d+) terminated with the following error:$")
"""``torch.multiprocessing.spawn``: what follows is that rank's traceback."""

_ERROR = re.compile(
    rb"\s*(?:\[rank(?P<rank>\d+)\]:\s*)?(?P<text>"
    rb"[\w.]*(?:Error|Exception|Exit)(?::.*|$)|terminate called after throwing an instance of .*|what\(\): .*)"
)
"""The line of an exception; PyTorch puts the rank before it."""
_FOLLOWS = re.compile(
    rb"[\w.]*(?:ChildFailedError|ProcessRaisedException|ProcessExitedException)\b|FatalError: `Process abort signal`"
)
"""What a launcher raises because a rank has failed, and what Paddle adds to every abort."""
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
class Word:
    """An exception's line, and whose it is where that is known.

    ``lost`` when all it says is that another rank has gone.
    """

    rank: int | None
    line: bytes
    lost: bool


def read_tail(path: Path) -> bytes:
    """Return the end of a file, nothing for one that is not there."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL_BYTES))
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return b""


def streams(log: Path) -> list[Stream]:
    """Return the ends of what the ranks printed, as far apart as their launcher kept them.

    Where the launcher keeps all of a rank's words elsewhere, the log, which repeats them, is left out.
    """
    kept = {pattern: list(_kept(log.parent, pattern)) for pattern in _FILES}
    apart = [stream for found in kept.values() for stream in found]
    whole = any(kept[pattern] for pattern in _FILES if pattern != _BESIDE)
    return apart if whole else [*apart, *_by_tag(read_tail(log))]


def words(of: list[Stream]) -> list[Word]:
    """Return the exceptions in what the ranks printed, those of one stream in their order."""
    return [word for stream in of for word in _words(stream)]


def _kept(folder: Path, pattern: str) -> Iterator[Stream]:
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


def _words(stream: Stream) -> Iterator[Word]:
    rank = stream.rank
    for line in re.split(rb"[\r\n]+", stream.text):
        if spawned := _SPAWNED.match(line):
            rank = int(spawned[1])
        elif (found := _ERROR.match(line)) and not _FOLLOWS.match(found["text"]):
            whose = int(found["rank"]) if found["rank"] else rank
            yield Word(whose, found["text"], _LOST.search(line) is not None)
