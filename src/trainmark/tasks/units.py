"""The units of throughput and their synonyms."""

from collections.abc import Iterable

from trainmark.tasks.task import Task

_LOOSE = (
    frozenset({"sequence", "seq", "sentence", "sample", "example"}),
    frozenset({"word", "token", "tok"}),
)
"""Synonyms in the logs of programs with another task."""


def count_same(one: str, other: str, tasks: Iterable[Task]) -> bool:
    """Return whether two units, such as ``seq/s`` and ``samples/s``, can count the same things."""
    pair = {_singular(one), _singular(other)}
    return len(pair) == 1 or any(pair <= words for words in (*_LOOSE, *map(_words, tasks)))


def _words(task: Task) -> frozenset[str]:
    return task.unit_aliases | {_singular(task.unit)}


def _singular(unit: str) -> str:
    return unit.lower().replace(" ", "").partition("/")[0].removesuffix("s")
