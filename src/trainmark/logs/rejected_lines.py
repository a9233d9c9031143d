"""Detection of lines that a format's patterns misread: truncated numbers and skipped records.

Other locales, terminals of 80 columns and manual edits produce text that no program prints: ``2 541.3`` and
``2.541,3`` are read as 2, ``2.5k`` as 2.5, and a truncated line no longer matches.
"""

import re
from collections.abc import Iterator

from trainmark.logs.fields import STAMP
from trainmark.logs.format import Format
from trainmark.logs.literals import required_all
from trainmark.logs.model import Problem
from trainmark.logs.suffixes import SUFFIX

_CHECKED_BYTES = 1 << 15
"""Bytes at either end of the log that are checked."""
_FIGURES = ("rate", "average_rate", "step_time_s", "step_time_ms", "average_time_s", "average_time_ms")
_MORE_DIGITS = re.compile(rb"(?:[ '_]|\xc2\xa0|\xe2\x80\x89|\xe2\x80\xaf)\d{3}(?!\d)")
"""After one to three digits: the number continues in groups of three."""
_OTHER_UNIT = re.compile(rb",\d|[kKMG](?![A-Za-z])")
"""After any number: it continues after a comma, or counts thousands."""
_VARYING = b"0123456789.+- "
_LETTER_AFTER_STAMP = re.compile(rb"^(?:" + STAMP + rb")?.*?[A-Za-z]")
"""What a line needs to resemble a record: after a date there are rulers and empty lines too."""
_KINDS = 8
"""Most kinds of record lines: with more, other lines that begin like them prove nothing."""
_GROUP = 3
"""Digits between thousands separators."""
_MANY = 0.02
_FEWEST = 3


def find_rejected_lines(known: Format, pattern: int, head: bytes, tail: bytes) -> Iterator[Problem]:
    """Yield doubts about numbers read only in part and record-like lines not read, at either end of a log.

    ``pattern`` is the index of the format's record pattern.
    """
    # The two ends of a short log are one text.
    ends = tuple(dict.fromkeys((head[:_CHECKED_BYTES], tail[-_CHECKED_BYTES:])))
    expressions = [*known.records[pattern : pattern + 1]]
    if summary := known.figures.get("summary"):
        expressions.append(summary)
    for expression in expressions:
        found = next((cut for text in ends for cut in _cut_numbers(expression, text)), None)
        if found is not None:
            sentence = f"some numbers are read only in part ({found}): write them with a decimal point only"
            yield Problem("numbers-cut", sentence)
    for expression in known.records[pattern : pattern + 1]:
        counts = [_count_skipped(expression, text) for text in ends]
        skipped, read = max(counts, key=lambda count: count[0] / max(sum(count), 1))
        if skipped >= _FEWEST and skipped > _MANY * (skipped + read):
            sentence = (
                f"{skipped} of {skipped + read} lines at one end of the log begin like records but cannot be read: "
                "they were truncated, wrapped or written in another locale, and do not count in the number"
            )
            yield Problem("records-passed-over", sentence)


def _cut_numbers(expression: re.Pattern[bytes], text: bytes) -> Iterator[str]:
    """Yield the numbers in ``text`` of which ``expression`` reads only the first part."""
    numbers = expression.groupindex
    # A number whose unit is read too is whole.
    names = [name for name in _FIGURES if name in numbers and name + SUFFIX not in numbers]
    groups = [numbers[name] for name in names] if numbers else [1]
    for match in expression.finditer(text):
        for group in groups:
            word, end = match[group], match.end(group)
            if not word:
                continue
            short = word.isdigit() and len(word) <= _GROUP
            more = (short and _MORE_DIGITS.match(text, end)) or _OTHER_UNIT.match(text, end)
            if more:
                yield text[match.start(group) : more.end()].decode("utf-8", "replace")


def _count_skipped(expression: re.Pattern[bytes], text: bytes) -> tuple[int, int]:
    """Return how many lines of ``text`` resemble records but do not match ``expression``, and how many match.

    A line resembles a record if it ends early, or has commas in place of points.
    """
    words = required_all(expression)
    if not words:
        return 0, 0
    word = max(words, key=len)
    lines = [line for line in text.split(b"\n")[1:-1] if word in line]  # the first and last may be incomplete
    ours = {line for line in lines if expression.search(line + b"\n")}
    whole = {line.translate(None, _VARYING) for line in ours}
    others = [line for line in lines if line not in ours]
    others = [line.translate(None, _VARYING) for line in others if _LETTER_AFTER_STAMP.match(line)]
    skipped = (
        sum(1 for other in others if any(_is_part(other, one) for one in whole))
        if len(whole) <= _KINDS
        else 0
    )
    return skipped, sum(line in ours for line in lines)


def _is_part(line: bytes, whole: bytes) -> bool:
    return whole.startswith(line) or (b"," in line and line.replace(b",", b"") == whole.replace(b",", b""))
