"""Blocks of lines: a counter in one line, and the figures of its step in others near it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from trainmark.logs.guess.families import FEWEST, Family

_LONGEST = 40
"""Most lines between the counter and another line of its block."""


class Block(NamedTuple):
    """Families whose lines follow each other in turn, in the order of the log, and all their numbers as one family.

    ``counted`` are the places of the numbers in the line by which the others were found.
    """

    parts: tuple[Family, ...]
    merged: Family
    counted: range


def blocks(found: Sequence[Family]) -> Iterator[Block]:
    """Yield a block for each family of at least ``FEWEST`` lines with one line of another family for each of its own.

    A first or last block that lacks a line is left out. One time stamp is used, that of the first line with one.
    """
    for counter in found:
        near = [(0, counter)]
        for other in found:
            offset = _offset(counter, other) if other is not counter else None
            if offset is not None:
                near.append((offset, other))
        if len(near) < 2:
            continue
        near.sort(key=lambda each: each[0])
        first = max(_first_block(counter, offset, family) for offset, family in near)
        counts = [family.count - first + _first_block(counter, offset, family) for offset, family in near]
        if min(counts) >= FEWEST:
            at = next(at for at, (_, family) in enumerate(near) if family is counter)
            yield _block([_cut(counter, first, min(counts), *each) for each in near], at)


def _offset(counter: Family, other: Family) -> int | None:
    """Return how many lines ``other`` is behind the counter; None unless it has one line for each of the counter's."""
    if abs(other.count - counter.count) > 1:
        return None
    before = np.searchsorted(counter.lines, other.lines)
    if (np.diff(before) != 1).any():
        return None
    # A block begins with the line that is the first in the log.
    if before[0] > 0:
        offset = int(np.median(other.lines - counter.lines[before - 1]))
    else:
        leads = before < counter.count
        offset = int(np.median(other.lines[leads] - counter.lines[before[leads]]))
    return offset if abs(offset) <= _LONGEST else None


def _first_block(counter: Family, offset: int, family: Family) -> int:
    """Return the number of the first block that has a line of ``family``, by the lines of the counter."""
    before = int(np.searchsorted(counter.lines, family.lines[0]))
    return before - 1 if offset > 0 else before


def _cut(counter: Family, first: int, count: int, offset: int, family: Family) -> Family:
    """Return ``family`` with its lines of ``count`` blocks from the ``first``."""
    start = first - _first_block(counter, offset, family)
    chosen = slice(start, start + count)
    return replace(
        family,
        places=tuple(replace(place, values=place.values[chosen]) for place in family.places),
        clock_s=None if family.clock_s is None else family.clock_s[chosen],
        lines=family.lines[chosen],
    )


def _block(parts: Sequence[Family], counter: int) -> Block:
    stamped = next((part for part in parts if part.clock_s is not None), None)
    own = tuple(part if part is stamped else replace(part, clock_s=None) for part in parts)
    # What is behind the last number of a line is not the name of the next line's first.
    places = tuple(
        replace(place, after=place.after + "\n") if place is part.places[-1] else place
        for part in own
        for place in part.places
    )
    merged = Family(
        "\n".join(part.text for part in own),
        places,
        None if stamped is None else stamped.clock_s,
        own[0].lines,
    )
    start = sum(len(part.places) for part in own[:counter])
    return Block(own, merged, range(start, start + len(own[counter].places)))
