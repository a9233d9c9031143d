"""Why an unknown log is not read by a guess: its lines have no time, count nothing, or have numbers in another form."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import BinaryIO

from trainmark.logs import ParsedLog
from trainmark.logs.guess.families import Family, families
from trainmark.logs.guess.line_fields import (
    counts_without_time,
    has_loss,
    has_other_batches,
    has_speed_alone,
    is_other_work,
    shown,
)
from trainmark.logs.guess.reading import head_of


def find_untimed(text: bytes) -> str | None:
    """Return the beginning of the lines that count training steps without any time or speed; None if none does."""
    return _first(families(text), counts_without_time)


def find_other_batches(text: bytes) -> str | None:
    """Return the beginning of lines that count steps of different batches, without a speed; None if none does."""
    return _first(families(text), has_other_batches)


def _first(known: Iterable[Family], holds: Callable[[Family], bool]) -> str | None:
    """Return the beginning of the first lines of a training for which ``holds``; None without any."""
    return next((shown(one) for one in known if not is_other_work(one) and holds(one)), None)


def _misread(known: Iterable[Family]) -> str | None:
    """Return the beginning of lines whose numbers are read wrongly, and what to do about it; None without any."""
    misread = (one for one in known if one.misread and not is_other_work(one) and has_loss(one))
    return next((f"'{shown(one)}' have {one.misread}" for one in misread), None)


def explain_unknown(unknown: ParsedLog, stream: BinaryIO) -> ParsedLog:
    """Return the unknown log in ``stream``, with the reason if its lines count steps but have no time."""
    stream.seek(0)
    head = head_of(stream)
    lines = head[: head.rfind(b"\n") + 1]
    known = list(families(lines))
    misread = _misread(known)
    untimed = None if misread else _first(known, counts_without_time)
    rated = None if misread or untimed else _first(known, has_speed_alone)
    if not (misread or untimed or rated) or unknown.format is not None:
        return unknown
    outside = "time the run from outside (trainmark run -- COMMAND, or COMMAND | ts '%Y-%m-%d %H:%M:%.S')"
    if misread:
        what = f"the numbers of lines such as {misread}, or describe the lines (--format FILE.yaml)"
    elif untimed:
        what = (
            f"lines such as '{untimed}' count steps without a time of a step, a speed per second or a time stamp: "
            f"{outside}, or describe the lines that have one (--format FILE.yaml)"
        )
    else:
        what = (
            f"lines such as '{rated}' print a speed or a time, but none counts steps: print the step in these lines, "
            f"{outside}, or describe the lines (--format FILE.yaml)"
        )
    sentence = f"no line matches a known log format, and {what}"
    problems = (
        replace(one, message=sentence) if one.code == "unknown-format" else one for one in unknown.problems
    )
    return replace(unknown, problems=tuple(problems))
