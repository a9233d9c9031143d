"""Fields of many lines at once where the lines differ in their numbers only: decoded as arrays, without a loop.

A training log is one line said a million times. Once a regular expression has matched the first line, lines that are
the same but for digits, signs, points and blanks match at the same places. Those places are found by counting
characters (the third ``:``, the second ``,``), and the numbers between them are decoded eight digits at a time. What
is not so regular is left to the expression: the answer is the same, only slower.
"""

import re

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.columns import Floats
from trainmark.logs.transport import uncoloured

VARYING = b"0123456789.+- "
"""What is left out when two lines are compared: the characters of numbers, and the blanks that pad them."""
_FEWEST_LINES = 16
_LONGEST_BETWEEN = 7
"""Characters that vary elsewhere between one that never does and a number: they are compared as one word."""
_NEWLINE, _BLANK, _POINT, _COLON = b"\n .:"
_POWERS = 10 ** np.arange(19, dtype=np.int64)
_POWERS_FLOAT = 10.0 ** np.arange(19)
ANY_YEAR = b"2000/"
"""Of a stamp without a year: this one has all days."""
SHORT_STAMP_BYTES = 14
_LARGEST_EXACT = 1 << 53
_DATE = np.uint64(0xFFFFFFFFFF)
"""The first five bytes of a word: ``07/28``."""
_EXTENDED = np.finfo(np.longdouble).nmant == 63

_Ints = NDArray[np.int64]
_Words = NDArray[np.uint64]
"""Eight characters of a text in one number, the first in its lowest byte."""


class _IrregularError(Exception):
    """The lines are not alike enough: the regular expression has to read them."""


def regular_fields(pattern: re.Pattern[bytes], text: bytes) -> dict[str, Floats] | None:
    """Return what ``pattern`` finds in ``text`` as columns by group, one value a line; ``None`` if it is irregular.

    Groups are numbers (those whose names begin with ``_`` are left out), but for ``stamp`` (date and time of day),
    which comes out as ``clock_s``. A number is the same double that ``float`` gives.
    """
    end = text.find(b"\n") + 1
    first, second = text[:end], text[end : text.find(b"\n", end) + 1]
    skeleton = first.translate(None, VARYING)
    if not second or second.translate(None, VARYING) != skeleton:
        return None
    match = pattern.search(first)
    if match is None or pattern.search(first, match.end()):
        return None
    skeletons = text.translate(None, VARYING)
    count = len(skeletons) // len(skeleton)
    if count < _FEWEST_LINES or skeletons != skeleton * count:
        return None
    if b"\x1b" in first:
        plain = pattern.search(uncoloured(first))
        if plain is None or plain.groups() != match.groups():
            return None
    try:
        lines = _Lines(text, match, count)
        return {
            "clock_s" if name == "stamp" else name: lines.values(name)
            for name in pattern.groupindex
            if not name.startswith("_")
        }
    except _IrregularError:
        return None


class _Lines:
    """Lines that are alike, and where in each of them the groups of the first one's match are."""

    def __init__(self, text: bytes, match: re.Match[bytes], count: int) -> None:
        self._text, self._match, self._first = text, match, match.string
        # Room at the end, so that eight bytes can be loaded at any place.
        self._characters = np.frombuffer(text + bytes(32), np.uint8)
        self._words: _Words = np.ndarray((len(text) + 24,), np.dtype("<u8"), self._characters, strides=(1,))
        anchors = {
            place: self._anchors(*match.span(place), date=place == "stamp")
            for place in match.re.groupindex
            if match[place] is not None and not place.startswith("_")
        }
        self._count = count
        self._anchor_of = anchors
        wanted = bytes({self._first[place] for pair in anchors.values() for place in pair if place >= 0})
        mask = bytes(byte in wanted or byte == _NEWLINE for byte in range(256))
        found = np.flatnonzero(np.frombuffer(text.translate(mask), np.bool_))
        self._places = found.reshape(count, -1).T
        self._number_of = {
            place: number
            for number, place in enumerate(p for p, byte in enumerate(self._first) if mask[byte])
        }

    def values(self, name: str) -> Floats:
        """Return what the group called ``name`` says; NaN where the lines do not have it."""
        if self._match[name] is None:
            return np.full(self._count, np.nan)
        return self.stamps() if name == "stamp" else self.numbers(name)

    def numbers(self, name: str) -> Floats:
        """Return the numbers in the group called ``name``."""
        before, after = self._anchor_of[name]
        starts, ends = self._place(before) + 1, self._place(after)
        if between := self._first[before + 1 : self._match.start(name)].rstrip(b" "):
            starts = self._behind(starts, between)
        while (blank := self._characters[starts] == _BLANK).any():
            starts = starts + blank
            if (starts >= ends).any():
                raise _IrregularError
        while (blank := self._characters[ends - 1] == _BLANK).any():
            ends = ends - blank
        if b"." in self._match[name]:
            return self._decimals(starts, ends - starts)
        return _eight_digits(self._words[starts], ends - starts).astype(np.float64)

    def stamps(self) -> Floats:
        """Return the times in the group ``stamp`` (``2023-08-04 05:47:54.922593``) as seconds since 1970, as UTC."""
        start = self._match.start("stamp")
        before, _ = self._anchor_of["stamp"]
        starts = self._place(before) + (start - before)
        date_and_time = self._match["stamp"].replace(b"/", b"-")
        if len(date_and_time) == SHORT_STAMP_BYTES:
            return self._short_stamps(starts, date_and_time)
        head, tail = self._words[starts], self._words[starts + 3]
        if (head != head[0]).any() or (tail != tail[0]).any():  # another day: eleven characters are the same
            raise _IrregularError
        seconds = _time_of_day(self._words[starts + 11]) + _day(date_and_time[:10]) * 86400
        digits = len(date_and_time) - 20
        if digits <= 0:
            if self._first[start + 19 : start + 20] in b".,":
                raise _IrregularError
            return seconds.astype(np.float64)
        after = self._characters[starts + 20 + digits] - np.uint8(ord("0"))
        if digits > 8 or date_and_time[19] not in b".," or (after < 10).any():
            raise _IrregularError
        count = np.full(len(starts), digits)
        # Summed apart: beside 1.7e9 seconds each addition would lose a tenth of a microsecond.
        fraction: Floats = _eight_digits(self._words[starts + 20], count) / _POWERS_FLOAT[digits]
        return seconds + fraction

    def _short_stamps(self, starts: _Ints, date_and_time: bytes) -> Floats:
        """Return the times of stamps without a year (``07/28 06:51:13``)."""
        date = self._words[starts] & _DATE
        if (date != date[0]).any():
            raise _IrregularError
        day = _day(ANY_YEAR.replace(b"/", b"-") + date_and_time[:5])
        return (_time_of_day(self._words[starts + 6]) + day * 86400).astype(np.float64)

    def _anchors(self, start: int, end: int, *, date: bool) -> tuple[int, int]:
        """Return the nearest characters that never vary: before ``start`` (-1: the line's start) and from ``end``."""
        if start < 0:
            raise _IrregularError
        before, after = start - 1, end
        while before >= 0 and self._first[before] in VARYING:
            before -= 1
        while self._first[after] in VARYING:
            after += 1
        between, behind = self._first[before + 1 : start].rstrip(b" "), self._first[end:after].strip(b" ")
        if (len(between) > _LONGEST_BETWEEN or behind) and not date:
            raise _IrregularError
        return before, after

    def _behind(self, starts: _Ints, between: bytes) -> _Ints:
        """Return where ``between``, which every line must have at ``starts``, ends (the `` -`` of `` - 12s``)."""
        same = np.uint64(int.from_bytes(between, "little"))
        mask = np.uint64((1 << 8 * len(between)) - 1)
        if ((self._words[starts] & mask) != same).any():
            raise _IrregularError
        return starts + len(between)

    def _place(self, place: int) -> _Ints:
        """Return where each line has the character that the first line has at ``place``."""
        if place < 0:
            return np.concatenate(([-1], self._places[-1][:-1]))
        found: _Ints = self._places[self._number_of[place]]
        return found

    def _decimals(self, starts: _Ints, widths: _Ints) -> Floats:
        """Return the decimal numbers (no sign, no exponent) of ``widths`` characters at ``starts``."""
        head = self._words[starts]
        whole = _before_point(head)
        places = widths - whole - 1
        least, most = int(places.min()), int(places.max())
        if least < 0 or most > 16 or int(whole.min()) < 1 or int((whole + places).max()) > 18:
            raise _IrregularError
        mantissa = _eight_digits(head, whole)
        for done in range(0, most, 8):
            here = np.clip(places - done, 0, 8) if least < done + 8 else np.full(len(places), 8)
            digits = _eight_digits(self._words[starts + whole + (1 + done)], here)
            mantissa = mantissa * _POWERS[here] + digits
        return self._quotient(mantissa, places, starts, widths)

    def _quotient(self, mantissa: _Ints, places: _Ints, starts: _Ints, widths: _Ints) -> Floats:
        """Return ``mantissa / 10**places``, rightly rounded."""
        values: Floats = mantissa / _POWERS_FLOAT[places]
        # Above 2**53 the division would round twice: extended precision has the bits, but for exact halves.
        large = np.flatnonzero(mantissa >= _LARGEST_EXACT)
        if len(large) and _EXTENDED:
            extended = mantissa[large].astype(np.longdouble) / _POWERS[places[large]].astype(np.longdouble)
            values[large] = extended.astype(np.float64)
            large = large[(extended.view(np.uint64)[::2] & np.uint64(0x7FF)) == 0x400]
        for index in large.tolist():
            start = int(starts[index])
            values[index] = float(self._text[start : start + int(widths[index])])
        return values


def _u8(byte: int) -> np.uint64:
    """Return a word of eight times ``byte``."""
    return np.uint64(byte * 0x0101010101010101)


_ZEROS = _u8(ord("0"))


def _before_point(words: _Words) -> _Ints:
    """Return the number of characters before the first point in each of ``words``; 8 where there is none."""
    others = words ^ _u8(_POINT)
    points = (others - _u8(0x01)) & ~others & _u8(0x80)
    lowest = points & (~points + np.uint64(1))
    before = ((lowest - np.uint64(1)) & _u8(0x80)) >> np.uint64(7)  # 1 in each byte before the point
    return ((before * _u8(0x01)) >> np.uint64(56)).astype(np.int64)


def _eight_digits(words: _Words, count: _Ints) -> _Ints:
    """Return the first ``count`` (0 … 8) characters of each of ``words`` as a whole number.

    Source of the last three steps: D. Lemire, "Quickly parsing eight digits", 2018.
    """
    low, high = int(count.min()), int(count.max())
    if low < 0 or high > 8:
        raise _IrregularError
    if low == high == 0:
        return np.zeros(len(words), np.int64)
    if low != 8:
        # Move the digits to the upper bytes, so that the lower ones can be zeros in front.
        bits = ((8 - count) * 8).astype(np.uint64) if low != high else np.uint64((8 - low) * 8)
        if low == 0:
            words = np.where(count == 0, _ZEROS, words)
            bits = np.where(count == 0, np.uint64(0), bits)
        words = (words << bits) | (_ZEROS & ((np.uint64(1) << bits) - np.uint64(1)))
    digits = _checked(words) - _ZEROS
    pairs = (digits * np.uint64(10) + (digits >> np.uint64(8))) & np.uint64(0x00FF00FF00FF00FF)
    fours = (pairs * np.uint64(100) + (pairs >> np.uint64(16))) & np.uint64(0x0000FFFF0000FFFF)
    eights = fours * np.uint64(10000) + (fours >> np.uint64(32))
    return (eights & np.uint64(0xFFFFFFFF)).astype(np.int64)


def _time_of_day(words: _Words) -> _Ints:
    """Return the seconds since midnight of ``05:47:54``."""
    colons = np.uint64(0x0000FF0000FF0000)
    if ((words & colons) != (_u8(_COLON) & colons)).any():
        raise _IrregularError
    digits = _checked((words & ~colons) | (_ZEROS & colons)) - _ZEROS
    pairs = digits * np.uint64(10) + (digits >> np.uint64(8))
    hours, minutes, seconds = ((pairs >> np.uint64(bits)) & np.uint64(0xFF) for bits in (0, 24, 48))
    whole: _Words = hours * np.uint64(3600) + minutes * np.uint64(60) + seconds
    return whole.astype(np.int64)


def _day(date: bytes) -> int:
    """Return the days from 1970 to ``2023-08-04``."""
    try:
        return int(np.datetime64(date.decode("ascii"), "D").astype(np.int64))
    except ValueError:
        raise _IrregularError from None


def _checked(words: _Words) -> _Words:
    """Return ``words``, of digits alone; raise where one is not."""
    upper = _u8(0xF0)
    if (((words & upper) | (((words + _u8(0x06)) & upper) >> np.uint64(4))) != _u8(0x33)).any():
        raise _IrregularError
    return words
