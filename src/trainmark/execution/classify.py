"""From how a process ended and what it left to an outcome with a reason."""

import re
import signal
from dataclasses import dataclass
from pathlib import Path

from trainmark.logs.events import read_events
from trainmark.suite import Outcome

TAIL_BYTES = 64 * 1024

RANK_STDERR = "stderr.rank"
"""What a rank alone wrote to its standard error, beside the log; its number follows (``ranks.py``)."""

_OOM = re.compile(
    rb"CUDA out of memory|OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY|can't allocate memory|MemoryError\b"
    rb"|Resource exhausted: OOM|RESOURCE_EXHAUSTED|ResourceExhaustedError|std::bad_alloc|Cannot allocate memory"
    rb"|out of memory",
    re.IGNORECASE,
)
_NO_SPACE = re.compile(rb"No space left on device")
_TORCHRUN_FAILURE = re.compile(
    rb"^\[\d+\]:\n[^\[]*?\brank\s*:\s*(\d+) \(local_rank[^\[]*?\bexitcode\s*:\s*(-?\d+)", re.MULTILINE
)
"""One rank in the report with which torchrun ends (``ChildFailedError``); the root cause comes last."""
_RANKS_FAILURE = re.compile(rb"^trainmark-ranks: rank (\d+) ended with exit code (-?\d+)$", re.MULTILINE)
"""The line with which ``ranks.py`` ends when a rank failed."""
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
    tail = _tail(log)
    # The last one: a program may have said so before, gone on with less, and ended for another reason.
    if (match := _last(_OOM, tail)) is not None:
        return Outcome.OOM, f"out of memory: {_line_at(tail, match.start())}"
    if (match := _last(_NO_SPACE, tail)) is not None:
        return Outcome.FAILED, f"a disk is full: {_line_at(tail, match.start())}"
    number, rank = _culprit(tail, lost) or (ended.code, None)
    who = "the program" if rank is None else f"rank {rank}"
    if number == -signal.SIGKILL and ended.oom_kills:
        return Outcome.OOM, f"{who} was killed by the kernel for want of memory"
    if number < 0:
        return Outcome.FAILED, f"{who} was killed by signal {-number} ({_signal_name(-number)})"
    # Our own launcher keeps the ranks apart; of what they wrote into one log, the last line may be anybody's.
    last = _last_line(_tail(log.with_name(f"{RANK_STDERR}{rank}")) if _RANKS_FAILURE.search(tail) else tail)
    return Outcome.FAILED, f"{who} ended with exit code {number}" + (f": {last}" if last else "")


def last_step(log: Path) -> int | None:
    """Return the last step that a built-in worker's heartbeat named in the end of its log."""
    steps = re.findall(rb"\bstep (\d+)/\d+", _tail(log))
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


def _culprit(tail: bytes, lost: set[int]) -> tuple[int, int] | None:
    """Return exit code and number of the rank that the launcher's report shows as the cause; None without one.

    What torchrun observed first is often a rank that lost its peer and was quicker to say so; and the ranks
    that it ends itself, by SIGTERM, are no cause either.
    """
    reported = _TORCHRUN_FAILURE.findall(tail) or _RANKS_FAILURE.findall(tail)
    ranks = [(int(code), int(rank)) for rank, code in reported][::-1]
    causes = [(code, rank) for code, rank in ranks if rank not in lost and code != -signal.SIGTERM]
    return next(iter(causes or ranks), None)


def _tail(log: Path) -> bytes:
    try:
        with log.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL_BYTES))
            return file.read()
    except FileNotFoundError:
        return b""


def _last(pattern: re.Pattern[bytes], text: bytes) -> re.Match[bytes] | None:
    return next(reversed(list(pattern.finditer(text))), None)


def _line_at(text: bytes, position: int) -> str:
    start = text.rfind(b"\n", 0, position) + 1
    return _readable(text[start:].split(b"\n", 1)[0])


def _last_line(tail: bytes) -> str:
    """Return the log's last line that says something, such as the exception's, not a launcher's frame."""
    lines = [line for line in re.split(rb"[\r\n]+", tail) if line.strip(b" =-\t")]
    errors = [
        line for line in lines if re.match(rb"\s*(\[rank\d+\]:\s*)?[\w.]*(Error|Exception|Exit)\b", line)
    ]
    chosen = errors or lines
    return _readable(chosen[-1]) if chosen else ""


def _readable(line: bytes) -> str:
    text = line.decode("utf-8", errors="replace").strip()
    text = "".join(character if character.isprintable() else "·" for character in text)
    return text if len(text) <= 240 else f"{text[:237]}..."


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
