"""Fields of many lines at once where the lines differ in their numbers only: decoded as arrays, without a loop.

A training log is one line said a million times. Once a regular expression has matched one line, lines that are the
same but for digits, signs, points and blanks match at the same places. Where lines have few shapes (``shapes``), the
expression looks at one line of each; else those places are found by counting characters (the third ``:``, the second
``,``). What is not so regular is left to the expression: the answer is the same, only slower.
"""

import re

import numpy as np

from trainmark.logs.columns import Floats
from trainmark.logs.digits import Characters, Ints, IrregularError, Starts
from trainmark.logs.literals import can_match, demanded, tells_digits_apart
from trainmark.logs.shapes import DIGITS_ALIKE, Shapes, Table, shapes_of
from trainmark.logs.transport import uncoloured

VARYING = b"0123456789.+- "
"""What is left out when two lines are compared: the characters of numbers, and the blanks that pad them."""
_FEWEST_LINES = 16
_LONGEST_BETWEEN = 7
"""Characters that vary elsewhere between one that never does and a number: they are compared as one word."""
_NEWLINE, _BLANK, _POINT = b"\n ."
_LOOKS_AT_OTHER_LINES = re.compile(rb"\(\?[=!](?:[^()]|\([^()]*\))*\\n")
_NUMBER = re.compile(rb"(\d+)(?:\.(\d*))?")

_Match = re.Match[bytes]


def regular_fields(pattern: re.Pattern[bytes], text: bytes) -> dict[str, Floats] | None:
    """Return what ``pattern`` finds in ``text`` as columns by group, one value a line; ``None`` if it is irregular.

    Groups are numbers (those whose names begin with ``_`` are left out), but for ``stamp`` (date and time of day),
    which comes out as ``clock_s``. A number is the same double that ``float`` gives.
    """
    end = text.find(b"\n") + 1
    first, second = text[:end], text[end : text.find(b"\n", end) + 1]
    skeleton = first.translate(None, VARYING)
    if (
        tells_digits_apart(pattern)
        or not second
        or second.translate(None, VARYING) != skeleton
        or not text.endswith(b"\n")
    ):
        return None
    match = _lone_match(pattern, first)
    if match is None:
        return None
    characters = Characters.of(text)
    try:
        shapes = shapes_of(text, characters)
        if shapes is None:
            return _Counted(text, characters, match, skeleton).columns()
        return _by_shape(pattern, shapes) if shapes.count >= _FEWEST_LINES else None
    except IrregularError:
        return None


def looks_at_other_lines(pattern: re.Pattern[bytes]) -> bool:
    """Say whether what ``pattern`` matches depends on lines before or after."""
    return _LOOKS_AT_OTHER_LINES.search(pattern.pattern) is not None


def _lone_match(pattern: re.Pattern[bytes], line: bytes) -> _Match | None:
    """Return the match of ``pattern`` in ``line``; ``None`` where there are several, or a colour stands in it."""
    match = pattern.search(line)
    if match is None or pattern.search(line, match.end()):
        return None
    if b"\x1b" in line:
        plain = pattern.search(uncoloured(line))
        if plain is None or plain.groups() != match.groups():
            return None
    return match


def _names(pattern: re.Pattern[bytes]) -> list[str]:
    return [name for name in pattern.groupindex if not name.startswith("_")]


def fields_among_others(
    pattern: re.Pattern[bytes], text: bytes, header: re.Pattern[bytes] | None
) -> tuple[dict[str, Floats], bytes] | None:
    """Return the columns of the lines that ``pattern`` matches, and one line of each shape that ``text`` has.

    There is no column where no line matches. ``None`` is for a text that is irregular, or where a log may begin, as
    ``header`` matches it.
    """
    words = demanded(pattern)
    if not words or not text.endswith(b"\n") or looks_at_other_lines(pattern) or tells_digits_apart(pattern):
        return None
    characters = Characters.of(text)
    shapes = shapes_of(text, characters)
    if shapes is None:
        return None
    said = [uncoloured(line) for line in shapes.examples]
    seen = b"".join(said)
    if header is not None and can_match(header, seen) and header.search(b"\n" + seen):
        return None
    ours = [number for number, line in enumerate(said) if all(word in line for word in words)]
    if not ours:
        return {}, seen
    try:
        return _by_shape(pattern, shapes.some(ours)), seen
    except IrregularError:
        return None


def _by_shape(pattern: re.Pattern[bytes], shapes: Shapes) -> dict[str, Floats]:
    matches = []
    skeleton = shapes.examples[0].translate(None, VARYING)
    for line in shapes.examples:
        match = _lone_match(pattern, line)
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
    """Return the values of groups by the names of the columns that they are."""
    return {"clock_s" if name == "stamp" else name: values for name, values in groups.items()}


def _group(name: str, table: Table, matches: list[_Match]) -> Floats:
    """Return the values of one group in the lines of ``table``; ``matches`` are those of all shapes."""
    words = [match[name] for match in matches]
    if all(word is None for word in words):
        return np.full(len(table.lines), np.nan)
    if any(word is None for word in words):
        raise IrregularError
    starts = table.starts([match.start(name) for match in matches])
    if name == "stamp":
        return _stamps(table, starts, words)
    numbers = [number for word in words if (number := _NUMBER.fullmatch(word))]
    if len(numbers) < len(words):
        raise IrregularError
    whole, places = (table.each([len(number[part] or b"") for number in numbers]) for part in (1, 2))
    return table.characters.decimals(starts, whole, places)


def _stamps(table: Table, starts: Starts, words: list[bytes]) -> Floats:
    """Return the stamps at ``starts``, decoded together where they are written alike."""
    forms = [word.translate(DIGITS_ALIKE) for word in words]
    kinds = sorted(set(forms))
    form = table.each([kinds.index(form) for form in forms])
    if isinstance(form, int):
        return table.characters.stamps(starts, words[forms.index(kinds[form])])
    values, places = np.empty(len(form)), np.array(starts)
    for number, kind in enumerate(kinds):
        rows = np.flatnonzero(form == number)
        values[rows] = table.characters.stamps(places[rows], words[forms.index(kind)])
    return values


class _Counted:
    """Lines of many shapes that are alike, and where in each of them the groups of the first one's match are."""

    def __init__(self, text: bytes, characters: Characters, match: _Match, skeleton: bytes) -> None:
        self._characters, self._match, self._first = characters, match, match.string
        skeletons = text.translate(None, VARYING)
        self._count = len(skeletons) // len(skeleton)
        if self._count < _FEWEST_LINES or skeletons != skeleton * self._count:
            raise IrregularError
        self._anchor_of = {
            place: self._anchors(*match.span(place), date=place == "stamp")
            for place in _names(match.re)
            if match[place] is not None
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
        """Return the values of all groups; NaN where the lines do not have one."""
        found = {}
        for name in _names(self._match.re):
            if self._match[name] is None:
                found[name] = np.full(self._count, np.nan)
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
        return self._of_each_form(starts, widths, np.minimum(whole, widths))

    def _of_each_form(self, starts: Ints, widths: Ints, whole: Ints) -> Floats:
        forms = widths << 5 | whole
        values = np.empty(len(starts))
        for form in np.flatnonzero(np.bincount(forms)).tolist():
            rows = np.flatnonzero(forms == form)
            width, before = form >> 5, form & 31
            behind = max(width - before - 1, 0)
            if before < width and (self._characters.single[starts[rows] + before] != _POINT).any():
                raise IrregularError
            for offset, count in ((0, before), (before + 1, behind)):
                self._characters.demand_digits(starts[rows] + offset, count)
            values[rows] = self._characters.decimals(starts[rows], before, behind)
        return values

    def _stamps(self) -> Floats:
        """Return the times in the group ``stamp``: after the same day, digits and colons as the first one has them."""
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
        """Return the nearest characters that never vary: before ``start`` (-1: the line's start) and from ``end``."""
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
        """Return where ``between``, which every line must have at ``starts``, ends (the `` -`` of `` - 12s``)."""
        if not self._characters.all_have(between, starts):
            raise IrregularError
        return starts + len(between)

    def _place(self, place: int) -> Ints:
        """Return where each line has the character that the first line has at ``place``."""
        if place < 0:
            return np.concatenate(([-1], self._places[-1][:-1]))
        found: Ints = self._places[self._number_of[place]]
        return found
