"""Classify the end of a run: an outcome with a reason, from exit codes, logs, events and the last error of each rank.

``ranks.py`` saves every rank's standard error as ``stderr.rankN``, ``paddle.distributed.launch`` all output of a rank
as ``paddle/workerlog.N`` (the log repeats rank 0's), NVIDIA's ``multiproc.py`` the standard output of all ranks but 0
as ``GPU_N.log``. ``mpirun --tag-output`` tags each piece of the log with its rank. PyTorch's ``spawn`` prints the error
of one rank only; the others' are saved as ``torch-spawn-error.N``, in unknown order.
"""

import re
import signal
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainmark.logs.events import read_events
from trainmark.logs.lines.transport import Demultiplexer
from trainmark.node.local import SPAWN_ERROR, read_tail
from trainmark.node.stacks import Frame, crash_location
from trainmark.printable import printable_line
from trainmark.schema.outcome import Outcome, RankOutcome

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
_OOM = re.compile(
    rb"CUDA out of memory|OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY|can't allocate memory|MemoryError\b"
    rb"|Resource exhausted: OOM|RESOURCE_EXHAUSTED|ResourceExhaustedError|std::bad_alloc|Cannot allocate memory"
    rb"|out of memory",
    re.IGNORECASE,
)
_DOING = re.compile(r", while it was in (?P<place>(?P<function>\S+) \((?P<file>.+):(?P<line>\d+)\))$")
"""The place of a built-in worker's rank when it was ended or lost its peer (``worker/core/signals.py``)."""
_STOPPED = re.compile(rb"^trainmark-worker: rank (\d+): (stopped by SIGTERM, while .*)$", re.MULTILINE)
_NO_SPACE = re.compile(rb"No space left on device")
ABORTED_FOR_STACK = "trainmark ended it to get its stack"
ENDED_BY_TRAINMARK = "trainmark ended it"
"""The reason next to a signal that trainmark sent."""
_RANK = {Outcome.OOM: 0, Outcome.UNSUPPORTED: 1, Outcome.INVALID: 2, Outcome.FAILED: 3}
"""If several ranks report their end, the first outcome in this order is the cause; the others are consequences."""


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


@dataclass(frozen=True, slots=True)
class NodeExit:
    """The end of a node's first process: exit code (negative: a signal), and the kernel's OOM kills during the run.

    ``log`` is the log of all processes of the node.
    """

    code: int
    oom_kills: int
    log: Path
    node: int = 0


@dataclass(frozen=True, slots=True)
class _Run:
    """The end of a run with ``ranks`` ranks: its first node that failed, and the kernel's OOM kills."""

    code: int
    oom_kills: int
    ranks: int
    program: str


def classify(ended: Sequence[NodeExit], events: Path, ranks: int = 1) -> tuple[Outcome, str | None]:
    """Return the outcome of a run that ended without trainmark's intervention, and the reason unless it is ``ok``.

    ``ended`` are its nodes in the order in which they ended. The program's own report comes first, then signals and
    exit codes, then the end of its logs. A run with exit code 0 on all nodes is ``ok`` here, even if it has no
    measurement.
    """
    sentence, lost = _what_the_ranks_say(events)
    if sentence is not None:
        return sentence
    bad = next((node for node in ended if node.code != 0), None)
    if bad is None:
        return Outcome.OK, None
    tails = [read_tail(node.log) for node in ended]
    printed = read_streams(events.parent, tails)
    if lost and (separate := _ranks_elsewhere(events, printed, ranks)) is not None:
        return Outcome.FAILED, separate
    # If each node runs one rank, the node's log is that rank's log.
    alone = ranks == len(ended) > 1
    if alone and all(stream.rank is None for stream in printed):
        printed = [Stream(node.node, tail) for node, tail in zip(ended, tails, strict=True)]
    everything = [*printed, *(Stream(None, tail) for tail in tails)]
    # Use the last match: a program may have recovered from an earlier one and ended for another reason.
    if (found := _last(_OOM, everything)) is not None:
        return Outcome.OOM, f"out of memory{_on(found)}: {_readable(found.line)}"
    if (found := _last(_NO_SPACE, everything)) is not None:
        return Outcome.FAILED, f"a disk is full: {_readable(found.line)}"
    among = f"rank {bad.node}" if ranks == len(ended) else f"the program on node {bad.node}"
    program = "the program" if len(ended) == 1 else among
    run = _Run(bad.code, sum(node.oom_kills for node in ended), ranks, program)
    reported = [report for tail in tails for report in launcher_reports(tail)]
    if (report := _first_cause(reported, lost)) is not None:
        return _by_report(report, run, printed, reported)
    ranks_ended = [FailedRank(node.node, node.code) for node in ended if node.code] if alone else []
    return _by_words(run, printed, next(filter(None, map(openmpi_message, tails)), b""), ranks_ended)


def rank_outcomes(
    ended: Sequence[NodeExit],
    events: Path,
    codes: dict[int, int],
    per_node: int,
    dumped: Collection[int] = (),
) -> tuple[RankOutcome, ...]:
    """Return the known ends of ranks: by ``codes``, by a launcher's report, or by the rank's own events.

    ``codes`` are observed exit codes; ``per_node`` is the number of ranks of a node. ``dumped`` are ranks that
    trainmark ended by requesting their stack; that is not the cause of the failure.
    """
    described = {
        report.rank: report.code for node in ended for report in launcher_reports(read_tail(node.log))
    } | codes
    printed = error_lines(read_streams(events.parent, [read_tail(node.log) for node in ended]))
    reasons = {
        word.rank: _readable(word.line)
        for word in printed
        if word.rank is not None and described.get(word.rank)
    }
    for rank, summary in _summaries(events):
        if summary.get("reason") is not None:
            reasons[rank] = _readable(str(summary["reason"]).encode(errors="replace"))
    reasons |= dict.fromkeys(dumped, ABORTED_FOR_STACK)
    return tuple(
        RankOutcome(
            node=rank // per_node,
            rank=rank,
            exit_code=described.get(rank),
            signal=signal_name(described.get(rank)),
            reason=reasons.get(rank),
        )
        for rank in sorted(described.keys() | reasons.keys())
    )


def signal_name(code: int | None) -> str | None:
    """Return the name of the signal in a negative exit code; None for other codes."""
    return _signal_name(-code) if code is not None and code < 0 else None


def _what_the_ranks_say(events: Path) -> tuple[tuple[Outcome, str | None] | None, set[int]]:
    """Return the most significant outcome other than ok that the ranks recorded, if any.

    A rank that only lost contact with another one is not the cause; such ranks are the second part of the result.
    """
    sentence: list[tuple[Outcome, str | None]] = []
    lost: set[int] = set()
    for rank, word in _summaries(events):
        try:
            outcome = Outcome(str(word.get("outcome")))
        except ValueError:
            continue
        if word.get("peer_lost"):
            lost.add(rank)
        elif outcome in _RANK:
            reason = _readable(str(word.get("reason", "the program gave no reason")).encode(errors="replace"))
            sentence.append((outcome, f"rank {rank}: {reason}" if rank else reason))
    return min(sentence, key=lambda pair: _RANK[pair[0]], default=None), lost


def _ranks_elsewhere(events: Path, printed: Sequence[Stream], ranks: int) -> str | None:
    """Return which ranks were in other code while another rank waited for them and gave up; None if unknown.

    They were ended by its loss or together with it, and recorded their place at that moment. The result is None unless
    all ranks recorded their end.
    """
    sentence = {
        int(rank): error_lines.decode(errors="replace")
        for stream in printed
        for rank, error_lines in _STOPPED.findall(stream.text)
    }
    sentence |= {
        rank: str(word.get("reason", "")) for rank, word in _summaries(events) if word.get("peer_lost")
    }
    if len(sentence) < ranks:
        return None
    found = {rank: doing for rank, reason in sentence.items() if (doing := _DOING.search(reason))}
    gave_up = [rank for rank in sentence if rank not in found]
    elsewhere = [
        f"rank {rank} was in {doing['place']}"
        for rank, doing in found.items()
        if not Frame(f"/{doing['file']}", int(doing["line"]), doing["function"]).waits_for_others
    ]
    if not elsewhere or not gave_up:
        return None
    more = f" and {len(elsewhere) - 1} more elsewhere" if len(elsewhere) > 1 else ""
    reason = _readable(sentence[gave_up[0]].encode(errors="replace"))
    return f"{elsewhere[0]}{more}, when rank {gave_up[0]} {reason}"


def _summaries(events: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for path in (events, *sorted(events.parent.glob(f"{events.name}.rank*"))):
        word = read_events(path).summary
        rank = word.get("rank")
        yield rank if isinstance(rank, int) else 0, word


def _by_report(
    report: FailedRank, run: _Run, printed: list[Stream], reported: list[FailedRank]
) -> tuple[Outcome, str]:
    """Return the outcome of a run for which a launcher reports the failed rank.

    ``reported`` are all ranks that launchers report.
    """
    rank = report.rank
    sentence = error_lines(printed)
    own = next((word for word in reversed(sentence) if word.rank == rank), None)
    if own is None and report.code == -signal.SIGABRT and any(word.rank == UNKNOWN for word in sentence):
        # It aborted because it lost a peer, whose error spawn does not print.
        own = ErrorLine(rank, b"", lost=True)
    # A rank that lost its peer raises or aborts, and may be the first that the launcher observes.
    if own is not None and own.lost and (report.code > 0 or report.code == -signal.SIGABRT):
        silent = _silent(reported, own, sentence)
        return _by_report(silent, run, printed, []) if silent else _of_the_lost(own, sentence, run)
    if report.code < 0:
        outcome, reason = _killed(f"rank {rank}", -report.code, run)
        # Before an abort, a C++ library or Python prints the reason; libraries may also abort while Python exits.
        why = own.line if own is not None and report.code == -signal.SIGABRT else b""
        where = _crashed(one for one in printed if one.rank in (rank, None)) if not why else ""
        return outcome, f"{reason}{_quoted(why)}{where}"
    # Without per-rank logs, attribute untagged lines to this rank.
    own = own or next((word for word in reversed(sentence) if word.rank is None), None)
    last = own.line if own is not None else last_line([one for one in printed if one.rank == rank])
    return Outcome.FAILED, f"rank {rank} ended with exit code {report.code}{_quoted(last)}"


def _silent(reported: list[FailedRank], loser: ErrorLine, lines: list[ErrorLine]) -> FailedRank | None:
    """Return the rank whose silent end made ``loser`` lose it; None if some other rank printed an error."""
    if any(not word.lost and word.rank not in (None, loser.rank) for word in lines):
        return None
    lost = {word.rank for word in lines if word.lost}
    causes = (one for one in reported if one.rank not in {*lost, loser.rank} and one.code != -signal.SIGTERM)
    return next(causes, None)


def _by_words(
    run: _Run, printed: list[Stream], launchers: bytes, ended: list[FailedRank]
) -> tuple[Outcome, str]:
    """Return the outcome of a run for which no launcher reports the failed rank.

    ``launchers`` is the launcher's own message, ``ended`` are failed ranks that are the only program of their node.
    """
    if run.code < 0:
        outcome, reason = _killed(run.program, -run.code, run)
        return outcome, f"{reason}{_crashed(printed)}"
    sentence = error_lines(printed)
    last = sentence[-1] if sentence else None
    if last is not None and last.rank is not None:
        if not last.lost:
            return _failed(last)
        silent = _silent(ended, last, sentence)
        return _by_report(silent, run, printed, []) if silent else _of_the_lost(last, sentence, run)
    line = launchers or last_line(printed) if last is None else last.line
    return Outcome.FAILED, f"{run.program} ended with exit code {run.code}{_quoted(line)}"


def _of_the_lost(word: ErrorLine, lines: list[ErrorLine], run: _Run) -> tuple[Outcome, str]:
    """Return why a rank lost another one: by the other's error, by the kernel's OOM kill, or by its own message."""
    cause = next((w for w in reversed(lines) if not w.lost and w.rank not in (None, word.rank)), None)
    if cause is not None:
        # Of two ranks, an error without a rank belongs to the other one.
        of_two = cause.rank == UNKNOWN and run.ranks == 2 and word.rank in (0, 1)
        return _failed(
            ErrorLine(1 - word.rank, cause.line, lost=False) if of_two and word.rank is not None else cause
        )
    who = "one rank" if word.rank == UNKNOWN else f"rank {word.rank}"
    loss = f"{who} lost contact with another rank"
    if run.oom_kills:
        return Outcome.OOM, f"{loss}, while the kernel killed a process because memory ran out"
    return Outcome.FAILED, f"{loss}{_quoted(word.line)}"


def _failed(word: ErrorLine) -> tuple[Outcome, str]:
    who = "one rank" if word.rank == UNKNOWN else f"rank {word.rank}"
    return Outcome.FAILED, f"{who} failed{_quoted(word.line)}"


def _killed(who: str, number: int, run: _Run) -> tuple[Outcome, str]:
    if number == signal.SIGKILL and run.oom_kills:
        return Outcome.OOM, f"{who} was killed by the kernel because memory ran out"
    return Outcome.FAILED, f"{who} was killed by signal {number} ({_signal_name(number)})"


def _crashed(printed: Iterable[Stream]) -> str:
    """Return the place of a Python crash in the first stream that has one, as the end of a sentence."""
    return next(filter(None, (crash_location(one.text.decode(errors="replace")) for one in printed)), "")


def _first_cause(reported: list[FailedRank], lost: set[int]) -> FailedRank | None:
    """Return the first report that can be the cause; if none can, the first report; None without reports.

    A launcher often first observes a rank that lost its peer and ended sooner. Ranks that it ends itself, by SIGTERM,
    are not the cause either.
    """
    causes = [one for one in reported if one.rank not in lost and one.code != -signal.SIGTERM]
    return next(iter(causes or reported), None)


def _last(pattern: re.Pattern[bytes], printed: list[Stream]) -> ErrorLine | None:
    """Return the last line that matches ``pattern``, of the first rank that has one."""
    for stream in printed:
        lines = [line for line in re.split(rb"\n", stream.text) if pattern.search(line)]
        if lines:
            return ErrorLine(stream.rank, lines[-1], lost=False)
    return None


def _on(word: ErrorLine) -> str:
    return "" if word.rank in (None, UNKNOWN) else f" on rank {word.rank}"


def _quoted(line: bytes) -> str:
    return f": {text}" if (text := _readable(line)) else ""


def _readable(line: bytes) -> str:
    text = line.decode("utf-8", errors="replace").strip()
    text = printable_line(text)
    return text if len(text) <= 240 else f"{text[:237]}..."


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
