"""The search for the fastest options of a program (``compiler: best``, or a task's variant) by short runs."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import Enum
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from trainmark.files import write_run_file
from trainmark.schema.case import Case, Device, case_of
from trainmark.schema.suite import Protocol
from trainmark.workload import Card, find_gap

if TYPE_CHECKING:
    from trainmark.schema.results import Trial

FILE = "trial.json"
"""The file in a short run's folder that has its result, once it has ended."""

MOST_WARMUP = 10
MOST_MEASURED = 30


def candidates(case: Case, card: Card, device: Device) -> list[Case]:
    """Return the case with each combination of values on its open axes, without the combinations in the card's gaps.

    A case without open axes is its only candidate.
    """
    return [found for found in _varied(case, card) if find_gap(found, card, device) is None]


def why_none(case: Case, card: Card, device: Device) -> str:
    """Return the reasons why a case has no candidates: those of the card's gaps, each once."""
    gaps = (find_gap(found, card, device) for found in _varied(case, card))
    return "; ".join(dict.fromkeys(gap for gap in gaps if gap is not None))


def axes_of_trial(case: Case, candidate: Case) -> dict[str, str]:
    """Return the candidate's values on the axes that its case leaves open."""
    return {axis: str(candidate.value(axis)) for axis in case.left_open}


def trial_protocol(protocol: Protocol) -> Protocol:
    """Return the protocol of a short run: at most 10 warm-up steps and at most 30 measured steps."""
    warmup = min(protocol.warmup_steps, MOST_WARMUP)
    return protocol.model_copy(
        update={"warmup_steps": warmup, "steps": warmup + min(protocol.measured_steps, MOST_MEASURED)}
    )


def write_trial(folder: Path, trial: "Trial") -> None:
    """Write the result of a short run."""
    write_run_file(folder / FILE, trial.to_json())


def forget_trial(folder: Path) -> None:
    """Delete the result of a short run, so that it no longer decides a case."""
    (folder / FILE).unlink(missing_ok=True)


def read_trial(folder: Path) -> "Trial | None":
    """Return the result of a short run; None if it has not ended or its files cannot be read."""
    from trainmark.schema.results import Trial

    with suppress(OSError, ValidationError):
        return Trial.model_validate_json((folder / FILE).read_bytes())
    return None


def _varied(case: Case, card: Card) -> Iterator[Case]:
    values = [_values(case, axis, card) for axis in case.left_open]
    return (case.varied(**dict(zip(case.left_open, chosen, strict=True))) for chosen in product(*values))


def _values(case: Case, axis: str, card: Card) -> Sequence[str]:
    usual = case_of(task=case.task).value(axis)
    if axis not in card.axes:
        return (str(card.fixed.get(axis, usual)),)
    listed = card.axes[axis].choices
    if listed is not None:
        return listed
    return [member.value for member in type(usual)] if isinstance(usual, Enum) else (str(usual),)
