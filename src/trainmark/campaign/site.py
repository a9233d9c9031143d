"""What a suite's cases need on this machine: programs, interpreters and data sets, each found once."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainmark import dataset as datasets
from trainmark import environment as environments
from trainmark.campaign.fitting import FIRST
from trainmark.environment import (
    Environment,
    Kind,
    Manifest,
    UnusableEnvironment,
    collect,
    entries,
    find_entry,
    resolve,
)
from trainmark.environment.places import folder_of, python_of
from trainmark.errors import TrainmarkError
from trainmark.execution import ResultDirectory
from trainmark.placement import Interpreter, Machine, Plan, Run, place, this_machine
from trainmark.suite import MAX_BATCH, Case, Dataset, Outcome, Protocol, Suite
from trainmark.workload import UnsupportedByCard, Workload, Workloads, load_workloads

SYNTHETIC = "synthetic"
TRAINING = "train"
"""The folder of the training images in an ImageNet-like data set."""
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
        self._places: dict[tuple[str, str], Place | CannotStart] = {}
        self._data: dict[str, CannotStart | None] = {}

    def workload(self, case: Case) -> Workload:
        """Return the case's workload; raises ``InputError`` when there is none of its name."""
        return self._workloads.find(case)

    def place(self, case: Case) -> Place | CannotStart:
        """Return where the case's program runs, or why it cannot be started there.

        The framework is imported once to ask for its versions, so one that does not import is found here.
        """
        key = (self._environment(case), self.workload(case).card.framework)
        if key not in self._places:
            self._places[key] = self._find_place(*key)
        return self._places[key]

    def make_data(self, case: Case, progress: Callable[[str, int, int], None]) -> CannotStart | None:
        """See that the case's data is there, and make it if it may be made; return why it cannot be had.

        ``progress`` hears the data set's name, and how many of how many images are made.
        """
        if case.data == SYNTHETIC:
            return None
        if case.data not in self._data:
            self._data[case.data] = self._find_data(case.data, progress)
        return self._data[case.data]

    def data(self, case: Case) -> str:
        """Return what the program is told as its data: ``synthetic``, or the folder where it lies or will lie."""
        if case.data == SYNTHETIC:
            return SYNTHETIC
        location = self._location(case.data)
        split = location / TRAINING
        return str(split if self._suite.datasets[case.data].make or split.is_dir() else location)

    def expected_interpreter(self, case: Case) -> Interpreter:
        """Return the Python that would run the case's program, whether or not it is there yet.

        Raises ``InputError`` when there is no workload or no environment of the name.
        """
        name = self._environment(case)
        if name not in self._expected:
            self._expected[name] = _expected(name, self._home)
        return self._expected[name]

    def _environment(self, case: Case) -> str:
        asked = self._suite.environment
        return self.workload(case).card.environment if asked == "auto" else asked

    def _find_place(self, name: str, framework: str) -> Place | CannotStart:
        try:
            environment = resolve(name, home=self._home)
            known = framework in {entry.framework for entry in entries()}
            versions = environments.describe(environment.python, framework) if known else None
        except UnusableEnvironment as error:
            return CannotStart(Outcome.UNSUPPORTED, str(error))
        manifest = collect(versions, environment_lock=environment.lock_digest, git_dir=PROJECT)
        return Place(_as_interpreter(environment), manifest)

    def _location(self, name: str) -> Path:
        dataset = self._suite.datasets[name]
        return Path(dataset.path) if dataset.path else self._home / "datasets" / _folder_name(name, dataset)

    def _find_data(self, name: str, progress: Callable[[str, int, int], None]) -> CannotStart | None:
        dataset, path = self._suite.datasets[name], self._location(name)
        try:
            if dataset.make is not None:
                spec = datasets.spec_from(dataset.make.model_dump(), f"datasets.{name}.make")
                jobs = self.machine.cores
                datasets.make_image_folder(path, spec, jobs, lambda done, total: progress(name, done, total))
            datasets.describe(path)
        except TrainmarkError as error:
            return CannotStart(Outcome.FAILED, f"data set '{name}': {error}")
        return None


def plan_run(
    site: Site, protocol: Protocol, case: Case, run: Run, interpreter: Interpreter
) -> Plan | CannotStart:
    """Return the plan of one run, or why it cannot be started on this machine."""
    try:
        plan = place(case, site.workload(case), interpreter, site.machine, protocol, run)
    except UnsupportedByCard as error:
        return CannotStart(Outcome.UNSUPPORTED, str(error))
    return plan


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
    if case.batch_per_device == MAX_BATCH:
        folder, case = directory.probe(case, FIRST), case.at_batch(FIRST)
        protocol = probe_protocol(protocol)
    return plan_run(site, protocol, case, Run(1, folder, site.data(case)), interpreter)


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


def _folder_name(name: str, dataset: Dataset) -> str:
    made: Mapping[str, object] = dataset.make.model_dump() if dataset.make else {}
    return "-".join([name, *(f"{key[0]}{value}" for key, value in made.items())])
