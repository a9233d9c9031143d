"""The change of one axis that tests a difference: the program's flag and trainmark's suite axis."""

from dataclasses import dataclass

from trainmark.insight.recipe import StatedRecipe
from trainmark.programs import dialects
from trainmark.schema.case import axes_of
from trainmark.schema.recipe import AxisName, Condition, RecipeAxis


@dataclass(frozen=True, slots=True)
class Change:
    """A change for a test: the program's ``flag`` and a line of a suite; None if it cannot be made."""

    program: str | None = None
    flag: str | None = None
    suite: str | None = None


def change_of(axis: AxisName, run: StatedRecipe, reference: StatedRecipe) -> Change:
    """Return the change that gives the run's ``axis`` the reference's value and leaves the rest of the run as it is."""
    here, there = run.value(axis), reference.value(axis)
    suite = f"{axis}: [{here}, {there}]" if _can_vary(axis) else None
    dialect = dialects().get(run.program or "")
    flag = dialect.flags.get(axis) if dialect else None
    if dialect is None or flag is None or (axis == RecipeAxis.CHECKPOINT_IN_RUN and there is not False):
        return Change(suite=suite)
    known = {"value": dialect.values.get(axis, {}).get(str(there), str(there))}
    if "{optimizer_batch_size}" in flag:
        size = _optimizer_batch_size(run, reference)
        if not size:
            return Change(suite=suite)
        known["optimizer_batch_size"] = str(size)
    return Change(dialect.name, flag.format_map(known), suite)


def _can_vary(axis: AxisName) -> bool:
    """Return whether a suite can change this axis without changing machine or model."""
    fixed = set(Condition) - {Condition.PRECISION, Condition.BATCH_PER_DEVICE}
    return axis in axes_of() and axis not in fixed


def _optimizer_batch_size(run: StatedRecipe, reference: StatedRecipe) -> int | None:
    factors = [
        run.value(Condition.BATCH_PER_DEVICE),
        run.value(Condition.DEVICES),
        reference.value(RecipeAxis.ACCUMULATION_STEPS),
    ]
    if not all(isinstance(factor, int) for factor in factors):
        return None
    batch, devices, steps = (int(factor) for factor in factors if factor is not None)
    return batch * devices * steps
