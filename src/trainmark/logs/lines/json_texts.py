"""The texts in lines of JSON, cut out and without escapes, by moving and marking characters of all lines at once."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.lines.digits import Bytes, Characters, Ints
from trainmark.logs.lines.json_outline import Strings
from trainmark.logs.lines.json_page import BACKSLASH, NEWLINE, QUOTE, Flags, Page

_N, _U = b"nu"
_ESCAPED_LINE_END = len(rb"\n")
_ESCAPED_CODE = len(rb"\u000a")
_DELETED = 0xFF
"""A byte that UTF-8 does not have."""
_REMOVED = bytes([_DELETED])
_NO_CODE = -1 << 20
_HEXADECIMAL = np.full((4, 256), _NO_CODE, np.int32)
"""What a hexadecimal digit adds to a number of four of them, by its place."""
for _place in range(4):
    _HEXADECIMAL[_place, list(b"0123456789abcdefABCDEF")] = [
        digit << 4 * (3 - _place) for digit in (*range(16), *range(10, 16))
    ]
_MEANINGS = np.full(256, _NO_CODE, np.int32)
"""What the character after a backslash stands for; ``_NO_CODE`` for those that JSON does not allow."""
_MEANINGS[list(b'"\\/bfnrt')] = list(b'"\\/\b\f\n\r\t')
_FIRST_OF_TWO, _FIRST_OF_THREE, _SURROGATES, _AFTER_SURROGATES = 0x80, 0x800, 0xD800, 0xE000
_LONG = 2.0
"""Texts that are longer than the mean by this factor are moved one by one: others as rows of one length."""


class Escapes(NamedTuple):
    """The places of escapes in texts, their ``owners`` among these, and the characters that they stand for.

    ``codes`` are negative for what JSON does not allow, ``is_long`` is true for ``\\u…``.
    """

    places: Ints
    owners: Ints
    codes: NDArray[np.int32]
    is_long: Flags

    @classmethod
    def of(cls, single: Bytes, places: Ints, owners: Ints) -> "Escapes":
        """Return the escapes at ``places``."""
        kinds = single[places + 1]
        codes, is_long = _MEANINGS[kinds], kinds == _U
        long = places[is_long]
        codes[is_long] = sum(_HEXADECIMAL[place][single[long + 2 + place]] for place in range(4))
        return cls(places, owners, codes, is_long)

    def some(self, chosen: Flags) -> "Escapes":
        """Return the ``chosen`` ones of these escapes."""
        return Escapes(self.places[chosen], self.owners[chosen], self.codes[chosen], self.is_long[chosen])


class Texts(NamedTuple):
    """Strings whose escapes are checked: which of them end a line, and the other escapes; None without any."""

    strings: Strings
    ends_line: Flags
    escapes: Escapes | None

    def some(self, chosen: Flags) -> "Texts":
        """Return those of the ``chosen`` strings."""
        if chosen.all():
            return self
        escapes = self.escapes
        if escapes is not None:
            escapes = escapes.some(chosen[escapes.owners])
            escapes = escapes._replace(owners=(np.cumsum(chosen) - 1)[escapes.owners])
        return Texts(self.strings.some(chosen), self.ends_line[chosen], escapes)


def checked(page: Page, strings: Strings) -> Texts:
    """Return those of ``strings`` whose lines have the right quotes and controls, and no wrong escape.

    Escapes outside the text, halves of a surrogate pair, and a text's last character that is a line end written as a
    number, count as wrong: those lines are left to another decoder.
    """
    texts = _with_right_escapes(page, strings)
    escapes = texts.escapes
    total = page.total(QUOTE) - page.total_in(QUOTE, _others(page, texts.strings))
    if escapes is not None:
        total -= int(np.count_nonzero((escapes.codes == QUOTE) & ~escapes.is_long))
    if total != texts.strings.quotes.sum():
        texts = texts.some(page.counts(page.quotes)[texts.strings.lines] == texts.strings.quotes)
    controls = texts.strings.controls
    if len(page.controls) != len(page.ends) or (controls != 1).any():
        texts = texts.some(page.counts(page.controls)[texts.strings.lines] == controls)
    return texts


def _others(page: Page, strings: Strings) -> Ints:
    """Return the numbers of the lines that are not among ``strings``."""
    if len(strings.lines) == len(page.ends):
        return strings.lines[:0]
    is_other = np.ones(len(page.ends), np.bool_)
    is_other[strings.lines] = False
    return np.flatnonzero(is_other)


def _with_right_escapes(page: Page, strings: Strings) -> Texts:
    begins, stops = strings.texts
    ends_line = stops - begins >= _ESCAPED_LINE_END
    ends_line &= (page.single[stops - 2] == BACKSLASH) & (page.single[stops - 1] == _N)
    others = _others(page, strings)
    if page.total(BACKSLASH) == np.count_nonzero(ends_line) + page.total_in(BACKSLASH, others):
        return Texts(strings, ends_line, None)
    places = page.escapes
    first, after = np.searchsorted(places, begins), np.searchsorted(places, stops)
    counts = after - first
    last = np.where(counts > 0, places[after - 1], -1)
    fits = last != stops - 1  # the quote is not escaped
    ends_line &= last == stops - _ESCAPED_LINE_END
    if len(others) or len(places) != counts.sum():
        fits &= page.counts(places)[strings.lines] == counts
    owners = np.repeat(np.arange(len(counts)), counts)
    own = places[np.arange(len(owners)) + np.repeat(after - np.cumsum(counts), counts)]
    is_inner = np.ones(len(own), np.bool_)
    is_inner[(np.cumsum(counts) - 1)[ends_line]] = False
    escapes = Escapes.of(page.single, own[is_inner], owners[is_inner])
    codes = escapes.codes
    wrong = (codes < 0) | (codes >= _SURROGATES) & (codes < _AFTER_SURROGATES)
    wrong |= escapes.is_long & (codes == NEWLINE) & (escapes.places + _ESCAPED_CODE == stops[escapes.owners])
    fits[escapes.owners[wrong]] = False
    return Texts(strings, ends_line, escapes).some(fits)


def join(page: Page, texts: Texts, read: Callable[[bytes], bytes]) -> bytes:
    """Return ``texts`` with their line ends, and what ``read`` returns for the other lines, in their order."""
    strings = texts.strings
    begins, stops = strings.texts
    # The quote, or the backslash of the line's end, becomes the end; a part has none.
    sizes = stops - begins - texts.ends_line + ~(texts.ends_line | strings.has_parts)
    bounds = np.concatenate(([0], np.cumsum(sizes)))
    found = _moved(page.characters, begins, sizes, bounds)
    has_end = texts.ends_line | ~strings.has_parts
    found[bounds[1:][has_end] - 1] = NEWLINE
    escapes = texts.escapes
    if escapes is not None:
        moved = (bounds[:-1] - begins)[escapes.owners]
        _unescape(found, escapes._replace(places=escapes.places + moved))

    def cut(first: int, after: int) -> bytes:
        text = found[bounds[first] : bounds[after]].tobytes()
        return text if escapes is None else text.translate(None, _REMOVED)

    return _between(page, strings, cut, read)


def join_strings(
    page: Page, strings: Strings, texts: Sequence[bytes], read: Callable[[bytes], bytes]
) -> bytes:
    """Return ``texts`` of the ``strings``, and what ``read`` returns for the other lines, in their order."""
    return _between(page, strings, lambda first, after: b"".join(texts[first:after]), read)


def _between(
    page: Page, strings: Strings, cut: Callable[[int, int], bytes], read: Callable[[bytes], bytes]
) -> bytes:
    """Return what ``read`` returns for other lines than those of ``strings``, and the ``cut`` texts of these."""
    parts: list[bytes] = []
    before = 0
    for first, after in _runs(_others(page, strings)):
        place = int(np.searchsorted(strings.lines, first))
        parts += [cut(before, place), read(page.text(first, after))]
        before = place
    return b"".join([*parts, cut(before, len(strings.lines))])


def _runs(lines: Ints) -> list[tuple[int, int]]:
    """Return the first of each run of successive ``lines``, and the line after its last."""
    if not len(lines):
        return []
    breaks = np.flatnonzero(np.diff(lines) > 1)
    firsts, lasts = (
        np.concatenate((lines[:1], lines[breaks + 1])),
        np.concatenate((lines[breaks], lines[-1:])),
    )
    return list(zip(firsts.tolist(), (lasts + 1).tolist(), strict=True))


def _moved(characters: Characters, begins: Ints, sizes: Ints, bounds: Ints) -> Bytes:
    """Return ``sizes`` characters from each of ``begins`` on, without gaps; ``bounds`` are their places."""
    single, total = characters.single, int(bounds[-1])
    row = max(1, int(min(sizes.max(), _LONG * float(sizes.mean()))))
    found = np.empty(total + row, np.uint8)
    # Each row is written over the end of the one before.
    rows = int(np.searchsorted(begins, len(single) - row, side="right"))
    texts, places = (np.ndarray((len(of) - row + 1,), f"V{row}", of, strides=(1,)) for of in (single, found))
    places[bounds[:rows]] = texts[begins[:rows]]
    for at in (*np.flatnonzero(sizes[:rows] > row).tolist(), *range(rows, len(sizes))):
        found[bounds[at] : bounds[at + 1]] = single[begins[at] : begins[at] + sizes[at]]
    return found[:total]


def _unescape(found: Bytes, escapes: Escapes) -> None:
    """Replace ``escapes`` in ``found`` by what they stand for, and what is left of them by ``_DELETED``."""
    places, codes, is_long = escapes.places, escapes.codes, escapes.is_long
    found[places] = _DELETED
    found[places[~is_long] + 1] = codes[~is_long]
    places, codes = places[is_long], codes[is_long]
    for place in range(1, _ESCAPED_CODE - 1):
        found[places + place] = _DELETED
    last = places + _ESCAPED_CODE - 1
    is_ascii = codes < _FIRST_OF_TWO
    found[last] = np.where(is_ascii, codes, 0x80 | codes & 0x3F)
    if not is_ascii.all():
        has_three = codes >= _FIRST_OF_THREE
        before = np.where(has_three, 0x80 | codes >> 6 & 0x3F, 0xC0 | codes >> 6)
        found[last[~is_ascii] - 1] = before[~is_ascii]
        found[last[has_three] - 2] = (0xE0 | codes >> 12)[has_three]
