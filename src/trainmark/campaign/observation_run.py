"""An observation run: a worker runs the three steps of the equivalence check and reports on them."""

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from threading import Lock
from typing import Generic, TypeVar

from pydantic import ValidationError

from trainmark.campaign.run_environment import CannotStart, RunEnvironment, plan_run
from trainmark.equivalence import worker_flags, write_inputs
from trainmark.errors import plain_message
from trainmark.execution import is_shared, run_plan
from trainmark.logs.events import read_events
from trainmark.node import Host, HostError, HostOSError, free_ports, pack_folder
from trainmark.placement import PlacementHost
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


INPUTS = "inputs"
"""The folder of the file that the workers of a check share; its name is also the file's, without the suffix."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The file with the weights and batches of a check, alone in ``folder``; hosts without that folder get a copy."""

    folder: Path
    _copies: list[tuple[Host, Path]] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def path_on(self, host: PlacementHost) -> Path:
        """Return the file's path on a host."""
        return host.directory(self.folder) / f"{INPUTS}.npz"

    def write(self, case: Case, host: Host, placed: PlacementHost) -> None:
        """Write the file if a host lacks it, for the first worker that can start: it is as large as the model.

        Raises ``HostError`` or OSError if it cannot be written or sent.
        """
        there = self.path_on(placed).parent
        with self._lock:
            if not self.folder.exists():
                self.folder.mkdir()
                write_inputs(case.model, self.folder / f"{INPUTS}.npz", rules=case.fixed_axes)
            if (host, there) not in self._copies and not is_shared(host, there, self.folder):
                # A killed campaign may have left one.
                host.remove(there)
                with pack_folder(self.folder) as content:
                    host.put_folder(there, content)
                self._copies.append((host, there))

    def remove(self) -> None:
        """Remove the file and its copies: it may have 100 MB, which the seed can recreate."""
        rmtree(self.folder, ignore_errors=True)
        for host, there in self._copies:
            with suppress(HostError, OSError):
                host.remove(there)
                host.remove_empty([there.parent, there.parent.parent])


def observe(
    case: Case,
    run_env: RunEnvironment,
    folder: Path,
    inputs: Inputs,
    limits: Limits,
    form: type[Steps],
    threads: int | None = None,
) -> Observed[Steps] | str:
    """Run the case's worker on the inputs, in ``folder``; return its report, or the reason why there is none.

    ``form`` is ``Observation`` for a full report of the steps, or ``Followed`` for the change of the weights only. The
    worker has as many ``threads`` (None: as in a run).
    """
    host, placed = run_env.placed[0]
    plan = _plan(case, run_env, folder.absolute(), inputs.path_on(placed), threads)
    if isinstance(plan, CannotStart):
        return plan.reason
    try:
        inputs.write(case, host, placed)
    except HostError as error:
        return f"{Outcome.FAILED.value}: {error}"
    except HostOSError as error:
        return f"{Outcome.FAILED.value}: the inputs cannot be written on {host.name}: {error.strerror}"
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


def _plan(
    case: Case, run_env: RunEnvironment, folder: Path, inputs: Path, threads: int | None
) -> Plan | CannotStart:
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
        more_words=(
            *worker_flags(case.model, inputs, case.compiler, case.fixed_axes, Precision(case.precision)),
            *(() if threads is None else (f"--threads={threads}",)),
        ),
    )
