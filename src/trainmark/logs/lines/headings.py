"""Records under a heading: only the first one counts, where a program prints such lines for other work too."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.lines.literals import can_match, required, required_all

Places = NDArray[np.intp]

_SAMPLE = 1 << 14


def drop_unheaded(
    heading: re.Pattern[bytes], record: re.Pattern[bytes], text: bytes, opened: bool | None
) -> tuple[bytes, bool | None]:
    """Return ``text`` without the records that follow the first one of a heading, and the next ``opened``.

    ``opened`` is whether a heading still has no record; None before the first heading, where every record counts: a
    program may print no heading at all, or its log may be cut.
    """
    starts = _starts(heading, text)
    if opened is None and not len(starts):
        return text, None
    bounds = np.concatenate(([0], starts, [len(text)]))
    retained, position = [], 0
    for index in _with_several(record, text, starts):
        begin, end = bounds[index : index + 2].tolist()
        if index == 0 and opened is None:
            continue
        found = record.search(text, begin, end)
        if found is None:
            continue
        after = begin if index == 0 and not opened else found.end()
        retained += [text[position:after], record.sub(b"", text[after:end])]
        position = end
    if len(starts):
        opened = record.search(text, starts[-1]) is None
    elif opened and record.search(text):
        opened = False
    return b"".join((*retained, text[position:])) if retained else text, opened


def _starts(heading: re.Pattern[bytes], text: bytes) -> Places:
    """Return where the headings begin.

    The word with which they begin is found much faster than their pattern, if it begins nothing else.
    """
    if not can_match(heading, text):
        return np.empty(0, np.intp)
    word = max(required_all(heading), key=len, default=b"")
    if word and heading.pattern.startswith(word):
        places = _places(text, word)
        if len(places) == len(heading.findall(text)):
            return places
    return np.array([match.start() for match in heading.finditer(text)], np.intp)


def _with_several(record: re.Pattern[bytes], text: bytes, starts: Places) -> list[int]:
    """Return which parts of the text may have a record too many: what precedes ``starts`` is the first part.

    A part has as many records as words of which each record has one, or fewer.
    """
    words = required(record)
    if b"" in words:
        return list(range(len(starts) + 1))
    places = np.concatenate([_places(text, word) for word in words])
    counts = np.bincount(np.searchsorted(starts, places, side="right"), minlength=len(starts) + 1)
    # What precedes the first heading may follow one of an earlier text.
    counts[0] *= 2
    several: list[int] = np.flatnonzero(counts > 1).tolist()
    return several


def _places(text: bytes, word: bytes) -> Places:
    """Return where a word begins in the text, by the byte of it that is the rarest at the start of the text."""
    if word not in text:
        return np.empty(0, np.intp)
    values: NDArray[Any] = np.frombuffer(text, np.uint8)
    at = min(range(len(word)), key=lambda index: text.count(word[index : index + 1], 0, _SAMPLE))
    found = np.flatnonzero(values == word[at]) - at
    found = found[(found >= 0) & (found <= len(text) - len(word))]
    for index, byte in enumerate(word):
        if index != at:
            found = found[values[found + index] == byte]
    return found
