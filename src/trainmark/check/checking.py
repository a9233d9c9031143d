"""The check put together: reach the hosts, look, compare, measure. Nothing is installed or changed on any of them."""

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from trainmark import __version__
from trainmark.check.bandwidth import ROUNDS, Speeds, Station, judge_speeds, measure_devices, reduce_all
from trainmark.check.formatting import joined
from trainmark.check.network import Network, check_network
from trainmark.check.preflight_suite import Suited, look_at_suite, need_of
from trainmark.check.probe import Question, ask_all
from trainmark.check.rules import Need, judge
from trainmark.check.snapshot import HostLook
from trainmark.environment import SYSTEM, Environment, EnvironmentKind, UnusableEnvironment, resolve
from trainmark.errors import TrainmarkError
from trainmark.node import Host, map_hosts, remote_path
from trainmark.placement import FrameworkPython
from trainmark.schema.case import Device
from trainmark.schema.check import CheckFinding, CheckReport, Level, Timing
from trainmark.schema.manifest import Node
from trainmark.schema.plan import Command
from trainmark.schema.suite import Suite


@dataclass(frozen=True, slots=True)
class Patience:
    """How long, in seconds, a host may take to answer, and how long to import a framework or measure one round."""

    answer_s: float = 60.0
    framework_s: float = 300.0


@dataclass(frozen=True, slots=True)
class CheckOrder:
    """What to check: the hosts, for a suite or for none; ``home`` is trainmark's own folder, ``out`` the results'.

    ``rounds`` are how often each device is timed where there are several to compare: at least, and at most.
    """

    hosts: Sequence[Host]
    home: Path
    out: Path
    suite: Suite | None = None
    patience: Patience = Patience()
    rounds: tuple[int, int] = ROUNDS


def check_hosts(order: CheckOrder, tell: Callable[[str], object] = lambda _text: None) -> CheckReport:
    """Return what was found of the hosts; ``tell`` hears what goes on.

    What cannot be asked is a finding, and the rest is looked at all the same.
    """
    checked = datetime.now(UTC)
    findings: list[CheckFinding] = []
    suite, patience = order.suite, order.patience
    tell("looking at the hosts")
    looks = _looks(order, findings)
    nodes = _nodes([host for host in order.hosts if host.name in looks], findings)
    hosts = [host for host in order.hosts if host.name in nodes]
    need = need_of(suite) if suite is not None else Need()
    interfaces = {host.name: host.interface for host in hosts}
    findings += judge({host.name: looks[host.name] for host in hosts}, nodes, interfaces, need)
    if suite is None:
        suited = _without_suite(order.home, hosts, nodes)
    elif hosts:
        tell("looking at environments and data")
        suited = look_at_suite(suite, hosts, order.home, order.out, patience.framework_s)
    else:
        suited = Suited()
    findings += suited.findings
    network, speeds = Network(), Speeds()
    if len(hosts) > 1:
        tell("looking at the network between the hosts")
        network = check_network(hosts, patience.answer_s)
    if hosts and suited.interpreter is not None and suited.interpreter.container is None:
        stations = _stations(hosts, looks, suited, suited.interpreter)
        measure_devices(stations, order.rounds, patience.framework_s, tell, speeds)
        measured = [station for station in stations if station.host.name in speeds.measured_with]
        ranks = len(measured[0].devices) if measured and suited.device is Device.CUDA else need.ranks
        tell("measuring an all-reduce")
        reduce_all(measured, ranks, patience.framework_s, speeds)
    timings: list[Timing] = [*speeds.timings, *network.timings]
    findings += [*network.findings, *speeds.findings, *judge_speeds(timings)]
    return CheckReport(
        checked=checked,
        trainmark=__version__,
        suite=None if suite is None else suite.name,
        hosts=tuple(host.name for host in order.hosts),
        findings=tuple(joined(findings)),
        timings=tuple(timings),
        reductions=tuple(speeds.reductions),
        clocks=tuple(network.clocks),
        measured_with=tuple(dict.fromkeys(speeds.measured_with.values())),
    )


def _looks(order: CheckOrder, findings: list[CheckFinding]) -> dict[str, HostLook]:
    """Ask every host's own trainmark what it sees; name those that give no answer."""
    problems = dict(zip(order.hosts, map_hosts(order.hosts, _unreachable), strict=True))
    there = [host for host in order.hosts if problems[host] is None]
    looks: dict[str, HostLook] = {}
    answers = ask_all([_question(order, host) for host in there], order.patience.answer_s)
    for host, answer in zip(there, answers, strict=True):
        problems[host] = answer.problem
        if answer.problem is None:
            try:
                looks[host.name] = HostLook.model_validate(answer.value)
            except ValueError:
                problems[host] = "its answer cannot be read"
    for host, problem in problems.items():
        if problem is not None:
            findings.append(
                CheckFinding(
                    check="reachable",
                    level=Level.FAILURE,
                    hosts=(host.name,),
                    found=f"it cannot be asked: {problem.removeprefix(f'{host.name}: ')}",
                    remedy="see that it is up and can be reached, and that the same trainmark is installed there",
                )
            )
    if looks:
        findings.append(CheckFinding(check="reachable", level=Level.OK, hosts=tuple(looks), found="answers"))
    return looks


def _unreachable(host: Host) -> str | None:
    try:
        return host.unreachable()
    except (OSError, TrainmarkError) as error:
        return str(error)


def _question(order: CheckOrder, host: Host) -> Question:
    python = remote_path(host.paths, Path(sys.executable))
    folders = list(dict.fromkeys(str(folder) for folder in _folders(order, host)))
    words = (str(python), "-m", "trainmark.check.snapshot", json.dumps({"folders": folders}))
    return Question(host, (Command(0, words, {}),))


def _folders(order: CheckOrder, host: Host) -> tuple[Path, Path]:
    """Return where runs and what trainmark keeps lie on a host."""
    out = order.out.absolute()
    there = remote_path(host.paths, out) if host.folder is None else host.folder
    return there, remote_path(host.paths, order.home.absolute())


def _nodes(hosts: Sequence[Host], findings: list[CheckFinding]) -> dict[str, Node]:
    nodes: dict[str, Node] = {}
    for host in hosts:
        try:
            nodes[host.name] = host.facts(None, None, None)
        except (OSError, ValueError, TrainmarkError) as error:
            findings.append(
                CheckFinding(
                    check="reachable",
                    level=Level.FAILURE,
                    hosts=(host.name,),
                    found=f"it does not say what it is: {error}",
                )
            )
    return nodes


def _without_suite(home: Path, hosts: Sequence[Host], nodes: dict[str, Node]) -> Suited:
    """Without a suite PyTorch's environment is measured with where all have it, else the Python that runs trainmark."""
    gpus = bool(nodes) and all(node.accelerators.gpus for node in nodes.values())
    device = Device.CUDA if gpus else Device.CPU
    with suppress(UnusableEnvironment, OSError, TrainmarkError):
        environment = resolve("pytorch", home=home)
        if all(map_hosts(hosts, lambda host: host.has(remote_path(host.paths, environment.python)))):
            return Suited(interpreter=_python(environment), device=device)
    return Suited(interpreter=_python(resolve(SYSTEM, home=home)), device=device)


def _python(environment: Environment) -> FrameworkPython:
    return FrameworkPython(environment.python, environment.kind is EnvironmentKind.VENV, environment.env_vars)


def _stations(
    hosts: Sequence[Host], looks: dict[str, HostLook], suited: Suited, interpreter: FrameworkPython
) -> list[Station]:
    """Return where to measure what: on GPUs each one that may be used, else the CPU."""
    stations = []
    for host in hosts:
        devices: tuple[str, ...] = ("cpu",)
        if suited.device is Device.CUDA:
            devices = tuple(f"cuda:{place}" for place in range(host.machine().gpus)) or devices
        stations.append(Station(host, looks[host.name], interpreter, devices))
    return stations
