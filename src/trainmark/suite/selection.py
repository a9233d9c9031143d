"""``--only``: choosing some of a suite's cases by their axes or by their names."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from trainmark.errors import InputError, nearest
from trainmark.schema.case import Case, axes_of


def select(cases: Sequence[Case], expression: str) -> tuple[Case, ...]:
    """Return the cases that ``expression`` chooses, in their order.

    ``precision=fp32|tf32,nodes=1`` keeps the cases on which every ``axis=value`` holds (``|`` separates
    alternatives, ``!=`` excludes them); anything without ``=`` is a pattern for the case's id, such as
    ``*-b8-*``. Raises ``InputError`` for an axis that is not known and for an expression that leaves nothing.
    """
    conditions = [part.strip() for part in expression.split(",") if part.strip()]
    if not conditions:
        raise InputError("--only '': names no condition; leave it out to have every case")
    chosen = tuple(case for case in cases if all(_holds(case, condition) for condition in conditions))
    if not chosen:
        raise InputError(f"--only {expression!r} leaves no case of {len(cases)} (trainmark plan lists them)")
    return chosen


def _holds(case: Case, condition: str) -> bool:
    axis, sign, text = condition.partition("=")
    if not sign:
        return fnmatchcase(case.id, condition)
    negated = axis.endswith("!")
    axis = axis.removesuffix("!").strip()
    if axis not in axes_of():
        raise InputError(f"--only: '{axis}' is not an axis{nearest(axis, axes_of())}")
    # A case of a task that lacks the axis has no value on it, and so none of these.
    value = str(case.value(axis)) if axis in case.axes else None
    return (value in [word.strip() for word in text.split("|")]) is not negated
