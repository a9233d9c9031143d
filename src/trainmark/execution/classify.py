"""From how a process ended and what it left to an outcome with a reason."""

import re
import signal
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainmark.execution.rank_errors import (
    UNKNOWN,
    ErrorLine,
    FailedRank,
    Stream,
    error_lines,
    last_line,
    launcher_reports,
    openmpi_message,
    read_streams,
)
from trainmark.logs.events import read_events
from trainmark.node import read_tail
from trainmark.node.stacks import Frame, crash_location
from trainmark.schema.outcome import Outcome, RankOutcome

_OOM = re.compile(
    rb"CUDA out of memory|OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY|can't allocate memory|MemoryError\b"
    rb"|Resource exhausted: OOM|RESOURCE_EXHAUSTED|ResourceExhaustedError|std::bad_alloc|Cannot allocate memory"
    rb"|out of memory",
    re.IGNORECASE,
)
_DOING = re.compile(r", while it was in (?P<place>(?P<function>\S+) \((?P<file>.+):(?P<line>\d+)\))$")
"""Where a built-in worker's rank was that was ended, or that another one has left (``worker/core/signals.py``)."""
_STOPPED = re.compile(rb"^trainmark-worker: rank (\d+): (stopped by SIGTERM, while .*)$", re.MULTILINE)
_NO_SPACE = re.compile(rb"No space left on device")
ABORTED_FOR_STACK = "trainmark ended it, to learn where it was"
ENDED_BY_TRAINMARK = "trainmark ended it"
"""What stands beside the signal that was ours."""

_RANK = {Outcome.OOM: 0, Outcome.UNSUPPORTED: 1, Outcome.INVALID: 2, Outcome.FAILED: 3}
"""Of what several ranks say of their end, the first in this order is the cause; the rest follow from it."""


@dataclass(frozen=True, slots=True)
class NodeExit:
    """The end of a node's first process: its exit code (negative: a signal), and the kernel's OOM kills meanwhile.

    ``log`` is what its processes printed.
    """

    code: int
    oom_kills: int
    log: Path
    node: int = 0


@dataclass(frozen=True, slots=True)
class _Run:
    """The end of a run of so many ranks: its first node that failed, and what the kernels killed for memory."""

    code: int
    oom_kills: int
    ranks: int
    program: str


def classify(ended: Sequence[NodeExit], events: Path, ranks: int = 1) -> tuple[Outcome, str | None]:
    """Return the outcome of a run that ended by itself, and the reason unless it is ``ok``.

    ``ended`` are its nodes in the order in which they ended. What the program says of itself comes first, then
    signals and exit codes, then what the end of its logs shows. A run with exit code 0 everywhere is ``ok`` here;
    whether it left a measurement is for others to say.
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
    # A node's only program is its only rank, and its log that rank's.
    alone = ranks == len(ended) > 1
    if alone and all(stream.rank is None for stream in printed):
        printed = [Stream(node.node, tail) for node, tail in zip(ended, tails, strict=True)]
    everything = [*printed, *(Stream(None, tail) for tail in tails)]
    # The last one: a program may have said so before, gone on with less, and ended for another reason.
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
    """Return how each rank ended of which that is known: by ``codes``, by a launcher, or by its own events.

    ``codes`` are exit codes that were seen; ``per_node`` is how many ranks a node has. ``dumped`` are ranks that were
    ended by being asked where they are, which is not what they died of.
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
    """Return the name of the signal that an exit code stands for; None for none."""
    return _signal_name(-code) if code is not None and code < 0 else None


def _what_the_ranks_say(events: Path) -> tuple[tuple[Outcome, str | None] | None, set[int]]:
    """Return what the ranks wrote of their end, the most telling one where any says other than ok.

    A rank that only lost contact with another one is no cause; those ranks are returned beside it.
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
    """Return which ranks were not where another one waited for them until it gave up; None where that is not known.

    They were ended by its loss, or with it, and say what they did at that moment. All ranks must have said their end.
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
    """Return the outcome of a run of which a launcher says which rank failed, and how.

    ``reported`` are all that launchers speak of.
    """
    rank = report.rank
    sentence = error_lines(printed)
    own = next((word for word in reversed(sentence) if word.rank == rank), None)
    if own is None and report.code == -signal.SIGABRT and any(word.rank == UNKNOWN for word in sentence):
        # It aborted for want of a peer, whose words spawn keeps to itself.
        own = ErrorLine(rank, b"", lost=True)
    # A rank that another one has left raises or aborts, and may be the first that the launcher sees.
    if own is not None and own.lost and (report.code > 0 or report.code == -signal.SIGABRT):
        silent = _silent(reported, own, sentence)
        return _by_report(silent, run, printed, []) if silent else _of_the_lost(own, sentence, run)
    if report.code < 0:
        outcome, reason = _killed(f"rank {rank}", -report.code, run)
        # Whoever aborts says why before: a C++ library, or Python, whose libraries may then abort on its way out.
        why = own.line if own is not None and report.code == -signal.SIGABRT else b""
        where = _crashed(one for one in printed if one.rank in (rank, None)) if not why else ""
        return outcome, f"{reason}{_quoted(why)}{where}"
    # Where nobody keeps the ranks apart, what has no rank is likely to be its own.
    own = own or next((word for word in reversed(sentence) if word.rank is None), None)
    last = own.line if own is not None else last_line([one for one in printed if one.rank == rank])
    return Outcome.FAILED, f"rank {rank} ended with exit code {report.code}{_quoted(last)}"


def _silent(reported: list[FailedRank], loser: ErrorLine, lines: list[ErrorLine]) -> FailedRank | None:
    """Return the rank that ended without a word of why, and that ``loser`` lost by it; None where one has lines why."""
    if any(not word.lost and word.rank not in (None, loser.rank) for word in lines):
        return None
    lost = {word.rank for word in lines if word.lost}
    causes = (one for one in reported if one.rank not in {*lost, loser.rank} and one.code != -signal.SIGTERM)
    return next(causes, None)


def _by_words(
    run: _Run, printed: list[Stream], launchers: bytes, ended: list[FailedRank]
) -> tuple[Outcome, str]:
    """Return the outcome of a run of which nobody but the program, or nobody, says which rank failed.

    ``launchers`` is what the launcher says of itself, ``ended`` the ranks of which each is its node's only program.
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
    """Return why a rank lost another one: by that one's words, by the kernel's, or else by its own."""
    cause = next((w for w in reversed(lines) if not w.lost and w.rank not in (None, word.rank)), None)
    if cause is not None:
        # Of two ranks, the one that nobody named is the other one.
        of_two = cause.rank == UNKNOWN and run.ranks == 2 and word.rank in (0, 1)
        return _failed(
            ErrorLine(1 - word.rank, cause.line, lost=False) if of_two and word.rank is not None else cause
        )
    who = "one rank" if word.rank == UNKNOWN else f"rank {word.rank}"
    loss = f"{who} lost contact with another rank"
    if run.oom_kills:
        return Outcome.OOM, f"{loss}, while the kernel killed a process for want of memory"
    return Outcome.FAILED, f"{loss}{_quoted(word.line)}"


def _failed(word: ErrorLine) -> tuple[Outcome, str]:
    who = "one rank" if word.rank == UNKNOWN else f"rank {word.rank}"
    return Outcome.FAILED, f"{who} failed{_quoted(word.line)}"


def _killed(who: str, number: int, run: _Run) -> tuple[Outcome, str]:
    if number == signal.SIGKILL and run.oom_kills:
        return Outcome.OOM, f"{who} was killed by the kernel for want of memory"
    return Outcome.FAILED, f"{who} was killed by signal {number} ({_signal_name(number)})"


def _crashed(printed: Iterable[Stream]) -> str:
    """Return what the first of the streams that says it says of where Python was, as the end of a sentence."""
    return next(filter(None, (crash_location(one.text.decode(errors="replace")) for one in printed)), "")


def _first_cause(reported: list[FailedRank], lost: set[int]) -> FailedRank | None:
    """Return the first report that can be the cause, the first at all where none can, None without any.

    What a launcher observed first is often a rank that lost its peer and was quicker to say so; and the ranks
    that it ends itself, by SIGTERM, are no cause either.
    """
    causes = [one for one in reported if one.rank not in lost and one.code != -signal.SIGTERM]
    return next(iter(causes or reported), None)


def _last(pattern: re.Pattern[bytes], printed: list[Stream]) -> ErrorLine | None:
    """Return the last line that holds ``pattern``, of the first rank whose words do."""
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
    text = "".join(character if character.isprintable() else "·" for character in text)
    return text if len(text) <= 240 else f"{text[:237]}..."


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
