"""Why an unknown log is not read by a guess: its lines have no time, count nothing, or have numbers in another form."""

from dataclasses import replace
from typing import BinaryIO

from trainmark.logs import ParsedLog
from trainmark.logs.guess.families import families
from trainmark.logs.guess.line_fields import (
    counts_without_time,
    has_loss,
    has_other_batches,
    has_speed_alone,
    is_other_work,
    shown,
)
from trainmark.logs.guess.reading import head_of


def find_misread(text: bytes) -> str | None:
    """Return the beginning of lines whose numbers are read wrongly, and what to do about it; None without any."""
    misread = (one for one in families(text) if one.misread and not is_other_work(one) and has_loss(one))
    return next((f"'{shown(one)}' have {one.misread}" for one in misread), None)


def find_untimed(text: bytes) -> str | None:
    """Return the beginning of the lines that count training steps without any time or speed; None if none does."""
    untimed = (one for one in families(text) if not is_other_work(one) and counts_without_time(one))
    return next(map(shown, untimed), None)


def find_other_batches(text: bytes) -> str | None:
    """Return the beginning of lines that count steps of different batches, without a speed; None if none does."""
    found = (one for one in families(text) if not is_other_work(one) and has_other_batches(one))
    return next(map(shown, found), None)


def find_uncounted(text: bytes) -> str | None:
    """Return the beginning of the lines of a training with a speed or a time, but no counter of steps; None if none."""
    uncounted = (one for one in families(text) if not is_other_work(one) and has_speed_alone(one))
    return next(map(shown, uncounted), None)


def explain_unknown(unknown: ParsedLog, stream: BinaryIO) -> ParsedLog:
    """Return the unknown log in ``stream``, with the reason if its lines count steps but have no time."""
    stream.seek(0)
    head = head_of(stream)
    lines = head[: head.rfind(b"\n") + 1]
    misread = find_misread(lines)
    untimed = None if misread else find_untimed(lines)
    rated = None if misread or untimed else find_uncounted(lines)
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
