"""Decoding of numbers and time stamps of many lines as arrays, eight characters at a time."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.lines.suffixes import ANY_YEAR, SHORT_STAMP_BYTES
from trainmark.logs.model import Floats

_MOST_DIGITS = 18
_MOST_PLACES = 17
ROOM = 32
"""Padding after a text, so that eight characters, or the longest number, can be loaded from any position."""
_LARGEST_EXACT = 1 << 53
_MOST_EXACT_DIGITS = 15
"""Most digits of which every number is exact as a double; 10**22 is the largest exact power of ten."""
_LARGEST_EXACT_POWER = 22
_SIGNIFICAND = (1 << 52) - 1
_BIAS = 1075
"""Exponent bias of a double: ``significand * 2**(exponent - 1075)``."""
_POWERS = 10 ** np.arange(_MOST_DIGITS + 1, dtype=np.int64)
_NEWLINE, _POINT = b"\n."
_DATE = np.uint64(0xFFFFFFFFFF)
"""The first five bytes of a word: ``07/28``."""
_ELEVENTH = np.uint64(0xFFFFFF)
"""The first three bytes of a word, of which the third is the eleventh of a stamp."""
_SHORT_STAMP = re.compile(rb"\d\d/\d\d \d\d:\d\d:\d\d")
_STAMP = re.compile(rb"\d{4}[-/]\d\d[-/]\d\d\D\d\d:\d\d:\d\d(?:[.,]\d{1,8})?")

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]
"""Eight characters of a text in one number, the first in its lowest byte."""


def _u8(byte: int) -> np.uint64:
    """Return a word that repeats ``byte`` eight times."""
    return np.uint64(byte * 0x0101010101010101)


_ONE = np.uint64(1)
_ZEROS, _ONES, _TOPS, _UPPER = _u8(ord("0")), _u8(0x01), _u8(0x80), _u8(0xF0)
_FIRST_BYTES = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)


class IrregularError(Exception):
    """The lines are too irregular: the regular expression has to read them."""


Starts = Ints | range
"""Positions of numbers in a text; a range for equal distances, which is read many times faster."""


def shifted(starts: Starts, by: Ints | int) -> Starts:
    """Return ``starts`` shifted ``by`` characters."""
    if isinstance(starts, range):
        if isinstance(by, int):
            return range(starts.start + by, starts.stop + by, starts.step)
        starts = np.arange(starts.start, starts.stop, starts.step)
    return starts + by


class Characters:
    """The characters of a text with padding: single, and as words of eight from any position."""

    def __init__(self, single: Bytes) -> None:
        self.single = single
        self._words: Words = np.ndarray((len(single) - 7,), np.dtype("<u8"), single, strides=(1,))

    @classmethod
    def of(cls, text: bytes) -> "Characters":
        """Return the characters of ``text``."""
        return cls(np.frombuffer(text + bytes(ROOM), np.uint8))

    def words(self, starts: Starts) -> Words:
        """Return the eight characters at each of ``starts``."""
        if isinstance(starts, range):
            return np.ndarray((len(starts),), "<u8", self.single, starts.start, (starts.step,)).copy()
        return self._words[starts]

    def rows(self, starts: Starts, count: int) -> Words:
        """Return a row of ``count`` (up to 4) words at each of ``starts``, as fast as a single word."""
        kind = f"V{8 * count}"
        if isinstance(starts, range):
            found = np.ndarray((len(starts),), kind, self.single, starts.start, (starts.step,)).copy()
        else:
            found = np.ndarray((len(self.single) - 8 * count + 1,), kind, self.single, strides=(1,))[starts]
        return found.view("<u8").reshape(-1, count)

    def prefixes(self, starts: Starts, sizes: Ints, count: int) -> Words:
        """Return the first ``sizes`` characters at each of ``starts``, in a row of ``count`` (up to 4) words."""
        return self.rows(starts, count) & first_bytes(sizes[:, None] - np.arange(0, 8 * count, 8))

    def have(self, word: bytes, starts: Starts) -> NDArray[np.bool_]:
        """Return at which of ``starts`` the text has ``word``."""
        found = np.ones(len(starts), np.bool_)
        for at in range(0, len(word), 8):
            part = word[at : at + 8]
            wanted = np.uint64(int.from_bytes(part, "little"))
            mask = np.uint64((1 << 8 * len(part)) - 1)
            found &= (self.words(shifted(starts, at)) & mask) == wanted
        return found

    def all_have(self, word: bytes, starts: Starts) -> bool:
        """Return whether the text has ``word`` at each of ``starts``."""
        return bool(self.have(word, starts).all())

    def line_ends(self) -> Ints:
        """Return the end of each line, after its ``\\n``."""
        return places(self.single[: len(self.single) // 8 * 8] == _NEWLINE) + 1  # the padding has none

    def before_point(self, starts: Ints) -> Ints:
        """Return the number of characters before the first point after each of ``starts``; 8 if there is none."""
        return self.before(_POINT, starts)

    def before(self, character: int, starts: Ints) -> Ints:
        """Return the number of characters before the first ``character`` after each of ``starts``; 8 if it is none."""
        others = self.words(starts) ^ _u8(character)
        found = (others - _ONES) & ~others & _TOPS
        return _bytes_below((found & (~found + _ONE)) >> np.uint64(7))

    def demand_digits(self, starts: Ints, count: int) -> None:
        """Raise ``IrregularError`` unless the ``count`` characters at each of ``starts`` are all digits."""
        for done in range(0, count, 8):
            words, over = self.words(starts + done), 8 * (8 - min(count - done, 8))
            if over:
                words = (words << np.uint64(over)) | (_ZEROS >> np.uint64(64 - over))
            marks = (words & _UPPER) | (((words + _u8(0x06)) & _UPPER) >> np.uint64(4))
            if (marks != _u8(0x33)).any():
                raise IrregularError

    def decimals(self, starts: Starts, whole: Ints | int, places: Ints | int) -> Floats:
        """Return the numbers at ``starts`` with ``whole`` digits, and ``places`` digits after a point (if not 0).

        Both are arrays, or one value for all numbers. The caller ensures that the characters are digits. The values
        are the doubles that ``float`` returns.
        """
        most_places = int(np.max(places))
        if np.min(whole) < 1 or np.max(whole + places) > _MOST_DIGITS or most_places > _MOST_PLACES:
            raise IrregularError
        most = int(np.max(whole)) + most_places
        if most > _MOST_DIGITS and not isinstance(whole, int):
            return self._decimals_by_size(starts, whole, places)
        mantissa = self._mantissa(starts, whole, places, most_places)
        if not most_places:
            return mantissa.astype(np.float64)
        scale = int(_POWERS[most_places])
        values: Floats = mantissa / float(scale)
        if most < len(str(_LARGEST_EXACT)):
            return values
        # A dividend above 2**53 was already rounded.
        for index in _round_once(values, mantissa, scale).tolist():
            start = int(starts[index])
            size, digits = (int(np.broadcast_to(of, len(starts))[index]) for of in (whole, places))
            values[index] = float(self.single[start : start + size + 1 + digits].tobytes())
        return values

    def scientific(self, starts: Starts, whole: Ints | int, places: Ints | int, exponents: Ints) -> Floats:
        """Return the numbers of ``decimals`` times powers of ten, which is one rounding as in ``float``.

        Raises ``IrregularError`` if digits and power are not both exact as doubles.
        """
        most_places = int(np.max(places))
        if np.min(whole) < 1 or np.max(whole) + most_places > _MOST_EXACT_DIGITS:
            raise IrregularError
        mantissa = self._mantissa(starts, whole, places, most_places).astype(np.float64)
        powers = exponents - most_places
        if np.abs(powers).max() > _LARGEST_EXACT_POWER:
            raise IrregularError
        scale = 10.0 ** np.arange(_LARGEST_EXACT_POWER + 1)
        return np.where(powers < 0, mantissa / scale[np.abs(powers)], mantissa * scale[np.abs(powers)])

    def _mantissa(self, starts: Starts, whole: Ints | int, places: Ints | int, most_places: int) -> Ints:
        """Return the digits of the numbers at ``starts`` as integers, with ``most_places`` after the point."""
        mantissa = self._digits(starts, whole)
        if most_places:
            mantissa *= int(_POWERS[most_places])
            mantissa += self._fraction(shifted(starts, whole + 1), places, most_places)
        return mantissa

    def _decimals_by_size(self, starts: Starts, whole: Ints, places: Ints | int) -> Floats:
        """Return ``decimals`` of numbers of which some have many digits before the point, and others many after it."""
        values, where = np.empty(len(whole)), np.array(starts)
        behind = np.broadcast_to(places, len(whole))
        for size in np.unique(whole).tolist():
            rows = np.flatnonzero(whole == size)
            values[rows] = self.decimals(where[rows], size, behind[rows])
        return values

    def stamps(self, starts: Starts, first: bytes) -> Floats:
        """Return the times at ``starts`` as seconds since 1970, as UTC.

        All have the form of ``first``, the first of them (``2023-08-04 05:47:54.922593``). Raises
        ``IrregularError`` if one has another day.
        """
        if len(first) == SHORT_STAMP_BYTES:
            return self._short_stamps(starts, first)
        if not _STAMP.fullmatch(first):
            raise IrregularError
        words = self.rows(starts, 4)
        first_8, next_3, then = words[:, 0], words[:, 1] & _ELEVENTH, words[:, 2]
        if (first_8 != first_8[0]).any() or (
            next_3 != next_3[0]
        ).any():  # another day: eleven characters are the same
            raise IrregularError
        time_of_day = (words[:, 1] >> np.uint64(24)) | (then << np.uint64(40))
        seconds = _seconds_of_day(time_of_day) + _day(first[:10]) * 86400
        digits = len(first) - 20
        if digits <= 0:
            return seconds.astype(np.float64)
        # Summed separately: adding to 1.7e9 seconds would lose a tenth of a microsecond each time.
        behind = (then >> np.uint64(32)) | (words[:, 3] << np.uint64(32))
        fraction: Floats = _whole_number(behind, digits, digits) / float(_POWERS[digits])
        return seconds + fraction

    def _short_stamps(self, starts: Starts, first: bytes) -> Floats:
        """Return the times of stamps without a year (``07/28 06:51:13``)."""
        date = self.words(starts) & _DATE
        if not _SHORT_STAMP.fullmatch(first) or (date != date[0]).any():
            raise IrregularError
        day = _day(ANY_YEAR.replace(b"/", b"-") + first[:5])
        return (_seconds_of_day(self.words(shifted(starts, 6))) + day * 86400).astype(np.float64)

    def _fraction(self, starts: Starts, places: Ints | int, most: int) -> Ints:
        """Return the ``places`` (0 … ``most``) digits at ``starts``, padded with zeros up to ``most``."""
        rows = self.rows(starts, -(-most // 8))
        found: Ints = np.zeros(1, np.int64)
        for done in range(0, most, 8):
            words, size = rows[:, done // 8].copy(), min(most - done, 8)
            if not isinstance(places, int):
                # Replace the characters after the last digit by zeros.
                words -= _ZEROS
                words &= first_bytes(places - done)
                words |= _ZEROS
            part = _whole_number(words, size, size)
            found = found * _POWERS[size] + part if done else part
        return found

    def _digits(self, starts: Starts, count: Ints | int) -> Ints:
        """Return the ``count`` (0 … 18, an array or one value) digits at each of ``starts`` as an integer."""
        most = int(np.max(count))
        found = _whole_number(self.words(starts), np.minimum(count, 8), min(most, 8))
        for done in range(8, most, 8):
            here = np.minimum(np.maximum(count - done, 0), 8)
            more = _whole_number(self.words(shifted(starts, done)), here, min(most - done, 8))
            found = found * _POWERS[here] + more
        return found


def _seconds_of_day(words: Words) -> Ints:
    """Return the seconds since midnight of ``05:47:54``."""
    digits = words - _ZEROS
    pairs = digits * np.uint64(10) + (digits >> np.uint64(8))
    hours, minutes, seconds = ((pairs >> np.uint64(bits)) & np.uint64(0xFF) for bits in (0, 24, 48))
    whole: Words = hours * np.uint64(3600) + minutes * np.uint64(60) + seconds
    return whole.view(np.int64)


def first_bytes(counts: Ints) -> Words:
    """Return words whose first ``counts`` bytes are all ones: none below 1, eight above 8."""
    return np.take(_FIRST_BYTES, counts, mode="clip")


def places(found: NDArray[np.bool_]) -> Ints:
    """Return where ``found``, a multiple of eight values, is true; fast for values that are seldom true."""
    words = found.view("<u8")
    at = np.flatnonzero(words != 0)
    some = words[at]
    if (some & (some - _ONE)).any():  # two in eight
        return np.flatnonzero(found)
    return 8 * at + _bytes_below(some)


def _bytes_below(bits: Words) -> Ints:
    """Return the number of bytes below the only non-zero byte, which is 1, in each of ``bits``; 8 if all are 0."""
    below = (bits - _ONE) & _ONES
    below *= _ONES
    below >>= np.uint64(56)
    return below.view(np.int64)


def _round_once(values: Floats, mantissa: Ints, scale: int) -> Ints:
    """Correct ``values``, quotients of ``mantissa`` and ``scale`` off by a few last places, to the nearest doubles.

    Returns the indices of the undecided ones: halfway between two doubles, next to a power of two, or beyond 2**53.
    The remainder of the division is less than 2**63, so it is exact although its terms overflow.
    """
    bits = values.view(np.int64)
    significand = bits & _SIGNIFICAND
    power_of_two = significand == 0
    significand |= _SIGNIFICAND + 1
    shift = _BIAS - (bits >> 52)
    over = mantissa << shift
    over -= significand * scale
    over *= 2
    some = mantissa != 0  # a zero has no remainder, and no significand
    off = np.flatnonzero((np.abs(over) >= scale) & some)
    moved_by = np.sign(over[off])
    bits[off] += moved_by
    left = np.abs(over[off] - 2 * scale * moved_by) >= scale
    hard = (power_of_two & (over < 0)) | (shift < 0)
    hard[off[left]] = True
    hard &= some
    return np.flatnonzero(hard)


def _whole_number(words: Words, count: Any, most: int) -> Ints:
    """Return the number in the first ``count`` (0 … 8, at most ``most``) digits of each word; overwrites ``words``.

    Source of the steps: D. Lemire, "Quickly parsing eight digits", 2018; few digits need only the first steps.
    """
    room = 2 if most <= 2 else 4 if most <= 4 else 8
    # Move the digits to the upper bytes, so that the lower ones can be leading zeros.
    over = np.uint64(8 * (room - count)) if np.ndim(count) == 0 else (8 * (room - count)).astype(np.uint64)
    words <<= over
    words -= _ZEROS >> over << over
    if room < 8:
        words &= np.uint64((1 << 8 * room) - 1)
    if np.ndim(count) == 0 and words[0] == words[-1] and (words == words[0]).all():
        words, length = words[:1].copy(), len(words)
        return np.full(length, _whole_number_of_digits(words, room)[0])
    return _whole_number_of_digits(words, room)


def _whole_number_of_digits(words: Words, room: int) -> Ints:
    for size, scale, mask in (
        (1, 10, 0x00FF00FF00FF00FF),
        (2, 100, 0x0000FFFF0000FFFF),
        (4, 10_000, 0xFFFFFFFF),
    ):
        if size == room:
            break
        lower = words >> np.uint64(8 * size)
        words *= np.uint64(scale)
        words += lower
        words &= np.uint64(mask)
    return words.view(np.int64)


def _day(date: bytes) -> int:
    """Return the days from 1970 to ``date`` (``2023-08-04``)."""
    try:
        return int(np.datetime64(date.replace(b"/", b"-").decode("ascii"), "D").astype(np.int64))
    except ValueError:
        raise IrregularError from None
