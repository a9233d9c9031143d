"""The cause of a change of level: what else changed in the results at the same place."""

from collections import Counter
from collections.abc import Sequence

from trainmark.history.change_points import Step
from trainmark.history.points import Fact, Point
from trainmark.schema.history import ChangeCause, FactChange

_MOSTLY = 0.8
"""A fact has a value on one side of a change if this part of the results there has it."""
_FIRST = (ChangeCause.METHOD, ChangeCause.HARDWARE)
"""The causes that explain a change before the program does."""


def differences(points: Sequence[Point], step: Step, start: int, end: int) -> tuple[FactChange, ...]:
    """Return the facts that changed where the step may be, the causes that come first at first.

    ``start`` and ``end`` limit the levels before and after the step.
    """
    names = dict.fromkeys(name for point in points[start:end] for name in point.facts)
    found = [change for name in names if (change := _change(points, name, step, start, end)) is not None]
    return tuple(sorted(found, key=lambda change: (change.cause not in _FIRST, change.cause is None)))


def cause_of(step: Step, changes: Sequence[FactChange]) -> ChangeCause:
    """Return the cause of a step: the method or the hardware if it changed, else the program."""
    named = {change.cause for change in changes}
    explained = next((cause for cause in _FIRST if cause in named), None)
    if explained is not None:
        return explained
    return ChangeCause.IMPROVEMENT if step.size > 0 else ChangeCause.REGRESSION


def _change(points: Sequence[Point], name: str, step: Step, start: int, end: int) -> FactChange | None:
    facts = [points[i].facts.get(name) for i in range(start, end)]
    cause = next((fact.cause for fact in facts if fact is not None), None)
    texts = [None if fact is None else fact.value for fact in facts]
    places = [place for place in range(step.earliest, step.latest + 1) if start < place < end]
    for place in sorted(places, key=lambda place: abs(place - step.index)):
        before, after = texts[: place - start], texts[place - start :]
        if before[-1] == after[0] or not (_settled(before, before[-1]) and _settled(after, after[0])):
            continue
        # A fact that the other side has now and then is one that varies, and not one that changed.
        if before.count(after[0]) <= (1 - _MOSTLY) * len(before):
            return FactChange(cause=cause, fact=name, before=before[-1], after=after[0])
    return _varying(name, cause, facts, step, start)


def _settled(texts: Sequence[str | None], value: str | None) -> bool:
    return texts.count(value) >= _MOSTLY * len(texts)


def _varying(
    name: str, cause: ChangeCause | None, facts: Sequence[Fact | None], step: Step, start: int
) -> FactChange | None:
    """Return a fact that differs in most results, such as a commit: its values next to the step."""
    if cause is not None:
        return None
    texts = [None if fact is None else fact.value for fact in facts]
    at = step.index - start
    if len(Counter(texts)) < _MOSTLY * len(texts) or texts[at - 1] == texts[at]:
        return None
    return FactChange(cause=None, fact=name, before=texts[at - 1], after=texts[at])
