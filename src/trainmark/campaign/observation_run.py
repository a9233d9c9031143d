"""An observation run: a worker runs the three steps of the equivalence check and reports on them."""

from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

from pydantic import ValidationError

from trainmark.campaign.run_environment import CannotStart, RunEnvironment, plan_run
from trainmark.equivalence import worker_flags, write_inputs
from trainmark.errors import plain_message
from trainmark.execution import run_plan
from trainmark.logs.events import read_events
from trainmark.node import free_ports
from trainmark.schema.case import Case
from trainmark.schema.names import EVENTS
from trainmark.schema.observation import Followed
from trainmark.schema.outcome import Outcome
from trainmark.schema.plan import Plan
from trainmark.schema.precision import Precision
from trainmark.schema.suite import Limits, Protocol

Steps = TypeVar("Steps", bound=Followed)


@dataclass(frozen=True, slots=True)
class Observed(Generic[Steps]):
    """A worker's report on its three steps, with the framework's version and the device."""

    steps: Steps
    version: str | None
    device: str | None


@dataclass(frozen=True, slots=True)
class Inputs:
    """The file with the weights and batches of a check, which its workers share."""

    path: Path
    _lock: Lock = field(default_factory=Lock)

    def write(self, case: Case) -> None:
        """Write the file for the first worker that can start: it is as large as the model."""
        with self._lock:
            if not self.path.exists():
                write_inputs(case.model, self.path, rules=case.fixed_axes)


def observe(
    case: Case, run_env: RunEnvironment, folder: Path, inputs: Inputs, limits: Limits, form: type[Steps]
) -> Observed[Steps] | str:
    """Run the case's worker on the inputs, in ``folder``; return its report, or the reason why there is none.

    ``form`` is ``Observation`` for a full report of the steps, or ``Followed`` for the change of the weights only.
    """
    plan = _plan(case, run_env, folder.absolute(), inputs.path)
    if isinstance(plan, CannotStart):
        return plan.reason
    inputs.write(case)
    folder.mkdir(exist_ok=True)
    record = run_plan(plan, folder, limits, run_env.hosts, run_env.watch)
    if record.outcome is not Outcome.OK:
        return f"{record.outcome.value}: {record.reason}"
    events = read_events(folder / EVENTS)
    try:
        steps = form.model_validate(events.summary.get("equivalence"))
    except ValidationError as error:
        return f"the worker's report cannot be read: {plain_message(error.errors()[0]['msg'])}"
    return Observed(steps, events.parameters.framework_version, events.parameters.device)


def _plan(case: Case, run_env: RunEnvironment, folder: Path, inputs: Path) -> Plan | CannotStart:
    setting = run_env.setting(case)
    if isinstance(setting, CannotStart):
        return setting
    protocol = Protocol.model_validate({"name": "adaptive", "steps": 4, "warmup_steps": 1})
    return plan_run(
        run_env,
        case,
        protocol,
        setting.interpreter,
        1,
        folder,
        port=free_ports(1, run_env.hosts_of(case)),
        # If a flag is given twice, the worker uses the last one.
        more_words=worker_flags(
            case.model, inputs, case.compiler, case.fixed_axes, Precision(case.precision)
        ),
    )
