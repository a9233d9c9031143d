"""From how a process ended and what it left to an outcome with a reason."""

import re
import signal
from dataclasses import dataclass
from pathlib import Path

from trainmark.execution.last_words import Stream, Word, read_tail, streams, words
from trainmark.execution.reports import Report, openmpi_message, reports
from trainmark.logs.events import read_events
from trainmark.suite import Outcome

_OOM = re.compile(
    rb"CUDA out of memory|OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY|can't allocate memory|MemoryError\b"
    rb"|Resource exhausted: OOM|RESOURCE_EXHAUSTED|ResourceExhaustedError|std::bad_alloc|Cannot allocate memory"
    rb"|out of memory",
    re.IGNORECASE,
)
_NO_SPACE = re.compile(rb"No space left on device")
_RANK = {Outcome.OOM: 0, Outcome.UNSUPPORTED: 1, Outcome.INVALID: 2, Outcome.FAILED: 3}
"""Of what several ranks say of their end, the first in this order is the cause; the rest follow from it."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How a run's first process ended: its exit code (negative: a signal), and kernel OOM kills meanwhile."""

    code: int
    oom_kills: int


def classify(ended: Exit, events: Path, log: Path) -> tuple[Outcome, str | None]:
    """Return the outcome of a run that ended by itself, and the reason unless it is ``ok``.

    What the program says of itself comes first, then signals and exit codes, then what the end of its log
    shows. A run with exit code 0 is ``ok`` here; whether it left a measurement is for others to say.
    """
    said, lost = _what_the_ranks_say(events)
    if said is not None:
        return said
    if ended.code == 0:
        return Outcome.OK, None
    tail, printed = read_tail(log), streams(log)
    everything = [*printed, Stream(None, tail)]
    # The last one: a program may have said so before, gone on with less, and ended for another reason.
    if (found := _last(_OOM, everything)) is not None:
        return Outcome.OOM, f"out of memory{_on(found)}: {_readable(found.line)}"
    if (found := _last(_NO_SPACE, everything)) is not None:
        return Outcome.FAILED, f"a disk is full: {_readable(found.line)}"
    if (report := _first_cause(reports(tail), lost)) is not None:
        return _by_report(report, ended, printed)
    return _by_words(ended, printed, openmpi_message(tail))


def last_step(log: Path) -> int | None:
    """Return the last step that a built-in worker's heartbeat named in the end of its log."""
    steps = re.findall(rb"\bstep (\d+)/\d+", read_tail(log))
    return int(steps[-1]) if steps else None


def _what_the_ranks_say(events: Path) -> tuple[tuple[Outcome, str | None] | None, set[int]]:
    """Return what the ranks wrote of their end, the most telling one where any says other than ok.

    A rank that only lost contact with another one is no cause; those ranks are returned beside it.
    """
    said: list[tuple[Outcome, str | None]] = []
    lost: set[int] = set()
    for path in (events, *sorted(events.parent.glob(f"{events.name}.rank*"))):
        word = read_events(path).summary
        rank = word.get("rank") if isinstance(word.get("rank"), int) else 0
        try:
            outcome = Outcome(str(word.get("outcome")))
        except ValueError:
            continue
        if word.get("peer_lost"):
            lost.add(rank or 0)
        elif outcome in _RANK:
            reason = _readable(str(word.get("reason", "the program gave no reason")).encode(errors="replace"))
            said.append((outcome, f"rank {rank}: {reason}" if rank else reason))
    return min(said, key=lambda pair: _RANK[pair[0]], default=None), lost


def _by_report(report: Report, ended: Exit, printed: list[Stream]) -> tuple[Outcome, str]:
    """Return the outcome of a run of which a launcher says which rank failed, and how."""
    rank = report.rank
    said = words(printed)
    own = next((word for word in reversed(said) if word.rank == rank), None)
    # A rank that another one has left raises or aborts, and may be the first that the launcher sees.
    if own is not None and own.lost and (report.code > 0 or report.code == -signal.SIGABRT):
        return _of_the_lost(own, said, ended)
    if report.code < 0:
        return _killed(f"rank {rank}", -report.code, ended)
    # Where nobody keeps the ranks apart, what has no rank is likely to be its own.
    own = own or next((word for word in reversed(said) if word.rank is None), None)
    last = own.line if own is not None else _last_line([one for one in printed if one.rank == rank])
    return Outcome.FAILED, f"rank {rank} ended with exit code {report.code}{_quoted(last)}"


def _by_words(ended: Exit, printed: list[Stream], launchers: bytes) -> tuple[Outcome, str]:
    """Return the outcome of a run of which nobody but the program, or nobody, says which rank failed.

    ``launchers`` is what the launcher says of itself.
    """
    if ended.code < 0:
        return _killed("the program", -ended.code, ended)
    said = words(printed)
    last = said[-1] if said else None
    if last is not None and last.rank is not None:
        return _of_the_lost(last, said, ended) if last.lost else _failed(last)
    line = launchers or _last_line(printed) if last is None else last.line
    return Outcome.FAILED, f"the program ended with exit code {ended.code}{_quoted(line)}"


def _of_the_lost(word: Word, said: list[Word], ended: Exit) -> tuple[Outcome, str]:
    """Return why a rank lost another one: by that one's words, by the kernel's, or else by its own."""
    cause = next((w for w in reversed(said) if not w.lost and w.rank not in (None, word.rank)), None)
    if cause is not None:
        return _failed(cause)
    loss = f"rank {word.rank} lost contact with another rank"
    if ended.oom_kills:
        return Outcome.OOM, f"{loss}, while the kernel killed a process for want of memory"
    return Outcome.FAILED, f"{loss}{_quoted(word.line)}"


def _failed(word: Word) -> tuple[Outcome, str]:
    return Outcome.FAILED, f"rank {word.rank} failed{_quoted(word.line)}"


def _killed(who: str, number: int, ended: Exit) -> tuple[Outcome, str]:
    if number == signal.SIGKILL and ended.oom_kills:
        return Outcome.OOM, f"{who} was killed by the kernel for want of memory"
    return Outcome.FAILED, f"{who} was killed by signal {number} ({_signal_name(number)})"


def _first_cause(reported: list[Report], lost: set[int]) -> Report | None:
    """Return the first report that can be the cause, the first at all where none can, None without any.

    What a launcher observed first is often a rank that lost its peer and was quicker to say so; and the ranks
    that it ends itself, by SIGTERM, are no cause either.
    """
    causes = [one for one in reported if one.rank not in lost and one.code != -signal.SIGTERM]
    return next(iter(causes or reported), None)


def _last(pattern: re.Pattern[bytes], printed: list[Stream]) -> Word | None:
    """Return the last line that holds ``pattern``, of the first rank whose words do."""
    for stream in printed:
        lines = [line for line in re.split(rb"\n", stream.text) if pattern.search(line)]
        if lines:
            return Word(stream.rank, lines[-1], lost=False)
    return None


def _on(word: Word) -> str:
    return "" if word.rank is None else f" on rank {word.rank}"


def _last_line(printed: list[Stream]) -> bytes:
    """Return the last line that says something."""
    lines = [line for stream in printed for line in re.split(rb"[\r\n]+", stream.text)]
    return next((line for line in reversed(lines) if line.strip(b" =-\t")), b"")


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
