"""Families of lines: lines that are equal apart from their numbers, and the numbers as columns."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from trainmark.logs.columns import Floats
from trainmark.logs.fields import STAMP, number, stamps

_STAMP = re.compile(STAMP)
_BAR = re.compile(rb"\|(?:[ #=>.-]|\xe2\x96[\x80-\x9f])*\|")
_NUMBER = re.compile(
    rb"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?![\d.]*:\d)"
)
_LONGEST = 4096
FEWEST = 4
_MOST_COLUMNS = 64


@dataclass(frozen=True, slots=True)
class Place:
    """One number in the lines of a family: the text before it (back to the number before) and after it."""

    before: str
    after: str
    values: Floats
    commas: bool

    @property
    def name(self) -> str:
        """The words directly before the number, in small letters."""
        words = re.findall(r"[A-Za-z][\w/()%. -]*", self.before[-40:])
        return words[-1].strip().lower() if words else ""

    @property
    def unit(self) -> str:
        """The word directly after the number, in small letters (``ms``, ``it/s``, ``k``); empty if there is none."""
        match = re.match(r" ?([A-Za-z%]+(?:/[A-Za-z]+){0,2})", self.after)
        return match[1].lower() if match else ""


@dataclass(frozen=True, slots=True)
class Family:
    """Lines that are equal apart from their numbers; ``clock_s`` are their date stamps, if they begin with one."""

    text: str
    places: tuple[Place, ...]
    clock_s: Floats | None

    @property
    def count(self) -> int:
        """The number of lines."""
        return len(self.places[0].values)


def families(text: bytes) -> Iterator[Family]:
    """Yield the families of at least ``FEWEST`` lines, those with the most lines first."""
    groups: dict[bytes, list[tuple[bytes | None, list[bytes], list[bytes]]]] = {}
    for line in text.split(b"\n"):
        if not line or len(line) > _LONGEST:
            continue
        stamp = _STAMP.search(line)
        plain = _BAR.sub(b"||", line[: stamp.start()] + line[stamp.end() :] if stamp else line)
        values = _NUMBER.findall(plain)
        if values and len(values) <= _MOST_COLUMNS:
            parts = [re.sub(rb" +", b" ", part) for part in _NUMBER.split(plain)]
            groups.setdefault(b"\0".join(parts), []).append((stamp[0] if stamp else None, values, parts))
    for rows in sorted(groups.values(), key=len, reverse=True):
        if len(rows) >= FEWEST:
            yield _family(rows)


def _family(rows: list[tuple[bytes | None, list[bytes], list[bytes]]]) -> Family:
    parts = [part.decode("utf-8", "replace") for part in rows[0][2]]
    columns = list(zip(*(values for _, values, _ in rows), strict=True))
    places = tuple(
        Place(
            before=parts[at],
            after=parts[at + 1],
            values=np.array([number(word.replace(b",", b"")) for word in column]),
            commas=any(b"," in word for word in column),
        )
        for at, column in enumerate(columns)
    )
    times = [stamp for stamp, _, _ in rows if stamp is not None]
    return Family("#".join(parts), places, stamps(times) if len(times) == len(rows) else None)
