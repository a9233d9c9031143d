"""Input of a run's plan: the case, its program, its hosts, the protocol, and its folders."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from trainmark.environment.packages import PackageLock
from trainmark.environment.resolving import Engine
from trainmark.node import Paths, remote_path
from trainmark.schema.case import SYNTHETIC, Case, Device
from trainmark.schema.hosts import PLAIN, Traffic
from trainmark.schema.plan import NodeResources
from trainmark.schema.suite import Launcher, Protocol
from trainmark.workload import BuiltinSource, Card, GitSource, Image, Workload

RENDEZVOUS_PORT = 29400


@dataclass(frozen=True, slots=True)
class Container:
    """An image and the engine that starts containers of it.

    ``image`` is an image's name, or the file of an Apptainer image. ``user`` (``uid:gid``) owns the files that a
    container writes.
    """

    engine: Engine
    image: str
    description: Image
    user: str


@dataclass(frozen=True, slots=True)
class FrameworkPython:
    """The Python of the framework's environment.

    ``variables`` are added to the process's environment. An isolated interpreter has all of its packages itself and
    ignores the caller's ``PYTHONPATH`` and user site. With a ``container`` the interpreter is the container's.
    ``packages`` are those that the card adds; ``python`` is then the interpreter that has them. ``unresolved`` are the
    card's requirements as long as ``python`` is missing: which versions fit it is unknown until it is made.
    """

    python: Path
    isolated: bool
    variables: Mapping[str, str] = field(default_factory=dict)
    container: Container | None = None
    packages: PackageLock | None = None
    unresolved: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlacementHost:
    """A host for placement: its name, its address for others, its devices, and its folders.

    ``paths`` maps local folders to their paths on the host. Runs are in ``folder``, by default where ``paths`` map
    them.
    """

    machine: NodeResources
    name: str = "localhost"
    address: str = "127.0.0.1"
    folder: Path | None = None
    paths: Paths = ()
    interface: str | None = None
    traffic: Traffic = PLAIN

    def directory(self, run: Path) -> Path:
        """Return the folder of a run on this host; ``run`` is its folder here."""
        if self.folder is None:
            return remote_path(self.paths, run)
        return self.folder.joinpath(*run.absolute().parts[1:])


@dataclass(frozen=True)
class RunSpec:
    """Everything that determines the plan of one run of a case.

    ``hosts`` are the known hosts, in the order of the nodes. ``repeat`` counts from 1, ``directory`` is the run's
    folder, ``data`` the path of its training samples. ``port`` is the port of the rendezvous; the following ports are
    for frameworks whose ranks each listen on one. ``dataset`` is the folder of the whole data set, ``prepared`` the one
    for the results of the card's prepare steps, ``compile_cache`` the one for compiled programs. ``more_words`` follow
    the program's own.
    ``started_by`` replaces the launcher that the card of a built-in worker names.
    """

    case: Case
    workload: Workload
    interpreter: FrameworkPython
    hosts: tuple[PlacementHost, ...]
    protocol: Protocol
    repeat: int
    directory: Path
    data: str
    port: int = RENDEZVOUS_PORT
    dataset: str = SYNTHETIC
    prepared: Path = Path()
    compile_cache: Path = Path()
    more_words: tuple[str, ...] = ()
    started_by: Launcher | None = None

    @cached_property
    def launcher(self) -> Launcher:
        """The launcher of the ranks: the suite's for the built-in workers, else the card's."""
        if self.started_by is not None and self.is_built_in:
            return self.started_by
        return self.workload.card.launcher

    @cached_property
    def is_built_in(self) -> bool:
        """True if the program is a built-in worker."""
        return isinstance(self.card.source, BuiltinSource)

    @cached_property
    def needs_preparation(self) -> bool:
        """True if something must be prepared for the runs: packages, a repository, prepare steps or an image."""
        of_program = isinstance(self.card.source, GitSource) or bool(self.card.steps)
        return of_program or self.interpreter.container is not None or self.interpreter.packages is not None

    @property
    def card(self) -> Card:
        """The card of the workload."""
        return self.workload.card

    @cached_property
    def device(self) -> Device:
        """The device of a rank, never ``auto``."""
        return device_of(self.case, self.machine(0))

    def host(self, node: int) -> PlacementHost:
        """Return the host of a node; an unknown one has a placeholder as its name and is assumed to equal the first."""
        if self.case.nodes <= len(self.hosts):
            return self.hosts[node]
        return PlacementHost(self.machine(node), f"NODE{node}", f"NODE{node}")

    def machine(self, node: int) -> NodeResources:
        """Return the resources of a node."""
        return self.hosts[node if node < len(self.hosts) else 0].machine

    def directory_on(self, node: int) -> Path:
        """Return the run's folder on a node."""
        return self.host(node).directory(self.directory)

    def on(self, node: int) -> "RunSpec":
        """Return the spec with the node's own paths of program, interpreter, data and made files."""
        paths = self.host(node).paths
        if not paths:
            return self
        inner, container = self.interpreter, self.interpreter.container
        if container is None:
            inner = replace(inner, python=remote_path(paths, inner.python))
        elif container.engine is Engine.APPTAINER:
            image = str(remote_path(paths, Path(container.image)))
            inner = replace(inner, container=replace(container, image=image))
        source = remote_path(paths, Path(self.workload.source))
        return replace(
            self,
            interpreter=inner,
            workload=replace(self.workload, source=source),
            data=_data_there(paths, self.data),
            dataset=_data_there(paths, self.dataset),
            prepared=remote_path(paths, self.prepared),
            compile_cache=remote_path(paths, self.compile_cache),
        )

    @cached_property
    def addresses(self) -> tuple[str, ...]:
        """The addresses of the nodes; a single node uses the loopback."""
        if self.case.nodes == 1:
            return ("127.0.0.1",)
        return tuple(self.host(node).address for node in range(self.case.nodes))


def _data_there(paths: Paths, data: str) -> str:
    return data if data == SYNTHETIC else str(remote_path(paths, Path(data)))


def device_of(case: Case, machine: NodeResources) -> Device:
    """Return the device of the case's ranks on this machine; never ``auto``."""
    if case.device is not Device.AUTO:
        return case.device
    return Device.CUDA if machine.gpus else Device.CPU


def place_of(case: Case) -> tuple[object, ...]:
    """Return the values on the axes that decide where and by which program a case runs.

    On the other axes, cases differ only in words of the program's command.
    """
    return (
        case.workload,
        case.framework,
        case.task,
        case.data,
        case.loader,
        str(case.options),
        case.nodes,
        case.devices_per_node,
        case.device,
        case.where,
    )
