"""Has a worker do the three steps of the equivalence check, and takes what it tells of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError

from trainmark.campaign.collect import EVENTS
from trainmark.campaign.site import CannotStart, Site, plan_run
from trainmark.equivalence import Followed, worker_flags
from trainmark.execution import carry_out
from trainmark.logs.events import read_events
from trainmark.placement import Plan, Run, free_ports
from trainmark.suite import Case, Limits, Outcome, Protocol

Steps = TypeVar("Steps", bound=Followed)


@dataclass(frozen=True, slots=True)
class Told(Generic[Steps]):
    """What a worker tells of its three steps, with the framework's version and the device that it used."""

    steps: Steps
    version: str | None
    device: str | None


def tell(
    case: Case, site: Site, folder: Path, inputs: Path, limits: Limits, form: type[Steps]
) -> Told[Steps] | str:
    """Run the case's worker on the inputs, in ``folder``; return what it tells, or why it cannot be known.

    ``form`` is ``Observation`` where the steps are looked into, else ``Followed``.
    """
    plan = _plan(case, site, folder, inputs)
    if isinstance(plan, CannotStart):
        return plan.reason
    folder.mkdir(exist_ok=True)
    record = carry_out(plan, folder, limits)
    if record.outcome is not Outcome.OK:
        return f"{record.outcome.value}: {record.reason}"
    events = read_events(folder / EVENTS)
    try:
        steps = form.model_validate(events.summary.get("equivalence"))
    except ValidationError as error:
        return f"the worker's answer cannot be read: {error.errors()[0]['msg']}"
    said = events.parameters
    return Told(steps, _text(said, "framework_version"), _text(said, "device"))


def _plan(case: Case, site: Site, folder: Path, inputs: Path) -> Plan | CannotStart:
    place = site.place(case)
    if isinstance(place, CannotStart):
        return place
    protocol = Protocol.model_validate({"name": "adaptive", "steps": 4, "warmup_steps": 1})
    run = Run(1, folder, "synthetic", free_ports(1))
    plan = plan_run(site, protocol, case, run, place.interpreter)
    if isinstance(plan, CannotStart):
        return plan
    # The worker takes the last of two equal flags.
    asked = worker_flags(case.model, inputs, case.compiler)
    return replace(
        plan,
        commands=tuple(replace(command, words=(*command.words, *asked)) for command in plan.commands),
    )


def _text(values: Mapping[str, object], name: str) -> str | None:
    value = values.get(name)
    return value if isinstance(value, str) else None
