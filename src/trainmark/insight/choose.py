"""The default published figure for a run: the fastest figure of the same case."""

from collections.abc import Iterable

from trainmark.errors import InputError
from trainmark.insight.recipe import recipe_of
from trainmark.insight.sides import ExplainedRun
from trainmark.reference import Reference, Statistic
from trainmark.schema.recipe import Condition
from trainmark.tasks import same_model, same_unit

MUST_AGREE = (Condition.FRAMEWORK, Condition.PRECISION, Condition.DEVICES, Condition.DEVICE)
_OPTIONAL = (Condition.DEVICE_MEMORY_GB, Condition.BATCH_PER_DEVICE, Condition.NODES)


def choose_reference(run: ExplainedRun, references: Iterable[Reference]) -> Reference:
    """Return the fastest figure with the run's framework, model, precision, device and number of devices.

    Memory, batch and nodes must agree if both sides state them. Raises ``InputError`` if there is no figure of
    that case, or the run does not state its case.
    """
    model = run.recipe.value(Condition.MODEL)
    unstated = [axis for axis in MUST_AGREE if run.recipe.value(axis) is None]
    if model is None or unstated:
        missing = ", ".join([*(["model"] if model is None else []), *unstated])
        cure = "choose a figure with --reference"
        if Condition.DEVICE in unstated:
            cure = f"add --device, {'and for the rest ' if ',' in missing else 'or '}{cure}"
        raise InputError(f"{run.name} does not state its {missing}: {cure}")
    found = [
        reference
        for reference in references
        if reference.value is not None
        and reference.statistic not in (Statistic.EXAMPLE, Statistic.SINGLE_RUN)
        and same_model(model, reference.model)
        and (run.unit is None or same_unit(run.unit, reference.unit))
        and _agrees(run, reference)
    ]
    if not found:
        raise InputError(
            f"there is no published figure for the case of {run.name}: choose one with --reference "
            "(trainmark reference list shows all)"
        )
    return max(found, key=lambda reference: reference.value or 0.0)


def _agrees(run: ExplainedRun, reference: Reference) -> bool:
    there = recipe_of(reference)
    if any(run.recipe.value(axis) != there.value(axis) for axis in MUST_AGREE):
        return False
    pairs = ((run.recipe.value(axis), there.value(axis)) for axis in _OPTIONAL)
    return all(here is None or other is None or here == other for here, other in pairs)
