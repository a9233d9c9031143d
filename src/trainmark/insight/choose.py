"""Which published figure to expect of a run when none is named: the fastest of the same case."""

from collections.abc import Iterable

from trainmark.errors import InputError
from trainmark.insight.explanation import ExplainedRun
from trainmark.insight.recipe import recipe_of
from trainmark.reference import Reference, Statistic
from trainmark.schema.recipe import Condition
from trainmark.tasks import same_model, same_unit

_MUST_AGREE = (Condition.FRAMEWORK, Condition.PRECISION, Condition.DEVICES, Condition.DEVICE)
_MAY_BE_UNSAID = (Condition.DEVICE_MEMORY_GB, Condition.BATCH_PER_DEVICE, Condition.NODES)


def choose_reference(run: ExplainedRun, references: Iterable[Reference]) -> Reference:
    """Return the fastest figure with the run's framework, model, precision, device and number of devices.

    Memory, batch and nodes must agree where both sides say them. Raises ``InputError`` when no figure
    is of that case, or the run does not say what its case is.
    """
    model = run.recipe.value(Condition.MODEL)
    missing_facts = [axis for axis in _MUST_AGREE if run.recipe.value(axis) is None]
    if model is None or missing_facts:
        missing = ", ".join([*(["model"] if model is None else []), *missing_facts])
        cure = "name a figure by --reference"
        if Condition.DEVICE in missing_facts:
            cure = (
                "give --device, "
                + ("and for the rest " if "," in missing else "or ")
                + "a figure by --reference"
            )
        raise InputError(f"{run.name} does not say its {missing}: {cure}")
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
            f"no published figure is of the case of {run.name}: name one (trainmark reference list)"
        )
    return max(found, key=lambda reference: reference.value or 0.0)


def _agrees(run: ExplainedRun, reference: Reference) -> bool:
    there = recipe_of(reference)
    if any(run.recipe.value(axis) != there.value(axis) for axis in _MUST_AGREE):
        return False
    pairs = ((run.recipe.value(axis), there.value(axis)) for axis in _MAY_BE_UNSAID)
    return all(here is None or other is None or here == other for here, other in pairs)
