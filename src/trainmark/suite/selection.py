"""``--only``: selecting cases of a suite by their axes or ids."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from trainmark.errors import InputError, nearest
from trainmark.schema.case import UNKNOWN, Case, axes_of


def select(cases: Sequence[Case], expression: str, option: str = "--only") -> tuple[Case, ...]:
    """Return the cases that ``expression`` selects, in their order.

    ``precision=fp32|tf32,nodes=1`` selects the cases that match every ``axis=value`` (``|`` separates
    alternatives, ``!=`` excludes them); anything without ``=`` is a pattern for the case's id, such as
    ``*-b8-*``. Raises ``InputError``, which names the ``option``, for an unknown axis and for an expression that
    matches no case.
    """
    conditions = [part.strip() for part in expression.split(",") if part.strip()]
    if not conditions:
        raise InputError(f"{option} '': has no condition; omit it to select every case")
    chosen = tuple(case for case in cases if all(_holds(case, condition, option) for condition in conditions))
    if not chosen:
        for condition in conditions:
            _require_known_values(cases, condition, option)
        raise InputError(
            f"{option} {expression!r} matches none of {len(cases)} cases (trainmark plan lists them)"
        )
    return chosen


def _require_known_values(cases: Sequence[Case], condition: str, option: str) -> None:
    """Raise ``InputError`` with the values of the axis if a condition requires one that no case has."""
    axis, sign, text = condition.partition("=")
    axis = axis.strip()
    if not sign or axis.endswith("!") or axis not in axes_of():
        return
    known = dict.fromkeys(str(case.value(axis)) for case in cases if axis in case.axes)
    for word in (word.strip() for word in text.split("|")):
        if word not in known:
            raise InputError(
                f"{option} {axis}={word}: no case has this value{nearest(word, known)} "
                f"({axis} of the cases: {', '.join(known) or 'none'})"
            )


def select_baselines(cases: Sequence[Case], expression: str, option: str) -> tuple[Case, ...]:
    """Return the cases that ``expression`` selects as baselines, at most one of each model.

    Raises ``InputError`` like ``select``, and if it selects several cases of a model.
    """
    chosen = select(cases, expression, option)
    by_model: dict[tuple[str, str], list[Case]] = {}
    for case in chosen:
        program = case.workload if case.model == UNKNOWN else ""
        by_model.setdefault((program, case.model), []).append(case)
    for found in by_model.values():
        if len(found) > 1:
            raise InputError(
                f"{option} {expression!r} matches {len(found)} cases of {found[0].model}, and a baseline is one: add "
                f"conditions ({found[0].id}, {found[1].id})"
            )
    return chosen


def _holds(case: Case, condition: str, option: str) -> bool:
    axis, sign, text = condition.partition("=")
    if not sign:
        return fnmatchcase(case.id, condition)
    negated = axis.endswith("!")
    axis = axis.removesuffix("!").strip()
    if axis not in axes_of():
        raise InputError(f"{option}: '{axis}' is not an axis{nearest(axis, axes_of())}")
    # A case whose task lacks the axis matches no value.
    value = str(case.value(axis)) if axis in case.axes else None
    return (value in [word.strip() for word in text.split("|")]) is not negated
