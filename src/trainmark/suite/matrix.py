"""The matrix of a suite: the product of its axes, with zip, include and exclude rules applied."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

Point = dict[str, Any]
"""Values of some axes."""


class RuleError(Exception):
    """An invalid rule of the matrix; ``key`` is its place in the file."""

    def __init__(self, key: tuple[str | int, ...], message: str) -> None:
        super().__init__(message)
        self.key = key


@dataclass(frozen=True, slots=True)
class Matrix:
    """The matrix of a suite: axes, rules and defaults.

    ``axes`` vary freely, the last one fastest; the axes of one ``zips`` group vary together; ``include``
    adds single points; ``exclude`` removes every point of the product that agrees with a rule on all of the
    rule's axes (each a list of values); an axis that does not vary has its value in ``defaults``.
    """

    axes: Mapping[str, Sequence[Any]]
    zips: Sequence[Mapping[str, Sequence[Any]]] = ()
    include: Sequence[Point] = ()
    exclude: Sequence[Mapping[str, Sequence[Any]]] = ()
    defaults: Point = field(default_factory=dict)


def expand(matrix: Matrix, limit: int) -> list[Point]:
    """Return the matrix's points in order: the product without excluded points, then the included ones.

    Raises ``RuleError`` for an exclude rule without effect, a zip group of unequal lengths, an axis that
    varies in two places, and a product of more than ``limit`` points.
    """
    groups: list[list[Point]] = [[{axis: value} for value in values] for axis, values in matrix.axes.items()]
    zipped: set[str] = set()
    for i, group in enumerate(matrix.zips):
        lengths = {len(values) for values in group.values()}
        if len(lengths) > 1:
            sizes = ", ".join(f"{axis} has {len(values)}" for axis, values in group.items())
            raise RuleError(("zip", i), f"axes that vary together need equally many values; {sizes}")
        twice = next((axis for axis in group if axis in matrix.axes), None)
        if twice:
            raise RuleError(("zip", i, twice), "is under 'axes' too; an axis can vary in one place only")
        again = next((axis for axis in group if axis in zipped), None)
        if again:
            raise RuleError(("zip", i, again), "is listed in an earlier group too; list each axis only once")
        zipped |= group.keys()
        rows = zip(*group.values(), strict=True)
        groups.append([dict(zip(group, row, strict=True)) for row in rows])
    size = prod(len(group) for group in groups)
    if size > limit:
        raise RuleError((), f"the matrix has {size} cases, more than {limit}: is an axis too much?")
    points = (
        [{k: v for part in parts for k, v in part.items()} for parts in product(*groups)] if groups else []
    )
    for i, rule in enumerate(matrix.exclude):
        remaining = [point for point in points if not _matches(matrix.defaults | point, rule)]
        if len(remaining) == len(points):
            raise RuleError(("exclude", i), "excludes nothing: no point of the matrix agrees with it")
        points = remaining
    return points + [dict(point) for point in matrix.include]


def _matches(point: Point, rule: Mapping[str, Sequence[Any]]) -> bool:
    return all(axis in point and point[axis] in values for axis, values in rule.items())
