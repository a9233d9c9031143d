"""Compilation of the patterns of a format's description, with one clear line for a pattern that cannot be used."""

import re
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from trainmark.errors import InputError
from trainmark.logs.description.placeholders import FIELDS, expand

_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT)
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_SUFFIXES = ("_millions", "_thousands", "_suffix")
_MORE_GROUPS = ("stamp", "s", "h", "m", "d")


def compile_pattern(text: str, where: str) -> re.Pattern[bytes]:
    """Return a description's pattern compiled; raise ``InputError`` naming ``where`` if it cannot be used."""
    # Patterns are searched for in bytes, of which other characters than ASCII have several.
    expanded = _NOT_ASCII.sub(lambda match: f"(?:{match[0]})", expand(text, where))
    try:
        tree = parser.parse(expanded.encode())
        # `^` and `$` are the ends of a line, as in grep.
        pattern = re.compile(expanded.encode(), re.MULTILINE)
    except re.error as error:
        raise InputError(f"{where}: '{text}' is no regular expression: {error}") from None
    if _can_explode(tree):
        raise InputError(
            f"{where}: '{text}' repeats a repetition, such as (a+)+: reading a line could take forever; "
            "repeat only one of the two"
        )
    for name in pattern.groupindex:
        if not name.startswith("_") and name not in (*FIELDS, *_MORE_GROUPS):
            base = next((name.removesuffix(end) for end in _SUFFIXES if name.endswith(end)), "")
            if base not in FIELDS:
                raise InputError(f"{where}: no field '{name}' (known: {', '.join(FIELDS)}, stamp)")
    return pattern


def _can_explode(tree: Any) -> bool:
    """Return whether a part that repeats without bound is made only of another that does so: ``(a+)+``, ``(\\w*)*``."""
    for code, argument in tree:
        if code in _REPEATS and argument[1] is codes.MAXREPEAT and _is_only_a_repeat(argument[2]):
            return True
        for part in argument if isinstance(argument, tuple) else ():
            for inner in part if isinstance(part, list) else [part]:
                if isinstance(inner, parser.SubPattern) and _can_explode(inner):
                    return True
    return False


def _is_only_a_repeat(tree: Any) -> bool:
    """Return whether nothing that must occur separates the turns of a repetition within ``tree``."""
    has_repeat = False
    for code, argument in tree:
        if code in _REPEATS:
            if argument[1] is codes.MAXREPEAT:
                has_repeat = True
            elif argument[0] > 0:
                return False
        elif code is codes.SUBPATTERN:
            if not _is_only_a_repeat(argument[3]):
                return False
            has_repeat = True
        elif code is codes.BRANCH:
            has_repeat = has_repeat or any(map(_is_only_a_repeat, argument[1]))
        else:
            return False
    return has_repeat
