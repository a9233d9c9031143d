"""Detection of records of another program in a log: the file then contains more than one run."""

from collections import Counter

from trainmark.logs.bulk import VARYING
from trainmark.logs.format import Format
from trainmark.logs.gathering import LogCollector
from trainmark.logs.literals import can_match
from trainmark.logs.model import Problem
from trainmark.logs.shapes import few_of_each

_FEWEST_OTHERS = 2
_FEW = 4
_SMALL_BYTES = 1 << 14
"""A text of this size is searched whole first, as it was when its format was looked for."""


def other_format_problems(collected: LogCollector) -> list[Problem]:
    """Return a problem if either end of the log has records of another program."""
    known = collected.format
    assert known is not None
    if known.accompanies:
        return _around_harness(known, collected)
    ends = {"beginning": bytes(collected.head), "end": collected.tail}
    if ends["beginning"] == ends["end"]:
        del ends["end"]  # a short log, which is both
    for place, whole in ends.items():
        if len(whole) <= _SMALL_BYTES:
            candidates = [other for other in _others(collected, whole) if _may_be_in(other, whole)]
            if not candidates:
                continue
            text = _few_of_each(whole)
        else:
            text = _few_of_each(whole)
            candidates = _others(collected, text)
        others = [other for other in candidates if _may_be_in(other, text)]
        rest = _without(known, text) if others else b""
        for other in others:
            if _trains_in(other, rest) or (not _share_trainer(other, known) and _is_in(other, rest)):
                return [_other_records(place, other)]
    return []


def _share_trainer(other: Format, known: Format) -> bool:
    """Return whether the results of ``other`` may be of the same run: both programs' trainer prints them."""
    return (other.built_on or other.name) == (known.built_on or known.name)


def _around_harness(harness: Format, collected: LogCollector) -> list[Problem]:
    """Return a problem if another program trains before the first line of ``harness``, or after its last one.

    A program that runs in the harness prints its records between them, and perhaps its results after them.
    """
    head, tail = bytes(collected.head), collected.tail
    first, last = harness.mark.search(head), list(harness.mark.finditer(tail))[-1:]
    ends = {
        "beginning": head[: first.start()] if first else head,
        "end": tail[last[0].end() :] if last else tail,
    }
    for place, whole in ends.items():
        text = _few_of_each(whole)
        for other in collected.formats.candidates(text) if text else ():
            if other.accompanies or not _may_be_in(other, text):
                continue
            # Results after the harness's last line are of a program that ran in it.
            if _trains_in(other, text) or (place == "beginning" and _is_in(other, text)):
                return [_other_records(place, other)]
    return []


def _other_records(place: str, other: Format) -> Problem:
    sentence = f"the {place} of the file has records of another format, {other.name}: split it"
    return Problem("several-formats", sentence)


def _others(collected: LogCollector, text: bytes) -> list[Format]:
    """Return the formats of other programs that ``text`` may have."""
    candidates = collected.formats.candidates(text)
    return [other for other in candidates if other is not collected.format and not other.accompanies]


def _few_of_each(text: bytes) -> bytes:
    """Return the lines of ``text``, but of lines that differ only in their numbers only the first few."""
    counts: Counter[bytes] = Counter()
    chosen = []
    text = few_of_each(text, _FEW)  # first, because checking each line costs more
    for line, kind in zip(text.split(b"\n"), text.translate(None, VARYING).split(b"\n"), strict=True):
        counts[kind] += 1
        if counts[kind] <= _FEW:
            chosen.append(line)
    return b"\n".join(chosen)


def _without(known: Format, text: bytes) -> bytes:
    """Return ``text`` without the records of ``known``."""
    for pattern in known.records:
        text = pattern.sub(b"", text)
    if known.extract is not None:
        text = b"\n".join(line for line in text.split(b"\n") if not known.mark.search(line))
    return text


def _may_be_in(other: Format, text: bytes) -> bool:
    patterns = (*other.records, *other.figures.values(), *([other.mark] if other.extract else []))
    return any(can_match(pattern, text) for pattern in patterns)


def _is_in(other: Format, text: bytes) -> bool:
    """Return whether ``text`` contains two records of ``other``, or a result that it prints."""
    results = (figure.search(text) for figure in other.figures.values() if can_match(figure, text))
    return (other.extract is None and any(results)) or _trains_in(other, text)


def _trains_in(other: Format, text: bytes) -> bool:
    """Return whether ``text`` contains two records of ``other``."""
    if other.extract is not None:
        return other.mark.search(text) is not None and bool(other.extract(text).columns)
    return any(
        can_match(pattern, text) and len(pattern.findall(text)) >= _FEWEST_OTHERS for pattern in other.records
    )
