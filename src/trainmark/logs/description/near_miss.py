"""Explanation of a pattern that matches no line: the line that it matches furthest, and where it fails there."""

import re
from collections.abc import Sequence
from re import _compiler as compiler  # type: ignore[attr-defined]
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT)
_PARTS_OF_FIELDS = ("_billions", "_millions", "_thousands", "_suffix")
_SHOWN = 24


class NearMiss(NamedTuple):
    """The line that ``matched`` matches, the words for what the pattern has next, and the text that follows instead.

    Without a line, none has the beginning of the pattern. ``is_anywhere`` is set if the pattern accepts any text
    before what it has next.
    """

    line: bytes
    matched: str
    expected: str
    found: str
    is_anywhere: bool

    @property
    def is_of_blanks(self) -> bool:
        """True if the line has more blanks than the pattern."""
        return self.matched.endswith(" ") and self.found.startswith(" ")

    def __str__(self) -> str:
        """Return the explanation as a clause."""
        if not self.line:
            return f"no line has even its beginning, {self.expected}"
        start = f"it matches up to '{self.matched}'; then {self.expected} is expected"
        if self.is_anywhere:
            return f"{start} in the rest of the line, which has none"
        more = ": the line has several blanks, so write ' +' for them" if self.is_of_blanks else ""
        return f"{start}, and '{self.found}' follows{more}"


def find_near_miss(pattern: re.Pattern[bytes], lines: Sequence[bytes]) -> NearMiss | None:
    """Return the first of ``lines`` on which most of ``pattern`` matches; None if one matches all of it."""
    tree = parser.parse(pattern.pattern, pattern.flags)
    at, most = 0, len(tree)
    while at < most:
        middle = (at + most + 1) // 2
        if any(map(_beginning(tree, middle, pattern).search, lines)):
            at = middle
        else:
            most = middle - 1
    if at == len(tree):
        return None
    at = _start_of_word(tree, at)
    certain = at
    while certain and _is_any_text(tree[certain - 1]):
        certain -= 1
    line = next(filter(_beginning(tree, at, pattern).search, lines), b"")
    match = _beginning(tree, certain, pattern).search(line)
    if match is None or not match[0]:
        return NearMiss(b"", "", _expected(tree, at), "", is_anywhere=False)
    matched, found = match[0][-_SHOWN:], line[match.end() : match.end() + _SHOWN]
    return NearMiss(line, _text(matched), _expected(tree, at), _text(found), is_anywhere=certain < at)


def _start_of_word(tree: Any, at: int) -> int:
    """Return the start of the characters at ``at`` if any text may precede them: one of them is found anywhere."""
    start = at
    while start and tree[start][0] is tree[start - 1][0] is codes.LITERAL:
        start -= 1
    return start if start and _is_any_text(tree[start - 1]) else at


def _beginning(tree: Any, size: int, pattern: re.Pattern[bytes]) -> re.Pattern[bytes]:
    compiled: re.Pattern[bytes] = compiler.compile(tree[:size], pattern.flags)
    return compiled


def _is_any_text(node: Any) -> bool:
    code, argument = node
    if code is codes.SUBPATTERN:
        return len(argument[3]) == 1 and _is_any_text(argument[3][0])
    return code in _REPEATS and argument[0] == 0 and argument[1] is codes.MAXREPEAT


def _expected(tree: Any, at: int) -> str:
    """Return the words for the part of the pattern that begins at ``at``: characters, a field, or what it is."""
    code, argument = tree[at]
    if code is codes.LITERAL:
        word = b""
        for following, character in tree[at:]:
            if following is not codes.LITERAL:
                break
            word += bytes([character])
        return f"'{_text(word)}'" + (" (one blank)" if word == b" " else "")
    if code is codes.SUBPATTERN and (name := _name_of(tree, argument[0])):
        return f"{{{name}}}"
    if code in _REPEATS and _is_digits(argument[2]):
        return "a digit"
    return "the next part of the pattern"


def _is_digits(tree: Any) -> bool:
    return len(tree) == 1 and tree[0] == (codes.IN, [(codes.CATEGORY, codes.CATEGORY_DIGIT)])


def _name_of(tree: Any, group: int | None) -> str:
    for name, number in tree.state.groupdict.items():
        if number == group:
            ending = next((each for each in _PARTS_OF_FIELDS if name.endswith(each)), "")
            return str(name).removesuffix(ending)
    return ""


def _text(words: bytes) -> str:
    return words.decode("utf-8", "replace").rstrip("\n")
