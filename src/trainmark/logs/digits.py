"""Numbers and times of many lines decoded as arrays, eight characters at a time, where each has as many digits."""

import re

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.columns import Floats

ANY_YEAR = b"2000/"
"""Of a stamp without a year: this one has all days."""
SHORT_STAMP_BYTES = 14
_MOST_DIGITS = 18
_MOST_PLACES = 17
_ROOM = 32
_LARGEST_EXACT = 1 << 53
_EXTENDED = np.finfo(np.longdouble).nmant == 63
_POWERS = 10 ** np.arange(_MOST_DIGITS + 1, dtype=np.int64)
_POINT = ord(".")
_DATE = np.uint64(0xFFFFFFFFFF)
"""The first five bytes of a word: ``07/28``."""
_SHORT_STAMP = re.compile(rb"\d\d/\d\d \d\d:\d\d:\d\d")
_STAMP = re.compile(rb"\d{4}[-/]\d\d[-/]\d\d\D\d\d:\d\d:\d\d(?:[.,]\d{1,8})?")

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]
"""Eight characters of a text in one number, the first in its lowest byte."""


def _u8(byte: int) -> np.uint64:
    """Return a word of eight times ``byte``."""
    return np.uint64(byte * 0x0101010101010101)


_ZEROS, _ONES, _TOPS, _UPPER = _u8(ord("0")), _u8(0x01), _u8(0x80), _u8(0xF0)


class IrregularError(Exception):
    """The lines are not alike enough: the regular expression has to read them."""


class Characters:
    """The characters of a text: one by one, and eight together from any place on."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        # Room at the end, so that eight bytes can be loaded at any place.
        self.single: Bytes = np.frombuffer(text + bytes(_ROOM), np.uint8)
        self._words: Words = np.ndarray((len(text) + _ROOM - 7,), np.dtype("<u8"), self.single, strides=(1,))

    def words(self, starts: Ints) -> Words:
        """Return the eight characters from each of ``starts`` on."""
        return self._words[starts]

    def all_have(self, word: bytes, starts: Ints) -> bool:
        """Say whether ``word`` stands at each of ``starts``."""
        for at in range(0, len(word), 8):
            part = word[at : at + 8]
            wanted = np.uint64(int.from_bytes(part, "little"))
            mask = np.uint64((1 << 8 * len(part)) - 1)
            if ((self.words(starts + at) & mask) != wanted).any():
                return False
        return True

    def before_point(self, starts: Ints) -> Ints:
        """Return the number of characters before the first point from each of ``starts`` on; 8 where there is none."""
        others = self.words(starts) ^ _u8(_POINT)
        points = (others - _ONES) & ~others & _TOPS
        lowest = points & (~points + np.uint64(1))
        before = ((lowest - np.uint64(1)) & _TOPS) >> np.uint64(7)  # 1 in each byte before the point
        return ((before * _ONES) >> np.uint64(56)).astype(np.int64)

    def demand_digits(self, starts: Ints, count: int) -> None:
        """Raise ``IrregularError`` where not all of the ``count`` characters from ``starts`` on are digits."""
        for done in range(0, count, 8):
            words, over = self.words(starts + done), 8 * (8 - min(count - done, 8))
            if over:
                words = (words << np.uint64(over)) | (_ZEROS >> np.uint64(64 - over))
            marks = (words & _UPPER) | (((words + _u8(0x06)) & _UPPER) >> np.uint64(4))
            if (marks != _u8(0x33)).any():
                raise IrregularError

    def decimals(self, starts: Ints, whole: int, places: int) -> Floats:
        """Return the numbers at ``starts``: ``whole`` digits, and ``places`` behind a point where there are any.

        All must be digits. The values are the doubles that ``float`` gives.
        """
        if not 1 <= whole <= _MOST_DIGITS - places or places > _MOST_PLACES:
            raise IrregularError
        mantissa = self._digits(starts, whole)
        if not places:
            return mantissa.astype(np.float64)
        mantissa = mantissa * _POWERS[places] + self._digits(starts + (whole + 1), places)
        values: Floats = mantissa / float(_POWERS[places])
        if whole + places < len(str(_LARGEST_EXACT)):
            return values
        # Above 2**53 the division would round twice: extended precision has the bits, but for exact halves.
        doubtful = mantissa >= _LARGEST_EXACT
        if not doubtful.any():
            return values
        if _EXTENDED:
            extended = mantissa.astype(np.longdouble) / np.longdouble(_POWERS[places])
            values = extended.astype(np.float64)
            doubtful = (extended.view(np.uint64)[::2] & np.uint64(0x7FF)) == 0x400
        for index in np.flatnonzero(doubtful).tolist():
            start = int(starts[index])
            values[index] = float(self.text[start : start + whole + 1 + places])
        return values

    def stamps(self, starts: Ints, first: bytes) -> Floats:
        """Return the times at ``starts`` as seconds since 1970, as UTC.

        All are written as ``first``, which is the first of them (``2023-08-04 05:47:54.922593``); raises
        ``IrregularError`` where one is of another day.
        """
        if len(first) == SHORT_STAMP_BYTES:
            return self._short_stamps(starts, first)
        if not _STAMP.fullmatch(first):
            raise IrregularError
        head, tail = self.words(starts), self.words(starts + 3)
        if (head != head[0]).any() or (tail != tail[0]).any():  # another day: eleven characters are the same
            raise IrregularError
        seconds = self._time_of_day(starts + 11) + _day(first[:10]) * 86400
        digits = len(first) - 20
        if digits <= 0:
            return seconds.astype(np.float64)
        # Summed apart: beside 1.7e9 seconds each addition would lose a tenth of a microsecond.
        fraction: Floats = self._digits(starts + 20, digits) / float(_POWERS[digits])
        return seconds + fraction

    def _short_stamps(self, starts: Ints, first: bytes) -> Floats:
        """Return the times of stamps without a year (``07/28 06:51:13``)."""
        date = self.words(starts) & _DATE
        if not _SHORT_STAMP.fullmatch(first) or (date != date[0]).any():
            raise IrregularError
        day = _day(ANY_YEAR.replace(b"/", b"-") + first[:5])
        return (self._time_of_day(starts + 6) + day * 86400).astype(np.float64)

    def _time_of_day(self, starts: Ints) -> Ints:
        """Return the seconds since midnight of ``05:47:54``."""
        digits = self.words(starts) - _ZEROS
        pairs = digits * np.uint64(10) + (digits >> np.uint64(8))
        hours, minutes, seconds = ((pairs >> np.uint64(bits)) & np.uint64(0xFF) for bits in (0, 24, 48))
        whole: Words = hours * np.uint64(3600) + minutes * np.uint64(60) + seconds
        return whole.view(np.int64)

    def _digits(self, starts: Ints, count: int) -> Ints:
        """Return the ``count`` (1 … 18) digits from each of ``starts`` on as a whole number."""
        first = min(count, 8)
        found = _whole_number(self.words(starts), first)
        for done in range(first, count, 8):
            here = min(count - done, 8)
            found = found * _POWERS[here] + _whole_number(self.words(starts + done), here)
        return found


def _whole_number(words: Words, count: int) -> Ints:
    """Return the first ``count`` (1 … 8) digits of each of ``words``, which are overwritten, as a whole number.

    Source of the last three steps: D. Lemire, "Quickly parsing eight digits", 2018.
    """
    over = np.uint64(8 * (8 - count))
    # The digits move to the upper bytes, so that the lower ones can be zeros in front.
    words <<= over
    words -= _ZEROS >> over << over
    if words[0] == words[-1] and (words == words[0]).all():
        words, length = words[:1].copy(), len(words)
        return np.full(length, _whole_number_of_digits(words)[0])
    return _whole_number_of_digits(words)


def _whole_number_of_digits(words: Words) -> Ints:
    for scale, bits, mask in (
        (10, 8, 0x00FF00FF00FF00FF),
        (100, 16, 0x0000FFFF0000FFFF),
        (10_000, 32, 0xFFFFFFFF),
    ):
        lower = words >> np.uint64(bits)
        words *= np.uint64(scale)
        words += lower
        words &= np.uint64(mask)
    return words.view(np.int64)


def _day(date: bytes) -> int:
    """Return the days from 1970 to ``2023-08-04``."""
    try:
        return int(np.datetime64(date.replace(b"/", b"-").decode("ascii"), "D").astype(np.int64))
    except ValueError:
        raise IrregularError from None
