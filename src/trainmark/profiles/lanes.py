"""Nested spans of one host thread, flattened to intervals of the operation that decides at each moment."""

from collections.abc import Sequence
from typing import NamedTuple

from trainmark.profiles.classification import Classifier, Role
from trainmark.profiles.timeline import Interval
from trainmark.schema.profile import WorkKind


class Span(NamedTuple):
    """A named span of a thread. ``is_operation`` is false for an annotation, which may wrap anything."""

    start: float
    end: float
    name: str
    is_operation: bool


class _Open(NamedTuple):
    end: float
    decides: tuple[WorkKind, str] | None
    fixed: bool


def flatten(spans: Sequence[Span], names: Classifier) -> list[Interval]:
    """Return a thread's spans as intervals that do not overlap, in order; time without an operation has none.

    A region decides for everything in it. Otherwise the innermost known operation decides, and what it calls by an
    unknown name belongs to it.
    """
    found: list[Interval] = []
    stack: list[_Open] = []
    now = float("-inf")

    def advance(moment: float) -> None:
        nonlocal now
        if stack and stack[-1].decides is not None and moment > now:
            found.append(Interval(now, moment, *stack[-1].decides))
        now = max(now, moment)

    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        while stack and stack[-1].end <= span.start:
            advance(stack[-1].end)
            stack.pop()
        advance(span.start)
        # Clocks of nested spans may differ by a rounding.
        end = min(span.end, stack[-1].end) if stack else span.end
        stack.append(_opened(span, end, stack[-1] if stack else None, names))
    while stack:
        advance(stack[-1].end)
        stack.pop()
    return found


def _opened(span: Span, end: float, around: _Open | None, names: Classifier) -> _Open:
    role, kind = names.classify(span.name)
    if around is not None and around.fixed:
        return _Open(end, around.decides, fixed=True)
    if role is Role.REGION:
        return _Open(end, (kind, span.name), fixed=True)
    if role is Role.OPERATION:
        return _Open(end, (kind, span.name), fixed=False)
    inherited = None if around is None else around.decides
    if inherited is None and span.is_operation and role is not Role.OVERHEAD:
        return _Open(end, (kind, span.name), fixed=False)
    return _Open(end, inherited, fixed=False)
