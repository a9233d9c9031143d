"""``--only``: selecting cases of a suite by their axes, options or ids."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from trainmark.errors import InputError, nearest
from trainmark.schema.case import UNKNOWN, Case, axes_of


def select(cases: Sequence[Case], expression: str, option: str = "--only") -> tuple[Case, ...]:
    """Return the cases that ``expression`` selects, in their order.

    ``precision=fp32|tf32,nodes=1`` selects the cases that match every ``axis=value`` (``|`` separates
    alternatives, ``!=`` excludes them), where an axis may also be an option of the program; anything without ``=`` is
    a pattern for the case's id, such as ``*-b8-*``. Raises ``InputError``, which names the ``option``, for an unknown
    axis and for an expression that matches no case.
    """
    conditions = [part.strip() for part in expression.split(",") if part.strip()]
    if not conditions:
        raise InputError(f"{option} '': has no condition; omit it to select every case")
    _require_known_axes(cases, conditions, option)
    chosen = tuple(case for case in cases if all(_holds(case, condition) for condition in conditions))
    if not chosen:
        for condition in conditions:
            _require_known_values(cases, condition, option)
        raise InputError(
            f"{option} {expression!r} matches none of {len(cases)} cases (trainmark plan lists them)"
        )
    return chosen


def _require_known_axes(cases: Sequence[Case], conditions: Sequence[str], option: str) -> None:
    known = dict.fromkeys((*axes_of(), *(name for case in cases for name in case.options)))
    for condition in conditions:
        axis, sign, _ = condition.partition("=")
        axis = axis.removesuffix("!").strip()
        if sign and axis not in known:
            raise InputError(f"{option}: '{axis}' is not an axis{nearest(axis, known)}")


def _value(case: Case, axis: str) -> str | None:
    """Return the value of an axis, or of a program's option of that name; None if the case has neither."""
    if axis in case.axes:
        return str(case.value(axis))
    return str(case.options[axis]) if axis in case.options else None


def _require_known_values(cases: Sequence[Case], condition: str, option: str) -> None:
    """Raise ``InputError`` with the values of the axis if a condition requires one that no case has."""
    axis, sign, text = condition.partition("=")
    axis = axis.strip()
    if not sign or axis.endswith("!"):
        return
    known = dict.fromkeys(value for case in cases if (value := _value(case, axis)) is not None)
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


def _holds(case: Case, condition: str) -> bool:
    axis, sign, text = condition.partition("=")
    if not sign:
        return fnmatchcase(case.id, condition)
    negated = axis.endswith("!")
    # A case without the axis matches no value.
    value = _value(case, axis.removesuffix("!").strip())
    return (value in [word.strip() for word in text.split("|")]) is not negated
