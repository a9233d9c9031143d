"""Frames of texts: what is before and after the text in lines of JSON whose other values have one length each.

The objects of a container differ in their text, and in digits of their time. A few lengths of the values (``stdout``, a
time with nine digits after its point or eight) make a few frames, and the text of a line with one of them is where its
ends say, so that no quote has to be looked for. That there are no others is known from their total number.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trainmark.logs.lines.digits import Characters, Ints, Words
from trainmark.logs.lines.json_outline import SCALAR, Outline, Spans, Strings
from trainmark.logs.lines.json_page import FIRST_PRINTED, Flags, Page

_WORD = 8
_ZERO, _OPENING = b"0{"
_UPPER, _SIXES, _THREES = (np.uint64(byte * 0x0101010101010101) for byte in (0xF0, 0x06, 0x33))
_FOUR = np.uint64(4)
_MOST_FRAMES = 12
_MOST_ANEW = 8
"""Most frames that are learnt from one text."""
_FEW_LINES = 8
"""So many objects are decoded one by one, and show no frame."""
_MANY = 1 / 4
"""Least share of objects without a frame for which the quotes of all lines are looked for."""
_LONGEST_LINE = 1 << 12
"""A longer line shows no frame."""


class _Side(NamedTuple):
    """What all lines of a frame have before the text, or after it: constant characters, digits and any others.

    ``leading`` are the places of digits that are no zero, as JSON has no ``007``.
    """

    size: int
    words: tuple[tuple[int, np.uint64, np.uint64, np.uint64], ...]
    """Eights of characters that are not all free: their number, the constant ones, and masks of these and of digits."""
    leading: tuple[int, ...]

    @classmethod
    def of(cls, line: bytes, constant: Sequence[tuple[int, int]]) -> "_Side":
        """Return the side ``line`` with ``constant`` spans, in which only the digits of numbers may be others."""
        fixed, digits = bytearray(len(line)), bytearray(len(line))
        leading: list[int] = []
        for begin, stop in constant:
            fixed[begin:stop] = b"\xff" * (stop - begin)
            for scalar in SCALAR.finditer(line, begin, stop):
                number = line[scalar.start() : scalar.end()]
                for place in range(*scalar.span()):
                    if line[place : place + 1].isdigit():
                        fixed[place], digits[place] = 0, 0xFF
                whole = number.lstrip(b"-").partition(b".")[0].lower().partition(b"e")[0]
                if len(whole) > 1 and whole.isdigit():
                    leading.append(scalar.start() + number.startswith(b"-"))
        words = []
        for at in range(0, len(line), _WORD):
            mask, numeric = (_word(characters[at : at + _WORD]) for characters in (fixed, digits))
            if mask or numeric:
                words.append((at // _WORD, _word(line[at : at + _WORD]) & mask, mask, numeric))
        return cls(len(line), tuple(words), tuple(leading))

    def fits(self, characters: Characters, starts: Ints) -> Flags:
        """Return at which of ``starts`` the text has this side."""
        fits = np.ones(len(starts), np.bool_)
        rows = characters.rows(starts, -(-self.size // _WORD))
        for column, wanted, mask, numeric in self.words:
            words = rows[:, column]
            if mask:
                fits &= (words & mask) == wanted
            if numeric:
                fits &= _are_digits(words & numeric, numeric)
        for place in self.leading:
            fits &= characters.single[starts + place] != _ZERO
        return fits


def _word(characters: bytes | bytearray) -> np.uint64:
    return np.uint64(int.from_bytes(characters, "little"))


def _are_digits(words: Words, numeric: np.uint64) -> Flags:
    marks = (words & _UPPER) | (((words + (_SIXES & numeric)) & _UPPER) >> _FOUR)
    found: Flags = marks == (_THREES & numeric)
    return found


class Frame(NamedTuple):
    """Both sides of the text, and where the time is: from the line's start on, or from its end if that is negative."""

    front: _Side
    back: _Side
    time: tuple[int, int] | None
    quotes: int
    controls: int
    has_parts: bool

    @classmethod
    def of(cls, line: bytes, key: str, times: Sequence[str]) -> "Frame | None":
        """Return the frame of an object with a text at ``key`` and a time at one of ``times``; None if it has none."""
        outline = Outline.of(line, key, times) if len(line) <= _LONGEST_LINE else None
        if outline is None or b"\r" in line.rstrip():  # a line end for other readers
            return None
        begin, stop = outline.spans[outline.text]
        bounds = [0, *(place for span in outline.spans for place in span), len(line)]
        constant = list(zip(bounds[::2], bounds[1::2], strict=True))
        front = _Side.of(line[:begin], constant[: outline.text + 1])
        back = _Side.of(line[stop:], [(one - stop, end - stop) for one, end in constant[outline.text + 1 :]])
        time = None if outline.time is None else outline.spans[outline.time]
        if time is not None and time[0] > begin:
            time = time[0] - len(line), time[1] - len(line)
        controls = sum(byte < FIRST_PRINTED for one, end in constant for byte in line[one:end])
        return cls(front, back, time, outline.quotes, controls, outline.has_parts)

    def find(self, page: Page, lines: Ints) -> Flags:
        """Return which of ``lines`` have this frame, if they have no quotes but those of it."""
        starts, stops = page.starts[lines], page.ends[lines] - self.back.size
        fits: Flags = starts + self.front.size <= stops
        if not fits.all():
            starts, stops = starts[fits], stops[fits]
        fits[fits] = self.front.fits(page.characters, starts) & self.back.fits(page.characters, stops)
        return fits

    def strings(self, page: Page, lines: Ints) -> Strings:
        """Return the strings in ``lines``, which have this frame."""
        starts, ends = page.starts[lines], page.ends[lines]
        texts, times = (starts + self.front.size, ends - self.back.size), None
        if self.time is not None:
            bounds = ends if self.time[0] < 0 else starts
            times = bounds + self.time[0], bounds + self.time[1]
        return Strings.alike(lines, texts, times, self.quotes, self.controls, self.has_parts)


class Frames:
    """The frames of a stream, learnt from its lines; those of most lines come first."""

    def __init__(self, key: str, times: Sequence[str]) -> None:
        self._key, self._times = key, times
        self._frames: list[Frame] = []
        self._outline: Outline | None = None
        """Set once the lengths in the lines of the stream are too many for frames."""

    def find(self, page: Page) -> Strings | None:
        """Return the strings of the lines of ``page`` that have a frame, known or learnt here; None without any.

        A line with a frame may have more quotes or controls than it, and is then none.
        """
        if self._outline is not None and len((found := self._outline.find(page)).lines):
            return found
        left, parts = np.arange(len(page.ends)), list[tuple[Frame, Ints]]()
        for frame in self._frames:
            left = _take(page, frame, left, parts)
        for _ in range(_MOST_ANEW):
            objects = left[page.single[page.starts[left]] == _OPENING]
            if len(objects) <= _FEW_LINES:
                break
            middle = int(objects[len(objects) // 2])
            line = page.text(middle, middle + 1)
            if (anew := Frame.of(line, self._key, self._times)) is not None:
                left = _take(page, anew, left, parts)
        else:
            if len(objects) > _MANY * len(page.ends) and (
                outline := Outline.of(line, self._key, self._times)
            ):
                self._outline = outline
                return outline.find(page)
        parts.sort(key=lambda part: -len(part[1]))
        frames = [frame for frame, _ in parts]
        self._frames = [*frames, *(frame for frame in self._frames if frame not in frames)][:_MOST_FRAMES]
        if len(parts) < 2:
            return parts[0][0].strings(page, parts[0][1]) if parts else None
        return _in_order([frame.strings(page, lines) for frame, lines in parts])


def _take(page: Page, frame: Frame, left: Ints, found: list[tuple[Frame, Ints]]) -> Ints:
    """Add the lines that have ``frame`` to those ``found``; return the rest of those that are ``left``."""
    if not len(left):
        return left
    fits = frame.find(page, left)
    if fits.any():
        found.append((frame, left[fits]))
    return left[~fits]


def _in_order(parts: Sequence[Strings]) -> Strings:
    """Return the strings of ``parts`` in the order of their lines; only of those with a time, if one has it."""

    def spans(each: Sequence[Spans]) -> Spans:
        return np.concatenate([one for one, _ in each]), np.concatenate([other for _, other in each])

    times = [part.times for part in parts if part.times is not None]
    if times:
        parts = [part for part in parts if part.times is not None]
    joined = Strings(
        np.concatenate([part.lines for part in parts]),
        spans([part.texts for part in parts]),
        spans(times) if times else None,
        np.concatenate([part.quotes for part in parts]),
        np.concatenate([part.controls for part in parts]),
        np.concatenate([part.has_parts for part in parts]),
    )
    return joined.some(np.argsort(joined.lines))
