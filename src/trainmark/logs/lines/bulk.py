"""Fast extraction from lines that differ only in their numbers: decoded as arrays, without a loop.

A training log repeats one line a million times. Once a regular expression has matched one line, lines that differ only
in digits, signs, points and blanks match at the same places. If the lines have few shapes (``shapes``), the expression
is applied to one line of each; else those places are found by counting characters (the third ``:``, the second ``,``).
Less regular text is left to the expression: the result is the same, only slower.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trainmark.logs.lines.digits import Characters, Ints, IrregularError, Starts
from trainmark.logs.lines.literals import (
    VARYING,
    can_match,
    depends_on_digits,
    digit_words,
    looks_at_other_lines,
    required,
    required_all,
)
from trainmark.logs.lines.shapes import DIGITS_ALIKE, LineTable, Shapes, shapes_of
from trainmark.logs.lines.suffixes import SUFFIX, suffix_factor
from trainmark.logs.lines.transport import COLOUR_CODE, strip_colours
from trainmark.logs.model import Floats

_FEWEST_LINES = 16
_LONGEST_BETWEEN = 7
"""Most varying characters between a constant one and a number: they are compared as one word."""
_NEWLINE, _BLANK, _POINT = b"\n ."
_NUMBER = re.compile(rb"(\d+)(?:\.(\d*))?(?:[eE]([+-]?)(\d{1,2}))?")

_Match = re.Match[bytes]


def regular_fields(pattern: re.Pattern[bytes], text: bytes) -> dict[str, Floats] | None:
    """Return the groups of ``pattern`` in ``text`` as columns, one value per line; ``None`` if it is irregular.

    Groups are numbers (names that begin with ``_`` are left out), except ``stamp`` (date and time of day), which is
    returned as ``clock_s``. A number is the same double that ``float`` returns.
    """
    end = text.find(b"\n") + 1
    first, second = text[:end], text[end : text.find(b"\n", end) + 1]
    skeleton = first.translate(None, VARYING)
    if (
        depends_on_digits(pattern)
        or not second
        or second.translate(None, VARYING) != skeleton
        or not text.endswith(b"\n")
    ):
        return None
    coloured = b"\x1b" in first
    match = None if coloured else _lone_match(pattern, first)
    if match is None and not coloured:
        return None
    characters = Characters.of(text)
    try:
        shapes = shapes_of(text, characters)
        if shapes is None:
            return None if match is None else _Counted(text, characters, match, skeleton).columns()
        return _by_shape(pattern, shapes) if shapes.count >= _FEWEST_LINES else None
    except IrregularError:
        return None


def _lone_match(pattern: re.Pattern[bytes], line: bytes) -> _Match | None:
    """Return the match of ``pattern`` in ``line``; ``None`` if there are several."""
    match = pattern.search(line)
    return None if match is None or pattern.search(line, match.end()) else match


@dataclass(frozen=True, slots=True)
class _ColouredMatch:
    """A match in a line without its colour codes, whose groups have the places of the line with them."""

    match: _Match
    places: list[int]

    def __getitem__(self, name: str) -> bytes:
        found: bytes = self.match[name]
        return found

    def start(self, name: str) -> int:
        """Return the place of a group; -1 if the line does not have it."""
        at = self.match.start(name)
        return self.places[at] if at >= 0 else -1


def _match_in_colours(pattern: re.Pattern[bytes], line: bytes) -> _ColouredMatch | None:
    """Return the only match of ``pattern`` in ``line`` without its colour codes; ``None`` if a group has one in it."""
    codes = {place for code in COLOUR_CODE.finditer(line) for place in range(*code.span())}
    places = [place for place in range(len(line)) if place not in codes]
    match = _lone_match(pattern, bytes(line[place] for place in places))
    if match is None:
        return None
    spans = [match.span(name) for name in _names(pattern) if match[name]]
    whole = all(places[end - 1] - places[start] == end - 1 - start for start, end in spans)
    return _ColouredMatch(match, places) if whole else None


def _names(pattern: re.Pattern[bytes]) -> list[str]:
    return [name for name in pattern.groupindex if not name.startswith("_")]


def fields_among_others(
    pattern: re.Pattern[bytes], text: bytes, header: re.Pattern[bytes] | None
) -> tuple[dict[str, Floats], bytes] | None:
    """Return the columns of the lines that ``pattern`` matches, and one line of each shape in ``text``.

    The columns are empty if no line matches. ``None`` if the text is irregular, or ``header`` matches the start of a
    log in it.
    """
    words, any_of, digits = required_all(pattern), required(pattern), digit_words(pattern)
    if (
        not all(words or any_of)
        or not text.endswith(b"\n")
        or looks_at_other_lines(pattern)
        or digits is None
    ):
        return None
    characters = Characters.of(text)
    shapes = shapes_of(text, characters)
    if shapes is None:
        return None
    lines = [strip_colours(line) for line in shapes.examples]
    samples = b"".join(lines)
    if header is not None and can_match(header, samples) and header.search(b"\n" + samples):
        return None
    found = all if words else any
    numbers = [number for number, line in enumerate(lines) if found(word in line for word in words or any_of)]
    records = [number for number in numbers if pattern.search(lines[number])]
    try:
        _demand_digits(digits, shapes)
        return _of_kinds(pattern, shapes, records), samples
    except IrregularError:
        return None


def _demand_digits(words: tuple[bytes, ...], shapes: Shapes) -> None:
    """Raise ``IrregularError`` if a line has other digits in one of ``words`` than the first line of its shape."""
    for word in words:
        alike = word.translate(DIGITS_ALIKE)
        counts = [line.translate(DIGITS_ALIKE).count(alike) for line in shapes.examples]
        some = shapes.some([number for number, count in enumerate(counts) if count])
        if max(counts) > 1 or not all(word in line for line in some.examples):
            raise IrregularError
        columns = [line.index(word) for line in some.examples]
        if not all(table.characters.all_have(word, table.starts(columns)) for table in some.tables):
            raise IrregularError


def _of_kinds(pattern: re.Pattern[bytes], shapes: Shapes, records: list[int]) -> dict[str, Floats]:
    """Return the columns of the shapes with the numbers ``records``, which differ by more than their numbers."""
    kinds: dict[bytes, list[int]] = {}
    for number in records:
        kinds.setdefault(shapes.examples[number].translate(None, VARYING), []).append(number)
    parts = [shapes.some(numbers) for numbers in kinds.values()]
    found = [_by_shape(pattern, part) for part in parts]
    if len(found) < 2:
        return found[0] if found else {}
    lines = [np.sort(np.concatenate([table.lines for table in part.tables])) for part in parts]
    order = np.argsort(np.concatenate(lines))
    return {name: np.concatenate([columns[name] for columns in found])[order] for name in found[0]}


def _by_shape(pattern: re.Pattern[bytes], shapes: Shapes) -> dict[str, Floats]:
    matches: list[_Match | _ColouredMatch] = []
    skeleton = shapes.examples[0].translate(None, VARYING)
    for line in shapes.examples:
        match = _match_in_colours(pattern, line) if b"\x1b" in line else _lone_match(pattern, line)
        if match is None or line.translate(None, VARYING) != skeleton:
            raise IrregularError
        matches.append(match)
    names = _names(pattern)
    groups = {name: [_group(name, table, matches) for table in shapes.tables] for name in names}
    if len(shapes.tables) == 1:
        return _columns({name: values[0] for name, values in groups.items()})
    order = np.argsort(np.concatenate([table.lines for table in shapes.tables]))
    return _columns({name: np.concatenate(values)[order] for name, values in groups.items()})


def _columns(groups: dict[str, Floats]) -> dict[str, Floats]:
    """Return the values of groups by the names of their columns."""
    return {"clock_s" if name == "stamp" else name: values for name, values in groups.items()}


def _group(name: str, table: LineTable, matches: Sequence[_Match | _ColouredMatch]) -> Floats:
    """Return the values of one group in the lines of ``table``; ``matches`` are those of all shapes."""
    words = [match[name] for match in matches]
    if all(word is None for word in words):
        return np.full(len(table.lines), _absent(name))
    if any(word is None for word in words):
        raise IrregularError
    if name.endswith(SUFFIX):
        factors = np.array([suffix_factor(name, word) for word in words])
        kinds = table.each(range(len(words)))
        return np.full(len(table.lines), factors[kinds]) if isinstance(kinds, int) else factors[kinds]
    starts = table.starts([match.start(name) for match in matches])
    if name == "stamp":
        return _stamps(table, starts, words)
    numbers = [number for word in words if (number := _NUMBER.fullmatch(word))]
    if len(numbers) < len(words):
        raise IrregularError
    whole, places = (table.each([len(number[part] or b"") for number in numbers]) for part in (1, 2))
    if not any(number[4] for number in numbers):
        return table.characters.decimals(starts, whole, places)
    if not all(number[4] for number in numbers):
        raise IrregularError
    powers = table.starts(
        [match.start(name) + number.start(4) for match, number in zip(matches, numbers, strict=True)]
    )
    digits = table.each([len(number[4]) for number in numbers])
    signs = table.each([-1 if number[3] == b"-" else 1 for number in numbers])
    exponents = table.characters.decimals(powers, digits, 0).astype(np.int64) * signs
    return table.characters.scientific(starts, whole, places, exponents)


def _absent(name: str) -> float:
    """Return the value of a group that a line does not have."""
    return suffix_factor(name, b"") if name.endswith(SUFFIX) else float("nan")


def _stamps(table: LineTable, starts: Starts, words: list[bytes]) -> Floats:
    """Return the time stamps at ``starts``, decoded in one pass per form."""
    forms = [word.translate(DIGITS_ALIKE) for word in words]
    kinds = sorted(set(forms))
    form_of = table.each([kinds.index(form_of) for form_of in forms])
    if isinstance(form_of, int):
        return table.characters.stamps(starts, words[forms.index(kinds[form_of])])
    values, places = np.empty(len(form_of)), np.array(starts)
    for number, kind in enumerate(kinds):
        rows = np.flatnonzero(form_of == number)
        values[rows] = table.characters.stamps(places[rows], words[forms.index(kind)])
    return values


class _Counted:
    """Lines of many shapes with one skeleton, and the positions of the groups in each line, found by counting."""

    def __init__(self, text: bytes, characters: Characters, match: _Match, skeleton: bytes) -> None:
        self._characters, self._match, self._first = characters, match, match.string
        skeletons = text.translate(None, VARYING)
        self._count = len(skeletons) // len(skeleton)
        if self._count < _FEWEST_LINES or skeletons != skeleton * self._count:
            raise IrregularError
        self._anchor_of = {
            place: self._anchors(*match.span(place), date=place == "stamp")
            for place in _names(match.re)
            if match[place] is not None and not place.endswith(SUFFIX)
        }
        wanted = bytes(
            {self._first[place] for pair in self._anchor_of.values() for place in pair if place >= 0}
        )
        mask = bytes(byte in wanted or byte == _NEWLINE for byte in range(256))
        found = np.flatnonzero(np.frombuffer(text.translate(mask), np.bool_))
        self._places = found.reshape(self._count, -1).T
        self._number_of = {
            place: number
            for number, place in enumerate(p for p, byte in enumerate(self._first) if mask[byte])
        }

    def columns(self) -> dict[str, Floats]:
        """Return the values of all groups; NaN for a group that the lines lack."""
        found = {}
        for name in _names(self._match.re):
            if self._match[name] is None:
                found[name] = np.full(self._count, _absent(name))
            elif name.endswith(SUFFIX):
                # The letters of all lines are the same.
                found[name] = np.full(self._count, suffix_factor(name, self._match[name]))
            else:
                found[name] = self._stamps() if name == "stamp" else self._numbers(name)
        return _columns(found)

    def _numbers(self, name: str) -> Floats:
        """Return the numbers in the group called ``name``."""
        before, after = self._anchor_of[name]
        starts, ends = self._place(before) + 1, self._place(after)
        if between := self._first[before + 1 : self._match.start(name)].rstrip(b" "):
            starts = self._behind(starts, between)
        single = self._characters.single
        while (blank := single[starts] == _BLANK).any():
            starts = starts + blank
            if (starts >= ends).any():
                raise IrregularError
        while (blank := single[ends - 1] == _BLANK).any():
            ends = ends - blank
        widths = ends - starts
        if int(widths.min()) < 1 or int(widths.max()) >= 1 << 5:
            raise IrregularError
        whole = self._characters.before_point(starts) if b"." in self._match[name] else widths
        return self._by_shape(starts, widths, np.minimum(whole, widths))

    def _by_shape(self, starts: Ints, widths: Ints, whole: Ints) -> Floats:
        shapes = widths << 5 | whole
        values = np.empty(len(starts))
        for shape in np.flatnonzero(np.bincount(shapes)).tolist():
            rows = np.flatnonzero(shapes == shape)
            width, before = shape >> 5, shape & 31
            behind = max(width - before - 1, 0)
            if before < width and (self._characters.single[starts[rows] + before] != _POINT).any():
                raise IrregularError
            for offset, count in ((0, before), (before + 1, behind)):
                self._characters.demand_digits(starts[rows] + offset, count)
            values[rows] = self._characters.decimals(starts[rows], before, behind)
        return values

    def _stamps(self) -> Floats:
        """Return the times in the group ``stamp``; all have the same day and the form of the first one."""
        start, word = self._match.start("stamp"), self._match["stamp"]
        before, _ = self._anchor_of["stamp"]
        starts = self._place(before) + (start - before)
        single = self._characters.single
        for place in range(word.index(b":") - 2, len(word)):
            if word[place : place + 1].isdigit():
                self._characters.demand_digits(starts + place, 1)
            elif (single[starts + place] != word[place]).any():
                raise IrregularError
        behind = single[starts + len(word)]
        if np.isin(behind, list(b"0123456789.,")).any():
            raise IrregularError
        return self._characters.stamps(starts, word)

    def _anchors(self, start: int, end: int, *, date: bool) -> tuple[int, int]:
        """Return the nearest constant characters: before ``start`` (-1: the line's start) and from ``end``."""
        if start < 0:
            raise IrregularError
        before, after = start - 1, end
        while before >= 0 and self._first[before] in VARYING:
            before -= 1
        while self._first[after] in VARYING:
            after += 1
        between, behind = self._first[before + 1 : start].rstrip(b" "), self._first[end:after].strip(b" ")
        if (len(between) > _LONGEST_BETWEEN or behind) and not date:
            raise IrregularError
        return before, after

    def _behind(self, starts: Ints, between: bytes) -> Ints:
        """Return the end of ``between``, which every line must have at ``starts`` (the `` -`` of `` - 12s``)."""
        if not self._characters.all_have(between, starts):
            raise IrregularError
        return starts + len(between)

    def _place(self, place: int) -> Ints:
        """Return the position in each line of the character that the first line has at ``place``."""
        if place < 0:
            return np.concatenate(([-1], self._places[-1][:-1]))
        found: Ints = self._places[self._number_of[place]]
        return found
