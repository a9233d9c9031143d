"""Lines that the expressions of a format read as something else than was meant: numbers cut, and records passed over.

Other locales, terminals of 80 columns and people's own edits write what no program prints: ``2 541.3`` and ``2.541,3``
are read as 2, ``2.5k`` as 2.5, and a line that was cut is no record any more.
"""

import re
from collections.abc import Iterator

from trainmark.logs.format import Format
from trainmark.logs.literals import demanded
from trainmark.logs.model import Problem

_LOOKED_AT = 1 << 15
"""Bytes at either end of the log that are looked at."""
_FIGURES = ("rate", "average_rate", "step_time_s", "step_time_ms", "average_time_s", "average_time_ms")
_GOES_ON = re.compile(rb"(?:[ '_]|\xc2\xa0|\xe2\x80\x89|\xe2\x80\xaf)\d{3}(?!\d)")
"""Behind one to three digits: the number went on, in groups of three."""
_OTHER_UNIT = re.compile(rb",\d|[kKMG](?![A-Za-z])")
"""Behind any number: it went on after a comma, or counts thousands."""
_VARYING = b"0123456789.+- "
_KINDS = 8
"""Unlike lines that are records: where there are more, others that begin alike are no sign."""
_GROUP = 3
"""Digits between the marks of thousands."""
_MANY = 0.02
_FEWEST = 3


def misread(known: Format, pattern: int, head: bytes, tail: bytes) -> Iterator[Problem]:
    """Yield doubts where numbers or lines at either end of a log are not what was read.

    ``pattern`` is which of the format's records the log has.
    """
    ends = (head[:_LOOKED_AT], tail[-_LOOKED_AT:])
    expressions = [*known.records[pattern : pattern + 1]]
    if summary := known.figures.get("summary"):
        expressions.append(summary)
    for expression in expressions:
        found = next((cut for text in ends for cut in _cut_numbers(expression, text)), None)
        if found is not None:
            sentence = (
                f"the log has numbers of which only a part is read ({found}): write them with a point alone"
            )
            yield Problem("numbers-cut", sentence)
    for expression in known.records[pattern : pattern + 1]:
        counts = [_passed_over(expression, text) for text in ends]
        passed, read = max(counts, key=lambda count: count[0] / max(sum(count), 1))
        if passed >= _FEWEST and passed > _MANY * (passed + read):
            sentence = (
                f"{passed} of {passed + read} lines at one end of the log begin like its records and are none: they "
                "were cut, wrapped or written in another locale, and are not in the number"
            )
            yield Problem("records-passed-over", sentence)


def _cut_numbers(expression: re.Pattern[bytes], text: bytes) -> Iterator[str]:
    """Yield the numbers in ``text`` that go on behind what ``expression`` reads of them."""
    numbers = expression.groupindex
    groups = [numbers[name] for name in _FIGURES if name in numbers] if numbers else [1]
    for match in expression.finditer(text):
        for group in groups:
            word, end = match[group], match.end(group)
            if not word:
                continue
            short = word.isdigit() and len(word) <= _GROUP
            more = (short and _GOES_ON.match(text, end)) or _OTHER_UNIT.match(text, end)
            if more:
                yield text[match.start(group) : more.end()].decode("utf-8", "replace")


def _passed_over(expression: re.Pattern[bytes], text: bytes) -> tuple[int, int]:
    """Return how many lines of ``text`` are like those that ``expression`` matches and are not matched, and are.

    Like them are lines that end early, or have commas where a record has points.
    """
    words = demanded(expression)
    if not words:
        return 0, 0
    word = max(words, key=len)
    lines = [line for line in text.split(b"\n")[1:-1] if word in line]  # the outer ones may be parts of lines
    ours = {line for line in lines if expression.search(line + b"\n")}
    whole = {line.translate(None, _VARYING) for line in ours}
    others = [line.translate(None, _VARYING) for line in lines if line not in ours]
    passed = (
        sum(1 for other in others if any(_is_part(other, one) for one in whole))
        if len(whole) <= _KINDS
        else 0
    )
    return passed, len(lines) - len(others)


def _is_part(line: bytes, whole: bytes) -> bool:
    return whole.startswith(line) or (b"," in line and line.replace(b",", b"") == whole.replace(b",", b""))
