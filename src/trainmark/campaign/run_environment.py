"""The programs, interpreters and data sets that the cases of a suite need on its hosts, and the plans of their runs.

A suite's cards are checked here for what reading a card does not import: log formats, rules and environments.
"""

import hashlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import gettempdir
from typing import Any, TypedDict, Unpack

from trainmark.campaign.data_files import DataFiles
from trainmark.campaign.data_sets import DataSets
from trainmark.campaign.transfer import send_data, send_program
from trainmark.documents import Document
from trainmark.environment import (
    SYSTEM,
    Environment,
    EnvironmentKind,
    UnusableEnvironment,
    find_entry,
    resolve,
)
from trainmark.environment.locations import folder_of, python_of
from trainmark.environment.packages import PackageLock, lock_packages
from trainmark.environment.resolving import ENGINES, Engine, probe_environment, require_engine
from trainmark.errors import InputError, TrainmarkError
from trainmark.files import carried_extensions
from trainmark.node import CommandRunner, Heartbeat, Host, ignore_heartbeat, remote_path
from trainmark.placement import (
    FrameworkPython,
    PlacementHost,
    Planner,
    RunSpec,
    container_python,
    prepare,
    prepare_packages,
    prepared_key,
)
from trainmark.schema.case import SYNTHETIC, Case
from trainmark.schema.manifest import Manifest, Node
from trainmark.schema.outcome import Outcome
from trainmark.schema.plan import NodeResources, Plan
from trainmark.schema.suite import EACH_ITS_OWN, Limits, Protocol, Suite
from trainmark.workload import FolderSource, UnsupportedByCard, Workload, Workloads, load_workloads
from trainmark.workload.card import AUTO_FORMAT, OWN_FORMAT

_FORMAT = "log_format"
_NAME = re.compile(r"(?:unknown key |the key )?'?([\w.-]+)'?(?:\[(\d+)\])?")
_VALID: Mapping[str, Any] = {"title": "program", "unit": "samples/s", "records": ["{step} {rate}"]}
"""Valid values of a description's required keys: with them, its other keys can be checked too."""
PROJECT = Path(__file__).parent
"""The folder whose git state is in the manifest: trainmark's own, if it runs from a checkout."""
_PROBE = Limits(timeout_s=1800)
"""The time limit for probing an environment: frameworks are slow to import from a cold disk."""


class MoreOfSpec(TypedDict, total=False):
    """Additions to a run's spec: the rendezvous of its ranks, and words after the program's own."""

    port: int
    more_words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CannotStart:
    """A case that cannot be started, with its outcome and the reason."""

    outcome: Outcome
    reason: str


@dataclass(frozen=True, slots=True)
class Setting:
    """The environment of a program: its interpreter (by its path on this machine) and the manifest of all nodes."""

    interpreter: FrameworkPython
    manifest: Manifest


class RunEnvironment:
    """Finds what cases need on the hosts; every fact is looked up once and cached.

    The processes that it starts are tagged with ``mark``.
    """

    def __init__(
        self, suite: Suite, workloads: Workloads, hosts: Sequence[Host], home: Path, mark: str = "trainmark"
    ) -> None:
        self.hosts = tuple(hosts)
        self._suite = suite
        self._workloads = workloads
        self.home = home
        self._sources = home / "sources"
        self._mark = mark
        self._watch: Callable[[Heartbeat], None] = ignore_heartbeat
        self._expected: dict[str, FrameworkPython] = {}
        self._compile_caches: dict[tuple[str, str, bool], Path] = {}
        self._extended: dict[tuple[str, tuple[str, ...]], FrameworkPython | CannotStart] = {}
        self._nodes: dict[tuple[str, ...], Node | CannotStart] = {}
        self._data: dict[tuple[str, str], CannotStart | None] = {}
        self._one_at_a_time = threading.Lock()
        self.data_files = DataFiles()

    def watched(self, watch: Callable[[Heartbeat], None]) -> "RunEnvironment":
        """Return a copy whose probes and checks ``watch`` can end by raising; the cache is shared."""
        other = copy(self)
        other._watch = watch
        return other

    @property
    def watch(self) -> Callable[[Heartbeat], None]:
        """The function that is called while probes and checks run, and ends them by raising."""
        return self._watch

    def on(self, hosts: Sequence[Host]) -> "RunEnvironment":
        """Return a copy with only these hosts, in this order; the cache is shared."""
        other = copy(self)
        other.hosts = tuple(hosts)
        return other

    def of(self, case: Case) -> "RunEnvironment | CannotStart":
        """Return a copy with only the hosts that have the case's labels, or why the case cannot be started."""
        if not case.where:
            return self
        found = [host for host in self.hosts if has_labels(host, case)]
        return (
            self.on(found)
            if found
            else CannotStart(Outcome.UNSUPPORTED, f"no host has the labels {case.where}")
        )

    def workload(self, case: Case) -> Workload:
        """Return the case's workload; raise ``InputError`` if there is none of this name."""
        return self._workloads.find(case)

    def setting(self, case: Case) -> Setting | CannotStart:
        """Return the environment in which the case's program runs, or why it cannot be started there.

        On each host the framework is imported once to query its versions, so a broken framework is found here.
        Containers are not inspected before the run.
        """
        interpreter = self.expected_interpreter(case)
        if isinstance(interpreter, CannotStart):
            return interpreter
        nodes: list[Node] = []
        for host in self.hosts_of(case):
            node = self._node(host, case, interpreter)
            if isinstance(node, CannotStart):
                where = f"{host.name}: " if len(self.hosts_of(case)) > 1 else ""
                return CannotStart(node.outcome, f"{where}{node.reason}")
            nodes.append(node)
        names = [host.name for host in self.hosts_of(case)]
        if (other := other_environment(names, nodes)) is not None:
            return CannotStart(Outcome.UNSUPPORTED, other)
        return Setting(interpreter, Manifest(nodes=tuple(nodes)))

    def _node(self, host: Host, case: Case, interpreter: FrameworkPython) -> Node | CannotStart:
        """Return the facts of a host with the case's environment, queried once."""
        environment, container = self._environment(case), interpreter.container
        about = self.workload(case).card.framework if container is None else container.description.reference
        packages = "" if interpreter.packages is None else interpreter.packages.digest
        key = (host.name, environment, about, packages)
        if key not in self._nodes:
            try:
                if container is None:
                    runner = CommandRunner(host, _PROBE, self._mark, self._watch)
                    probed = probe_environment(environment, about, self.home, runner)
                    versions, lock = probed.versions, _joined(probed.lock_digest, packages)
                else:
                    engine = container.engine
                    versions, lock = None, f"{engine} {require_engine(engine, host)}, {about}"
                self._nodes[key] = host.facts(versions, lock, remote_path(host.paths, PROJECT))
            except UnusableEnvironment as error:
                self._nodes[key] = CannotStart(Outcome.UNSUPPORTED, str(error))
        return self._nodes[key]

    def make_data(self, case: Case, progress: Callable[[str, int, int], None]) -> CannotStart | None:
        """Make the case's data available in the format that its program reads; return the reason if that fails.

        Data is created if the suite allows that, and converted from another format if needed. ``progress`` receives the
        description of a preparation, and how many of how many samples are done.
        """
        if not case.reads_data_set:
            return None
        key = (case.data, self._form(case))
        with self._one_at_a_time:
            if key not in self._data:
                self._data[key] = self._find_data(*key, progress)
        folder = self._data_sets().location(*key)
        if self._data[key] is None:
            try:
                for host in self.hosts_of(case):
                    send_data(host, folder, lambda what: progress(what, 1, 1))
            except TrainmarkError as error:
                return CannotStart(Outcome.FAILED, f"data set '{case.data}': {error}")
        return self._data[key]

    def data_file_problem(self, case: Case) -> CannotStart | None:
        """Return why the data files of the case's card cannot be used; None if they can."""
        workload = self.workload(case)
        if not workload.card.data_files:
            return None
        reason = self.data_files.problem(workload, self.hosts_of(case))
        return None if reason is None else CannotStart(Outcome.FAILED, reason)

    def data(self, case: Case) -> str:
        """Return the program's data argument: ``synthetic``, or a folder, whether or not it exists yet."""
        return (
            SYNTHETIC
            if not case.reads_data_set
            else str(self._data_sets().given(case.data, self._form(case)))
        )

    def _form(self, case: Case) -> str:
        return self.workload(case).card.data_format(case.loader)

    def expected_interpreter(self, case: Case) -> FrameworkPython | CannotStart:
        """Return the Python that would run the case's program, whether or not it exists yet.

        Raises ``InputError`` for an unknown workload or environment.
        """
        name = self._environment(case)
        if name in ENGINES:
            return self._container_interpreter(case, Engine(name))
        if name not in self._expected:
            self._expected[name] = _expected(name, self.home)
        base, packages = self._expected[name], self.workload(case).card.packages
        if not packages:
            return base
        key = (name, packages)
        with self._one_at_a_time:
            if key not in self._extended:
                self._extended[key] = self._add_packages(base, packages)
        return self._extended[key]

    def _add_packages(
        self, base: FrameworkPython, requirements: tuple[str, ...]
    ) -> FrameworkPython | CannotStart:
        """Return the Python that has the packages of a card too, resolved for this machine.

        Those of a missing Python stay unresolved: a plan names them, and a run cannot start without the Python.
        """
        if not base.python.exists():
            return replace(base, unresolved=requirements)
        try:
            lock = lock_packages(base.python, base.variables, requirements, self.home.absolute())
        except UnusableEnvironment as error:
            return CannotStart(Outcome.UNSUPPORTED, str(error))
        return replace(base, python=lock.python, packages=lock)

    @property
    def placement_hosts(self) -> tuple[PlacementHost, ...]:
        """Return the hosts in the form that placement uses; a file sent to a host has another path there."""
        return tuple(
            PlacementHost(
                host.machine(),
                host.name,
                host.address,
                host.folder,
                host.paths,
                host.interface,
                host.traffic,
            )
            for host in self.hosts
        )

    @property
    def placed(self) -> tuple[tuple[Host, PlacementHost], ...]:
        """The hosts, each with its form for placement."""
        return tuple(zip(self.hosts, self.placement_hosts, strict=True))

    def send_program(self, case: Case, say: Callable[[str], None]) -> CannotStart | None:
        """Copy the folder of the case's program to its hosts if needed; return the reason if that fails."""
        workload = self.workload(case)
        if isinstance(workload.card.source, FolderSource):
            try:
                for host in self.hosts_of(case):
                    ignore = workload.card.source.ignore
                    send_program(host, Path(workload.source), ignore, self.home, say)
            except TrainmarkError as error:
                return CannotStart(Outcome.FAILED, str(error))
        return None

    @property
    def machine(self) -> NodeResources:
        """The resources of the first host."""
        return self.hosts[0].machine()

    def hosts_of(self, case: Case) -> tuple[Host, ...]:
        """Return the hosts of a case's nodes, or all if there are fewer."""
        return self.hosts[: case.nodes]

    def spec(
        self,
        case: Case,
        protocol: Protocol,
        interpreter: FrameworkPython,
        repeat: int,
        directory: Path,
        **more: Unpack[MoreOfSpec],
    ) -> RunSpec:
        """Return the specification that decides a run's plan, with its data and the folder for prepare steps.

        Raises ``UnsupportedByCard`` if the program's commit is not specified.
        """
        workload, dataset = self.workload(case), self._dataset(case)
        needs_folder = self._environment(case) in ENGINES or workload.card.steps
        return RunSpec(
            case=case,
            workload=workload,
            interpreter=interpreter,
            hosts=self.placement_hosts,
            protocol=protocol,
            repeat=repeat,
            directory=directory,
            data=self.data(case),
            dataset=dataset,
            prepared=self._prepared(case, dataset, interpreter.packages) if needs_folder else Path(),
            compile_cache=self._compile_cache(case, interpreter),
            started_by=self._suite.launcher,
            **more,
        )

    def repositories(self, node: int) -> Path:
        """Return the folder on a node for the programs' repositories."""
        return remote_path(self.hosts[node].paths, self._sources)

    def _dataset(self, case: Case) -> str:
        if not case.reads_data_set:
            return SYNTHETIC
        return str(self._data_sets().location(case.data, self._form(case)))

    def _prepared(self, case: Case, dataset: str, packages: PackageLock | None) -> Path:
        """Return the folder for the results of the case's prepare steps, which ``packages`` may have made."""
        environment = self._environment(case)
        if packages is not None:
            environment += f" {packages.folder.name} {packages.digest}"
        return self.home / "prepared" / prepared_key(case, self.workload(case).card, environment, dataset)

    def _data_sets(self) -> DataSets:
        """Return the suite's data sets; data is created on this machine, even if only other hosts run cases."""
        return DataSets(self._suite.datasets, self.home, len(os.sched_getaffinity(0)))

    def _compile_cache(self, case: Case, interpreter: FrameworkPython) -> Path:
        """Return the folder for the compiled programs of the case's environment; its name identifies that.

        Hosts may share the home over a network, on which compilers' locks and renamed files are not safe: runs of
        several nodes use a folder of each node's own.
        """
        packages = "" if interpreter.packages is None else interpreter.packages.digest
        environment = f"{self._environment(case)} {interpreter.python} {packages}"
        key = (case.framework, environment, case.nodes == 1)
        if key not in self._compile_caches:
            identity = hashlib.sha256(environment.encode()).hexdigest()[:12]
            own = Path(gettempdir()) / f"trainmark-{os.getuid()}"
            folder = self.home if case.nodes == 1 else own
            self._compile_caches[key] = folder / "compile-caches" / f"{case.framework}-{identity}"
        return self._compile_caches[key]

    def _container_interpreter(self, case: Case, engine: Engine) -> FrameworkPython | CannotStart:
        try:
            prepared = self._prepared(case, self._dataset(case), None)
            return container_python(case, self.workload(case).card, engine, prepared, user_and_group())
        except UnsupportedByCard as error:
            return CannotStart(Outcome.UNSUPPORTED, str(error))

    def _environment(self, case: Case) -> str:
        requested = self._suite.environment_of(case.framework)
        return self.workload(case).card.environment if requested == EACH_ITS_OWN else requested

    def _find_data(
        self, name: str, form: str, progress: Callable[[str, int, int], None]
    ) -> CannotStart | None:
        try:
            self._data_sets().prepare(name, form, progress)
        except TrainmarkError as error:
            return CannotStart(Outcome.FAILED, f"data set '{name}': {error}")
        return None


@contextmanager
def at_once(run_env: RunEnvironment, count: int) -> Iterator[tuple[ThreadPoolExecutor, RunEnvironment]]:
    """Yield a pool of ``count`` threads, and the run environment for their processes.

    The threads are waited for. An error in the body of the ``with``, an interruption included, ends their processes.
    """
    over = threading.Event()

    def watch(_heartbeat: Heartbeat) -> None:
        if over.is_set():
            raise KeyboardInterrupt

    with ThreadPoolExecutor(count) as pool:
        try:
            yield pool, run_env.watched(watch)
        except BaseException:
            over.set()
            pool.shutdown(cancel_futures=True)
            raise


def plan_run(
    run_env: RunEnvironment,
    case: Case,
    protocol: Protocol,
    interpreter: FrameworkPython,
    repeat: int,
    directory: Path,
    **more: Unpack[MoreOfSpec],
) -> Plan | CannotStart:
    """Return the plan of one run, or why it cannot be started on these hosts; ``RunSpec`` has the arguments."""
    planner = run_planner(run_env, case, protocol, interpreter, repeat, **more)
    return planner if isinstance(planner, CannotStart) else planner.plan(case, directory)


def run_planner(
    run_env: RunEnvironment,
    case: Case,
    protocol: Protocol,
    interpreter: FrameworkPython,
    repeat: int,
    **more: Unpack[MoreOfSpec],
) -> "RunPlanner | CannotStart":
    """Return the planner of the cases of one place, or why none of them can be started on these hosts."""
    try:
        # Each plan has the folder of its own run.
        spec = run_env.spec(case, protocol, interpreter, repeat, Path(), **more)
    except UnsupportedByCard as error:
        return CannotStart(Outcome.UNSUPPORTED, str(error))
    nodes = range(min(case.nodes, len(run_env.hosts)))
    return RunPlanner(spec, tuple(run_env.repositories(node) for node in nodes))


class RunPlanner:
    """Plans the runs of the cases of one place, with what must be prepared for them.

    ``repositories`` are the nodes' folders for the programs' repositories.
    """

    def __init__(self, spec: RunSpec, repositories: tuple[Path, ...]) -> None:
        self._spec, self._repositories = spec, repositories
        self._planner, self._prepares = Planner(spec), spec.needs_preparation

    def plan(self, case: Case, directory: Path) -> Plan | CannotStart:
        """Return the plan of a run in ``directory``, or why it cannot be started on these hosts."""
        try:
            plan = self._planner.plan(case, directory)
            if not self._prepares:
                return plan
            spec = replace(self._spec, case=case, directory=directory)
            before = [prepare_packages(spec, node) for node in range(len(self._repositories))]
            before += [prepare(spec, node, folder) for node, folder in enumerate(self._repositories)]
        except UnsupportedByCard as error:
            return CannotStart(Outcome.UNSUPPORTED, str(error))
        preparations = tuple(found for found in before if found is not None)
        return replace(plan, preparations=preparations)


def has_labels(host: Host, case: Case) -> bool:
    """Return whether a host has all labels that a case requires; its name is the label ``host``."""
    return case.labels.items() <= {**host.labels, "host": host.name}.items()


def other_environment(hosts: Sequence[str], nodes: Sequence[Node]) -> str | None:
    """Describe the host whose framework, Python or lock differs from the majority; None if all match.

    A run over different environments would measure none of them. Unknown values are not compared.
    """
    for fact in (_version, _python, _lock):
        found = [fact(node) for node in nodes]
        known = [value for value in found if value is not None]
        # In a tie the first host decides.
        usual = max(known, key=known.count, default=None)
        for host, value in zip(hosts, found, strict=True):
            if value is not None and value != usual:
                what = f"{value}, but {hosts[found.index(usual)]} has {usual}"
                return f"{host}: has {what}; create the same environment on all hosts (trainmark env create)"
    return None


def _joined(lock: str | None, packages: str) -> str | None:
    """Return the digest of an environment's lock and of the lock of a card's packages, if it has some."""
    if not packages:
        return lock
    both = f"{lock} {packages}".encode()
    return f"sha256:{hashlib.sha256(both).hexdigest()}"


def _version(node: Node) -> str | None:
    one = node.framework
    return f"{one.framework} {one.version}" if one is not None and one.version is not None else None


def _python(node: Node) -> str | None:
    return f"Python {node.framework.python}" if node.framework is not None else None


def _lock(node: Node) -> str | None:
    return f"the environment of lock {node.environment_lock}" if node.environment_lock is not None else None


def user_and_group() -> str:
    """Return the owner of the files that a container writes: this user, as ``uid:gid``."""
    return f"{os.getuid()}:{os.getgid()}"


def _as_interpreter(environment: Environment) -> FrameworkPython:
    return FrameworkPython(environment.python, environment.kind is EnvironmentKind.VENV, environment.env_vars)


def _expected(name: str, home: Path) -> FrameworkPython:
    """Return the interpreter that ``resolve`` would find for the environment ``name``, whether or not it exists."""
    try:
        return _as_interpreter(resolve(name, home=home))
    except UnusableEnvironment:
        ours = carried_extensions(os.environ)
        if os.sep in name:
            return FrameworkPython(Path(name), isolated=False, variables=ours)
        found = {**find_entry(name).env_vars, **ours}
        return FrameworkPython(python_of(folder_of(home, name)), isolated=True, variables=found)


def load_programs(suite: Suite) -> Workloads:
    """Return the workloads that a suite can use; raise ``InputError`` for a card that cannot be used.

    Reading a card does not import log formats and rules, so this function checks before anything runs that the card's
    format, rule and environment exist.
    """
    return load_workloads(map(Path, suite.cards), (program_mistakes,))


def program_mistakes(document: Document) -> Iterator[InputError]:
    """Yield the mistakes in a card's environment, log format and rule."""
    values = document.values
    if not isinstance(values, Mapping):
        return
    yield from _environment(document, values.get("environment"))
    name, rule = values.get(_FORMAT, AUTO_FORMAT), values.get("rule")
    if name == OWN_FORMAT and rule not in (None, "window"):
        yield document.error(
            ("rule",), f"has no effect: {OWN_FORMAT}'s events are always measured by their own window"
        )
        return
    if name != OWN_FORMAT:
        yield from _format(document, name)
        yield from _rule(document, rule, values.get("skip"))


def _environment(document: Document, name: object) -> Iterator[InputError]:
    if not isinstance(name, str) or name in (SYSTEM, *ENGINES) or os.sep in name:
        return
    try:
        find_entry(name)
    except InputError as error:
        yield document.error(("environment",), str(error))


def _rule(document: Document, rule: object, skip: object) -> Iterator[InputError]:
    if not isinstance(rule, str):
        return
    from trainmark.measure.rules import find_rule

    try:
        find_rule(rule, skip if isinstance(skip, int) else None)
    except InputError as error:
        yield document.error(("rule",), str(error))


def _format(document: Document, name: object) -> Iterator[InputError]:
    if isinstance(name, Mapping):
        yield from _description(document, name)
    elif isinstance(name, str) and name != AUTO_FORMAT:
        from trainmark.programs import find_format

        try:
            find_format(name)
        except InputError as error:
            yield document.error((_FORMAT,), str(error))


def _description(document: Document, described: Mapping[str, Any]) -> Iterator[InputError]:
    """Yield the mistakes in a described format, one for each of its keys, with the line of the wrong value."""
    from trainmark.programs.reading import described_format

    held = dict(described)
    # Each round reports one key and gives it a valid value, so that the next mistake shows.
    for _ in range(len(held) + len(_VALID) + 1):
        try:
            described_format(held, _FORMAT, str(document.values.get("name")))
        except InputError as error:
            message = str(error).removeprefix(f"{_FORMAT}: ")
            inner = _key_of(message, held)
            yield InputError(f"{document.where((_FORMAT, *inner))}: {_FORMAT}: {message}")
            if not inner:
                missing = [key for key in _VALID if not held.get(key)]
                if not missing:
                    return
                held |= {key: _VALID[key] for key in missing}
                continue
            name = str(inner[0])
            if name in _VALID and held[name] != _VALID[name]:
                held[name] = _VALID[name]
            else:
                held.pop(name, None)
        else:
            return


def _key_of(message: str, described: Mapping[str, Any]) -> tuple[str | int, ...]:
    """Return the key that a message about a description begins with, as far as the description has it."""
    key: list[str | int] = []
    here: Any = described
    for part in message.split(": "):
        found = _NAME.match(part)
        if found is None:
            break
        if not key and found[1] not in described:
            section = next((name for name, held in described.items() if _has(held, found[1])), None)
            if section is not None:
                key, here = [section], described[section]
        if isinstance(here, Mapping) and found[1] in here:
            key.append(found[1])
            here = here[found[1]]
        else:
            named = re.search(r"'([\w.-]+)'", part)
            if isinstance(here, Mapping) and named is not None and named[1] in here:
                key.append(named[1])
            break
        if found[2] is not None and isinstance(here, list) and int(found[2]) < len(here):
            key.append(int(found[2]))
            here = here[int(found[2])]
    return tuple(key)


def _has(held: Any, name: str) -> bool:
    return isinstance(held, Mapping) and name in held
