"""Check that a pattern cannot take exponential time: no repeated part matches one text in several ways.

A repeated part is turned into the graph of its characters (Glushkov's automaton). It is exponential if two different
paths over the same text lead from one character back to it (Weber and Seidl, "On the degree of ambiguity of finite
automata", 1991), because Python's ``re`` tries them all before it gives up a line.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT)
_ZERO_WIDTH = (codes.AT, codes.ASSERT, codes.ASSERT_NOT)
_MANY = 20
"""A part that may repeat more often is checked."""
_COPIES = 3
"""Copies that stand for a counted repetition: more of them would not add another kind of path."""
_MOST_CHARACTERS = 200
_ALL = (1 << 256) - 1


class _UnsupportedError(Exception):
    """A part that the graph cannot express: a back reference, an atomic group, a very long part."""


@dataclass(frozen=True, slots=True)
class _Part:
    """The characters at which a part may begin and end, and whether it may be empty."""

    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()
    is_optional: bool = True


@dataclass(slots=True)
class _Graph:
    """The bytes of each character as bits, and the characters that may follow it (twice if in two ways)."""

    bytes_of: list[int] = field(default_factory=list)
    following: list[list[int]] = field(default_factory=list)
    has_equal_branches: bool = False

    def add_character(self, accepted: int) -> _Part:
        if len(self.bytes_of) == _MOST_CHARACTERS:
            raise _UnsupportedError
        self.bytes_of.append(accepted)
        self.following.append([])
        at = (len(self.bytes_of) - 1,)
        return _Part(at, at, is_optional=False)

    def connect(self, before: _Part, after: _Part) -> None:
        for one, other in product(before.last, after.first):
            self.following[one].append(other)


def can_explode(tree: Any) -> bool:
    """Return whether a part of the parsed pattern repeats and matches one text in several ways: ``(a+)+``."""
    for code, argument in tree:
        if code in _REPEATS and argument[1] > _MANY and not _is_one_character(argument[2]):
            try:
                if _is_ambiguous(argument[2]):
                    return True
            except _UnsupportedError:
                pass
        if any(map(can_explode, _parts_in(argument))):
            return True
    return False


def _is_one_character(tree: Any) -> bool:
    return len(tree) == 1 and tree[0][0] in (codes.LITERAL, codes.NOT_LITERAL, codes.IN, codes.ANY)


def _parts_in(argument: Any) -> Iterable[Any]:
    for part in argument if isinstance(argument, tuple) else ():
        yield from (
            one for one in (part if isinstance(part, list) else [part]) if isinstance(one, parser.SubPattern)
        )


def _is_ambiguous(tree: Any) -> bool:
    graph = _Graph()
    part = _sequence(graph, tree)
    graph.connect(part, part)
    if graph.has_equal_branches or any(len(after) > len(set(after)) for after in graph.following):
        return True
    # Every character is on the loop, so two paths that separate and join again are enough.
    steps = _pairs(graph)
    parted = _reached(steps, {(at, at) for at in range(len(graph.bytes_of))})
    back: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for before, after in steps.items():
        for one in after:
            back.setdefault(one, []).append(before)
    joined = _reached(back, {(at, at) for at in range(len(graph.bytes_of))})
    return any(one != other for one, other in parted & joined)


def _pairs(graph: _Graph) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Return, for each two characters, the two that may follow them over the same byte."""
    every = range(len(graph.bytes_of))
    return {
        (one, other): [
            (after, later)
            for after, later in product(graph.following[one], graph.following[other])
            if graph.bytes_of[after] & graph.bytes_of[later]
        ]
        for one, other in product(every, every)
    }


def _reached(
    steps: dict[tuple[int, int], list[tuple[int, int]]], start: set[tuple[int, int]]
) -> set[tuple[int, int]]:
    found, waiting = set(start), list(start)
    while waiting:
        for after in steps.get(waiting.pop(), ()):
            if after not in found:
                found.add(after)
                waiting.append(after)
    return found


def _sequence(graph: _Graph, tree: Any) -> _Part:
    return _chain(graph, (_node(graph, code, argument) for code, argument in tree))


def _chain(graph: _Graph, parts: Iterable[_Part]) -> _Part:
    whole = _Part()
    for part in parts:
        graph.connect(whole, part)
        whole = _Part(
            whole.first + part.first if whole.is_optional else whole.first,
            whole.last + part.last if part.is_optional else part.last,
            whole.is_optional and part.is_optional,
        )
    return whole


def _node(graph: _Graph, code: Any, argument: Any) -> _Part:
    if code in _ZERO_WIDTH:
        return _Part()
    if code is codes.SUBPATTERN:
        return _sequence(graph, argument[3])
    if code is codes.BRANCH:
        branches = [_sequence(graph, one) for one in argument[1]]
        # The parser makes a(?:|) of a|a: the same text in two ways.
        graph.has_equal_branches |= sum(map(_may_be_empty, argument[1], branches)) > 1
        return _Part(
            tuple(at for one in branches for at in one.first),
            tuple(at for one in branches for at in one.last),
            any(one.is_optional for one in branches),
        )
    if code in _REPEATS:
        return _repeat(graph, *argument)
    return graph.add_character(_bytes_of(code, argument))


def _may_be_empty(tree: Any, part: _Part) -> bool:
    return part.is_optional and not any(code in _ZERO_WIDTH for code, _ in tree)


def _repeat(graph: _Graph, least: int, most: int, tree: Any) -> _Part:
    if most == 0:
        return _Part()
    needed = [_sequence(graph, tree) for _ in range(min(least, _COPIES))]
    if most > _MANY:
        more = needed[-1] if needed else _sequence(graph, tree)
        graph.connect(more, more)
        whole = _chain(graph, needed or [more])
        return _Part(whole.first, whole.last, is_optional=whole.is_optional or not needed)
    # a{1,3} is a(a(a)?)?: each count is one way.
    optional = _Part()
    for _ in range(min(most, _COPIES) - len(needed)):
        optional = _chain(graph, (_sequence(graph, tree), optional))
        optional = _Part(optional.first, optional.last, is_optional=True)
    return _chain(graph, (*needed, optional))


@cache
def _category(name: str) -> int:
    """Return the bytes of ``CATEGORY_DIGIT`` or the like, as bits."""
    kind = name.rpartition("_")[2]
    accepted = 0
    for at in range(128):
        one = chr(at)
        is_in = {"DIGIT": one.isdigit(), "SPACE": one in " \t\n\r\f\v", "WORD": one.isalnum() or one == "_"}
        accepted |= is_in[kind] << at
    return accepted ^ _ALL if "_NOT_" in name else accepted


def _bytes_of(code: Any, argument: Any) -> int:
    """Return the bytes that a node of one character accepts, as bits."""
    accepted, is_negated = 0, False
    if code is codes.LITERAL or code is codes.NOT_LITERAL:
        accepted, is_negated = 1 << int(argument), code is codes.NOT_LITERAL
    elif code is codes.ANY:
        accepted, is_negated = 1 << ord("\n"), True
    elif code is codes.RANGE:
        accepted = (1 << (int(argument[1]) + 1)) - (1 << int(argument[0]))
    elif code is codes.CATEGORY:
        accepted = _category(str(argument))
    elif code is codes.IN:
        for kind, value in argument:
            if kind is codes.NEGATE:
                is_negated = True
            else:
                accepted |= _bytes_of(kind, value)
    else:
        raise _UnsupportedError
    return accepted ^ _ALL if is_negated else accepted
