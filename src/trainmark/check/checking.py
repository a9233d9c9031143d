"""The steps of a check: reach the hosts, take snapshots, compare, measure. Nothing on the hosts is changed."""

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from trainmark.check.bandwidth import (
    ROUNDS,
    SpeedResults,
    Target,
    compare_speeds,
    measure_devices,
    reduce_all,
)
from trainmark.check.formatting import merge_findings
from trainmark.check.network import NetworkResults, check_network
from trainmark.check.preflight_suite import SuiteCheck, check_suite, requirements_of
from trainmark.check.probe import Probe, run_probes
from trainmark.check.rules import Requirements, check_rules
from trainmark.check.snapshot import HostSnapshot
from trainmark.environment import SYSTEM, Environment, EnvironmentKind, UnusableEnvironment, resolve
from trainmark.errors import TrainmarkError
from trainmark.node import Host, map_hosts, remedy_of, remote_path
from trainmark.placement import FrameworkPython
from trainmark.schema.case import Device
from trainmark.schema.check import CheckFinding, CheckReport, Level, Timing
from trainmark.schema.manifest import Node
from trainmark.schema.plan import Command
from trainmark.schema.suite import Suite
from trainmark.version import __version__


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Timeouts in seconds: for a host's answer, and for importing a framework or measuring one round."""

    answer_s: float = 60.0
    framework_s: float = 300.0


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """The hosts to check and the suite, if any; ``home`` is trainmark's folder, ``out`` that of the results.

    ``rounds`` are the minimum and the maximum number of timing rounds when several devices are compared.
    """

    hosts: Sequence[Host]
    home: Path
    out: Path
    suite: Suite | None = None
    timeouts: Timeouts = Timeouts()
    rounds: tuple[int, int] = ROUNDS


def check_hosts(options: CheckOptions, progress: Callable[[str], object] = lambda _text: None) -> CheckReport:
    """Return the report on the hosts; ``progress`` is called with a message at each step.

    A host that cannot be probed becomes a finding, and the other hosts are still checked.
    """
    checked = datetime.now(UTC)
    findings: list[CheckFinding] = []
    suite, timeouts = options.suite, options.timeouts
    progress("inspecting the hosts")
    snapshots = _snapshots(options, findings)
    nodes = _nodes([host for host in options.hosts if host.name in snapshots], findings)
    hosts = [host for host in options.hosts if host.name in nodes]
    requirements = requirements_of(suite) if suite is not None else Requirements()
    interfaces = {host.name: host.interface for host in hosts}
    findings += check_rules(
        {host.name: snapshots[host.name] for host in hosts}, nodes, interfaces, requirements
    )
    if suite is None:
        suite_check = _without_suite(options.home, hosts, nodes)
    elif hosts:
        progress("checking environments and data")
        missing = tuple(host.name for host in options.hosts if host.name not in nodes)
        suite_check = check_suite(suite, hosts, options.home, options.out, timeouts.framework_s, missing)
    else:
        suite_check = SuiteCheck()
    findings += suite_check.findings
    network, speeds = NetworkResults(), SpeedResults()
    if len(hosts) > 1:
        progress("measuring the network between the hosts")
        network = check_network(hosts, timeouts.answer_s)
    elif (note := _not_compared(options, hosts)) is not None:
        findings.append(note)
    if hosts and suite_check.interpreter is not None and suite_check.interpreter.container is None:
        targets = _targets(hosts, snapshots, suite_check, suite_check.interpreter)
        precisions = suite_check.precisions
        measure_devices(targets, precisions, options.rounds, timeouts.framework_s, progress, speeds)
        measured = [target for target in targets if target.host.name in speeds.measured_with]
        ranks = (
            len(measured[0].devices) if measured and suite_check.device is Device.CUDA else requirements.ranks
        )
        progress("measuring an all-reduce")
        reduce_all(measured, ranks, timeouts.framework_s, speeds)
    timings: list[Timing] = [*speeds.timings, *network.timings]
    findings += [*network.findings, *speeds.findings, *compare_speeds(timings)]
    return CheckReport(
        checked=checked,
        trainmark=__version__,
        suite=None if suite is None else suite.name,
        hosts=tuple(host.name for host in options.hosts),
        findings=tuple(merge_findings(findings)),
        timings=tuple(timings),
        reductions=tuple(speeds.reductions),
        clocks=tuple(network.clocks),
        measured_with=tuple(dict.fromkeys(speeds.measured_with.values())),
    )


def _snapshots(options: CheckOptions, findings: list[CheckFinding]) -> dict[str, HostSnapshot]:
    """Return the snapshot that each host's trainmark takes; add a finding for each host without one."""
    problems = dict(zip(options.hosts, map_hosts(options.hosts, _unreachable), strict=True))
    reachable = [host for host in options.hosts if problems[host] is None]
    snapshots: dict[str, HostSnapshot] = {}
    answers = run_probes([_snapshot_probe(options, host) for host in reachable], options.timeouts.answer_s)
    for host, answer in zip(reachable, answers, strict=True):
        problems[host] = answer.problem
        if answer.problem is None:
            try:
                snapshots[host.name] = HostSnapshot.model_validate(answer.value)
            except ValueError:
                problems[host] = "its output cannot be parsed"
    for host, problem in problems.items():
        if problem is not None:
            remedy = remedy_of(problem)
            reason = problem.removeprefix(f"{host.name}: ").removesuffix(f"; {remedy}")
            findings.append(
                CheckFinding(
                    check="reachable",
                    level=Level.FAILURE,
                    hosts=(host.name,),
                    found=f"the host cannot be inspected: {reason}",
                    remedy=remedy,
                )
            )
    if snapshots:
        findings.append(
            CheckFinding(check="reachable", level=Level.OK, hosts=tuple(snapshots), found="answers")
        )
    return snapshots


def _not_compared(options: CheckOptions, hosts: Sequence[Host]) -> CheckFinding | None:
    """Return a note on the checks between hosts that could not be made, as fewer than two of several answer."""
    if len(options.hosts) < 2 or len(hosts) > 1:
        return None
    names = tuple(host.name for host in options.hosts)
    found = (
        "not checked: ports, clocks, links and the all-reduce need two hosts, but only "
        f"{len(hosts)} can be inspected"
    )
    return CheckFinding(
        check="network",
        level=Level.NOTE,
        hosts=names,
        found=found,
        remedy="check again when more hosts answer",
    )


def _unreachable(host: Host) -> str | None:
    try:
        return host.unreachable()
    except (OSError, TrainmarkError) as error:
        return str(error)


def _snapshot_probe(options: CheckOptions, host: Host) -> Probe:
    python = remote_path(host.paths, Path(sys.executable))
    folders = list(dict.fromkeys(str(folder) for folder in _folders(options, host)))
    words = (str(python), "-m", "trainmark.check.snapshot", json.dumps({"folders": folders}))
    return Probe(host, (Command(0, words, {}),))


def _folders(options: CheckOptions, host: Host) -> tuple[Path, Path]:
    """Return the folders of runs and of trainmark's own data on a host."""
    out = options.out.absolute()
    reachable = remote_path(host.paths, out) if host.folder is None else host.folder
    return reachable, remote_path(host.paths, options.home.absolute())


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
                    found=f"its hardware and software cannot be read: {error}",
                )
            )
    return nodes


def _without_suite(home: Path, hosts: Sequence[Host], nodes: dict[str, Node]) -> SuiteCheck:
    """Return the interpreter to measure with: PyTorch's environment if all hosts have it, else trainmark's Python."""
    gpus = bool(nodes) and all(node.accelerators.gpus for node in nodes.values())
    device = Device.CUDA if gpus else Device.CPU
    with suppress(UnusableEnvironment, OSError, TrainmarkError):
        environment = resolve("pytorch", home=home)
        if all(map_hosts(hosts, lambda host: host.has(remote_path(host.paths, environment.python)))):
            return SuiteCheck(interpreter=_python(environment), device=device)
    return SuiteCheck(interpreter=_python(resolve(SYSTEM, home=home)), device=device)


def _python(environment: Environment) -> FrameworkPython:
    return FrameworkPython(environment.python, environment.kind is EnvironmentKind.VENV, environment.env_vars)


def _targets(
    hosts: Sequence[Host],
    snapshots: dict[str, HostSnapshot],
    suite_check: SuiteCheck,
    interpreter: FrameworkPython,
) -> list[Target]:
    """Return the devices to measure on each host: its usable GPUs, or else the CPU."""
    targets = []
    for host in hosts:
        devices: tuple[str, ...] = ("cpu",)
        if suite_check.device is Device.CUDA:
            devices = tuple(f"cuda:{place}" for place in range(host.machine().gpus)) or devices
        targets.append(Target(host, snapshots[host.name], interpreter, devices))
    return targets
