"""What a suite asks of its hosts: that its cases can start there, and its environments and data, alike on all."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trainmark.campaign import CannotStart, DataSets, Site, first_plan, load_programs
from trainmark.campaign.transfer import MOST_BYTES
from trainmark.check.formatting import shared, size
from trainmark.check.rules import Need
from trainmark.environment import SYSTEM
from trainmark.environment.engine import ENGINES, Engine, require_engine
from trainmark.environment.remote_probe import ProbedEnvironment, probe_environment
from trainmark.errors import TrainmarkError
from trainmark.execution import ResultDirectory
from trainmark.node import Host, map_hosts, probe_runner, remote_path
from trainmark.placement import FrameworkPython, device_of
from trainmark.schema.case import SYNTHETIC, Device
from trainmark.schema.check import CheckFinding, Level
from trainmark.schema.suite import EACH_ITS_OWN, Suite


@dataclass(slots=True)
class Suited:
    """What came of looking at a suite: findings, and what to measure with and on.

    ``interpreter`` is None where none of the suite's environments can be used.
    """

    findings: list[CheckFinding] = field(default_factory=list)
    interpreter: FrameworkPython | None = None
    device: Device = Device.CPU


def need_of(suite: Suite) -> Need:
    """Return what a suite asks of each host."""
    return Need(
        ranks=max(case.devices_per_node for case in suite.cases),
        memory=suite.limits.memory,
        reads_data=any(case.data != SYNTHETIC for case in suite.cases),
    )


def look_at_suite(suite: Suite, hosts: Sequence[Host], home: Path, out: Path, timeout_s: float) -> Suited:
    """Return what the hosts lack for a suite; its frameworks are imported once on each."""
    suited = Suited()
    names = tuple(host.name for host in hosts)
    try:
        site = Site(suite, load_programs(suite), hosts, home)
        for case in suite.cases:
            site.workload(case)
    except (OSError, TrainmarkError) as error:
        suited.findings.append(_finding("cases", Level.FAILURE, names, str(error)))
        return suited
    suited.findings += _cases(suite, site, out, names)
    usable = _environments(suite, site, home, timeout_s, suited)
    suited.findings += _data(suite, site, home)
    on_gpu = any(device_of(case, site.machine) is Device.CUDA for case in suite.cases)
    suited.device = Device.CUDA if on_gpu else Device.CPU
    # PyTorch's collectives can be timed; the other environments have numpy.
    suited.interpreter = usable.get("pytorch") or next(iter(usable.values()), None)
    return suited


def _cases(suite: Suite, site: Site, out: Path, names: tuple[str, ...]) -> Iterator[CheckFinding]:
    """Give one finding for each reason why cases cannot start, or one that all can."""
    reasons: Counter[str] = Counter()
    for case in suite.cases:
        try:
            plan = first_plan(site, suite.protocol, case, ResultDirectory(out.absolute()))
            reason = plan.reason if isinstance(plan, CannotStart) else plan.cannot_run
        except TrainmarkError as error:
            reason = str(error)
        if reason is not None:
            reasons[reason] += 1
    count = len(suite.cases)
    if not reasons:
        yield _finding("cases", Level.OK, names, f"all {count} cases of {suite.name} can be started here")
    for reason, cases in reasons.items():
        found = f"{cases} of {count} cases of {suite.name} cannot be started: {reason}"
        yield _finding(
            "cases", Level.FAILURE, names, found, "give what is missing, or leave them out (--only)"
        )


def _environments(
    suite: Suite, site: Site, home: Path, timeout_s: float, suited: Suited
) -> dict[str, FrameworkPython]:
    """Look at each environment on each host; return the interpreters that all have, by framework."""
    usable: dict[str, FrameworkPython] = {}
    seen: set[tuple[str, str]] = set()
    for case in suite.cases:
        card = site.workload(case).card
        asked = suite.environment_of(case.framework)
        name = card.environment if asked == EACH_ITS_OWN else asked
        if (name, card.framework) in seen:
            continue
        seen.add((name, card.framework))
        if name in ENGINES:
            suited.findings += _engines(Engine(name), site.hosts)
            continue
        answers = map_hosts(site.hosts, lambda host: _probed(name, card.framework, home, host, timeout_s))  # noqa: B023
        probed: dict[str, ProbedEnvironment] = {}
        for host, answer in zip(site.hosts, answers, strict=True):
            if isinstance(answer, ProbedEnvironment):
                probed[host.name] = answer
                continue
            make = None if "trainmark env create" in answer else f"trainmark env create {name}, on that host"
            suited.findings.append(_finding("environment", Level.FAILURE, (host.name,), answer, make))
        suited.findings += _alike(name, card.framework, probed)
        interpreter = site.expected_interpreter(case)
        if len(probed) == len(site.hosts) and isinstance(interpreter, FrameworkPython):
            usable[case.framework] = interpreter
    return usable


def _probed(name: str, framework: str, home: Path, host: Host, timeout_s: float) -> ProbedEnvironment | str:
    """Return what an environment is on a host, or why it cannot be used there."""
    try:
        return probe_environment(name, framework, home, probe_runner(host, timeout_s))
    except TrainmarkError as error:
        return str(error)
    except (OSError, ValueError):
        return f"environment '{name}' cannot be asked"


def _alike(name: str, framework: str, probed: Mapping[str, ProbedEnvironment]) -> Iterator[CheckFinding]:
    remedy = f"trainmark env create {name}, on the hosts that differ"
    versions = {
        host: f"{framework} {found.versions.version} (Python {found.versions.python})"
        for host, found in probed.items()
        if found.versions is not None
    }
    yield from shared("framework", versions, remedy)
    if name != SYSTEM:
        locks = {host: (found.lock_digest or "none")[:19] for host, found in probed.items()}
        yield from shared("environment", locks, remedy, what=f"{name}, lock")


def _engines(engine: Engine, hosts: Sequence[Host]) -> Iterator[CheckFinding]:
    versions = {}
    for host in hosts:
        try:
            versions[host.name] = f"{engine} {require_engine(engine, host)}"
        except TrainmarkError as error:
            yield _finding("engine", Level.FAILURE, (host.name,), str(error))
    yield from shared("engine", versions, "install the same version on all hosts", Level.WARNING)


def _data(suite: Suite, site: Site, home: Path) -> Iterator[CheckFinding]:
    """Give what is to be said of each data set in each form that cases take."""
    sets = DataSets(suite.datasets, home, site.machine.cores)
    wanted = {
        (case.data, site.workload(case).card.data_format(case.loader)): case
        for case in suite.cases
        if case.data != SYNTHETIC
    }
    for (name, form), case in wanted.items():
        hosts = site.hosts_of(case)
        try:
            folder = sets.location(name, form)
            dataset = suite.datasets[name]
            makes = dataset.make is not None or (dataset.path is not None and Path(dataset.path).exists())
            yield from _placed(f"data set '{name}' ({form})", folder, hosts, makes)
        except (OSError, TrainmarkError) as error:
            names = tuple(host.name for host in hosts)
            yield _finding("data", Level.FAILURE, names, f"data set '{name}': {error}")


def _placed(what: str, folder: Path, hosts: Sequence[Host], makes: bool) -> Iterator[CheckFinding]:
    """Say where a data set is: a run makes or converts here what it can, and sends hosts what they lack of it."""
    names = tuple(host.name for host in hosts)
    has = map_hosts(hosts, lambda host: host.has(remote_path(host.paths, folder)))
    there = [host for host, found in zip(hosts, has, strict=True) if found]
    lacking = tuple(host.name for host in hosts if host not in there)
    if not folder.exists():
        if makes:
            found = f"{what} is not there yet: the run makes it, in {folder}"
            yield _finding("data", Level.NOTE, names, found)
        else:
            remedy = f"bring it there; the run looks in {folder}, on the machine that starts it"
            yield _finding("data", Level.FAILURE, lacking or names, f"{what} is not there", remedy)
        return
    if lacking:
        held = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        if held <= MOST_BYTES:
            found = f"{what} is not there yet: the run sends it, {size(held)}"
            yield _finding("data", Level.NOTE, lacking, found)
        else:
            found = f"{what} is not there, and {size(held)} are too much to be sent"
            yield _finding("data", Level.FAILURE, lacking, found, f"copy {folder} there")
    if there:
        yield from _same_data(what, folder, there)


def _same_data(what: str, folder: Path, hosts: Sequence[Host]) -> Iterator[CheckFinding]:
    """Hold the files of a data set on each host against those on the first; on one host there is nothing to read."""
    names = tuple(host.name for host in hosts)
    if len(hosts) == 1:
        yield _finding("data", Level.OK, names, f"{what} is there")
        return
    first, *others = map_hosts(hosts, lambda host: host.digests(remote_path(host.paths, folder)))
    alike = [names[0]]
    for name, files in zip(names[1:], others, strict=True):
        wrong = sorted(path for path in first.keys() | files.keys() if first.get(path) != files.get(path))
        if not wrong:
            alike.append(name)
            continue
        found = f"{what} differs in {len(wrong)} of {len(first.keys() | files.keys())} files: {wrong[0]}"
        yield CheckFinding(
            check="data",
            level=Level.FAILURE,
            hosts=(name,),
            found=found,
            others=f"{names[0]}: {len(first)} files",
            remedy=f"copy {folder} from {names[0]} again",
        )
    yield _finding("data", Level.OK, tuple(alike), f"{what} is there: {len(first)} files")


def _finding(
    check: str, level: Level, hosts: tuple[str, ...], found: str, remedy: str | None = None
) -> CheckFinding:
    return CheckFinding(check=check, level=level, hosts=hosts, found=found, remedy=remedy)
