"""What a suite's cases need on this machine: programs, interpreters and data sets, each found once."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from trainmark import environment as environments
from trainmark.campaign.data_sets import DataSets
from trainmark.campaign.fitting import FIRST
from trainmark.dataset import Form
from trainmark.environment import (
    Environment,
    Kind,
    Manifest,
    UnusableEnvironment,
    collect,
    find_entry,
    resolve,
)
from trainmark.environment.engine import ENGINES, Engine, require_engine
from trainmark.environment.places import folder_of, python_of
from trainmark.errors import TrainmarkError
from trainmark.execution import ResultDirectory
from trainmark.placement import (
    Interpreter,
    Machine,
    Plan,
    Run,
    containerised,
    place,
    prepare,
    prepared_key,
    this_machine,
)
from trainmark.suite import EACH_ITS_OWN, MAX_BATCH, Case, Outcome, Protocol, Suite
from trainmark.workload import UnsupportedByCard, Workload, Workloads, load_workloads

SYNTHETIC = "synthetic"
PROJECT = Path(__file__).parent
"""Whose git state the manifest keeps: trainmark's own, where it runs from a checkout."""


@dataclass(frozen=True, slots=True)
class CannotStart:
    """A case that will not be started, with the outcome that this is and the reason."""

    outcome: Outcome
    reason: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where a program runs: its interpreter, and the manifest of the node as it is with it."""

    interpreter: Interpreter
    manifest: Manifest


class Site:
    """Finds what cases need; a missing piece is found out once and told for every case that wants it."""

    def __init__(self, suite: Suite, workloads: Workloads, machine: Machine, home: Path) -> None:
        self.machine = machine
        self._suite = suite
        self._workloads = workloads
        self._home = home
        self._expected: dict[str, Interpreter] = {}
        self._engines: dict[Engine, str | CannotStart] = {}
        self._places: dict[tuple[str, str], Place | CannotStart] = {}
        self._data: dict[tuple[str, Form], CannotStart | None] = {}
        self._datasets = DataSets(suite.datasets, home, machine.cores)

    def workload(self, case: Case) -> Workload:
        """Return the case's workload; raises ``InputError`` when there is none of its name."""
        return self._workloads.find(case)

    def place(self, case: Case) -> Place | CannotStart:
        """Return where the case's program runs, or why it cannot be started there.

        The framework is imported once to ask for its versions, so one that does not import is found here. Into a
        container nobody looks before the run.
        """
        if self._environment(case) in ENGINES:
            return self._in_container(case)
        key = (self._environment(case), self.workload(case).card.framework)
        if key not in self._places:
            self._places[key] = self._find_place(*key)
        return self._places[key]

    def make_data(self, case: Case, progress: Callable[[str, int, int], None]) -> CannotStart | None:
        """See that the case's data is there in the form that its program takes; return why it cannot be had.

        What may be made is made, and what lies there in another form is converted. ``progress`` hears what is
        being prepared, and how many of how many images are done.
        """
        if case.data == SYNTHETIC:
            return None
        key = (case.data, self._form(case))
        if key not in self._data:
            self._data[key] = self._find_data(*key, progress)
        return self._data[key]

    def data(self, case: Case) -> str:
        """Return what the program is told as its data: ``synthetic``, or the folder where it lies or will lie."""
        return SYNTHETIC if case.data == SYNTHETIC else str(self._datasets.given(case.data, self._form(case)))

    def _form(self, case: Case) -> Form:
        return self.workload(case).card.data_format(case.loader)

    def expected_interpreter(self, case: Case) -> Interpreter | CannotStart:
        """Return the Python that would run the case's program, whether or not it is there yet.

        Raises ``InputError`` when there is no workload or no environment of the name.
        """
        name = self._environment(case)
        if name in ENGINES:
            return self._interpreter_inside(case, Engine(name))
        if name not in self._expected:
            self._expected[name] = _expected(name, self._home)
        return self._expected[name]

    def furnished(self, case: Case, run: Run) -> Run:
        """Return the run with the folder of its whole data set, and the one for what its card's steps make.

        Raises ``UnsupportedByCard`` when nothing says which commit of the program is meant.
        """
        dataset = self._dataset(case)
        if self._environment(case) not in ENGINES and not self.workload(case).card.prepare:
            return replace(run, dataset=dataset)
        return replace(run, dataset=dataset, prepared=self._prepared(case, dataset))

    def repositories(self) -> Path:
        """Return the folder that holds the repositories of programs."""
        return self._home / "sources"

    def _dataset(self, case: Case) -> str:
        if case.data == SYNTHETIC:
            return SYNTHETIC
        return str(self._datasets.location(case.data, self._form(case)))

    def _prepared(self, case: Case, dataset: str) -> Path:
        key = prepared_key(case, self.workload(case).card, self._environment(case), dataset)
        return self._home / "prepared" / key

    def _interpreter_inside(self, case: Case, engine: Engine) -> Interpreter | CannotStart:
        try:
            prepared = self._prepared(case, self._dataset(case))
            return containerised(case, self.workload(case).card, engine, prepared, owner())
        except UnsupportedByCard as error:
            return CannotStart(Outcome.UNSUPPORTED, str(error))

    def _in_container(self, case: Case) -> Place | CannotStart:
        engine = Engine(self._environment(case))
        interpreter = self._interpreter_inside(case, engine)
        if isinstance(interpreter, CannotStart):
            return interpreter
        if engine not in self._engines:
            self._engines[engine] = _find_engine(engine)
        version = self._engines[engine]
        if isinstance(version, CannotStart):
            return version
        assert interpreter.container is not None
        lock = f"{engine} {version}, {interpreter.container.description.reference}"
        return Place(interpreter, collect(None, environment_lock=lock, git_dir=PROJECT))

    def _environment(self, case: Case) -> str:
        asked = self._suite.environment_of(case.framework)
        return self.workload(case).card.environment if asked == EACH_ITS_OWN else asked

    def _find_place(self, name: str, framework: str) -> Place | CannotStart:
        try:
            environment = resolve(name, home=self._home)
            versions = environments.examine(environment, framework)
        except UnusableEnvironment as error:
            return CannotStart(Outcome.UNSUPPORTED, str(error))
        manifest = collect(versions, environment_lock=environment.lock_digest, git_dir=PROJECT)
        return Place(_as_interpreter(environment), manifest)

    def _find_data(
        self, name: str, form: Form, progress: Callable[[str, int, int], None]
    ) -> CannotStart | None:
        try:
            self._datasets.prepare(name, form, progress)
        except TrainmarkError as error:
            return CannotStart(Outcome.FAILED, f"data set '{name}': {error}")
        return None


def plan_run(
    site: Site, protocol: Protocol, case: Case, run: Run, interpreter: Interpreter
) -> Plan | CannotStart:
    """Return the plan of one run, or why it cannot be started on this machine."""
    workload, machine = site.workload(case), site.machine
    try:
        run = site.furnished(case, run)
        plan = place(case, workload, interpreter, machine, protocol, run)
        before = prepare(case, workload, interpreter, machine, protocol, run, site.repositories())
    except UnsupportedByCard as error:
        return CannotStart(Outcome.UNSUPPORTED, str(error))
    return replace(plan, preparation=before)


def plan_campaign(suite: Suite, cases: Sequence[Case], out: Path, home: Path) -> list[Plan | CannotStart]:
    """Return the plan of each case's first run; looks at this machine's devices, and at nothing else.

    The first run of a case with the batch ``max`` is the one that tries the smallest batch.

    Raises ``InputError`` when the suite names a workload or an environment that does not exist.
    """
    site = Site(suite, load_workloads(Path(card) for card in suite.cards), this_machine(), home)
    directory = ResultDirectory(out.absolute())
    return [_first_plan(site, suite.protocol, case, directory) for case in cases]


def probe_protocol(protocol: Protocol) -> Protocol:
    """Return the protocol of a run that only tells whether a batch fits: memory is at its peak after two steps."""
    return protocol.model_copy(update={"steps": 4, "warmup_steps": 2})


def _first_plan(site: Site, protocol: Protocol, case: Case, directory: ResultDirectory) -> Plan | CannotStart:
    interpreter, folder = site.expected_interpreter(case), directory.run(case, 1)
    if isinstance(interpreter, CannotStart):
        return interpreter
    if case.batch_per_device == MAX_BATCH:
        folder, case = directory.probe(case, FIRST), case.at_batch(FIRST)
        protocol = probe_protocol(protocol)
    return plan_run(site, protocol, case, Run(1, folder, site.data(case)), interpreter)


def owner() -> str:
    """Return who is to own what a container writes: this user, as ``uid:gid``."""
    return f"{os.getuid()}:{os.getgid()}"


def _find_engine(engine: Engine) -> str | CannotStart:
    try:
        return require_engine(engine)
    except UnusableEnvironment as error:
        return CannotStart(Outcome.UNSUPPORTED, str(error))


def _as_interpreter(environment: Environment) -> Interpreter:
    return Interpreter(environment.python, environment.kind is Kind.VENV, environment.env_vars)


def _expected(name: str, home: Path) -> Interpreter:
    """Return where ``resolve`` would find the environment ``name``, made or not."""
    try:
        return _as_interpreter(resolve(name, home=home))
    except UnusableEnvironment:
        if os.sep in name:
            return Interpreter(Path(name), isolated=False)
        return Interpreter(
            python_of(folder_of(home, name)), isolated=True, variables=find_entry(name).env_vars
        )
