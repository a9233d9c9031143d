"""Check of a suite's requirements: its cases can start, and its environments and data are the same on all hosts."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from trainmark.campaign import (
    CannotStart,
    DataSets,
    FirstPlans,
    RunEnvironment,
    can_be_timed,
    cases_over_limit,
    load_programs,
    time_steps,
)
from trainmark.campaign.transfer import MOST_BYTES
from trainmark.check.formatting import compare_values, size
from trainmark.check.rules import Requirements
from trainmark.environment import SYSTEM
from trainmark.environment.resolving import (
    ENGINES,
    Engine,
    ProbedEnvironment,
    probe_environment,
    require_engine,
)
from trainmark.errors import TrainmarkError
from trainmark.execution import ResultDirectory
from trainmark.measure.statistics import MIN_RUNS
from trainmark.node import Host, LocalHost, map_hosts, probe_runner, remote_path
from trainmark.placement import FrameworkPython, device_of
from trainmark.schema.case import Case, Device
from trainmark.schema.check import CheckFinding, Level
from trainmark.schema.precision import Precision, UnknownPrecision
from trainmark.schema.suite import EACH_ITS_OWN, Suite

_MOST_TIMED = 5
"""The largest number of cases that a check times."""


@dataclass(slots=True)
class SuiteCheck:
    """The result of checking a suite: findings, and the interpreter, device and precisions to measure with.

    ``interpreter`` is None if none of the suite's environments can be used.
    """

    findings: list[CheckFinding] = field(default_factory=list)
    interpreter: FrameworkPython | None = None
    device: Device = Device.CPU
    precisions: tuple[Precision, ...] = (Precision.FP32,)


def requirements_of(suite: Suite) -> Requirements:
    """Return a suite's requirements for each host."""
    return Requirements(
        ranks=max(case.devices_per_node for case in suite.cases),
        memory=suite.limits.memory,
        reads_data=any(case.reads_data_set for case in suite.cases),
    )


def check_suite(
    suite: Suite,
    hosts: Sequence[Host],
    home: Path,
    out: Path,
    timeout_s: float,
    missing: tuple[str, ...] = (),
) -> SuiteCheck:
    """Return the findings on a suite's requirements; its frameworks are imported once on each host.

    ``missing`` are the names of further hosts, which could not be inspected.
    """
    suite_check = SuiteCheck()
    names = tuple(host.name for host in hosts)
    try:
        site = RunEnvironment(suite, load_programs(suite), hosts, home)
        for case in suite.cases:
            site.workload(case)
    except (OSError, TrainmarkError) as error:
        suite_check.findings.append(_finding("cases", Level.FAILURE, names, str(error)))
        return suite_check
    suite_check.findings += _cases(suite, site, out, names, missing)
    suite_check.findings += [
        _finding("cases", Level.WARNING, names, f"{case} cannot end in time: {reason}")
        for case, reason in cases_over_limit(suite, out).items()
    ]
    suite_check.findings += _timed_cases(suite, site, out, names)
    suite_check.findings += _requirements(suite, names)
    usable = _environments(suite, site, home, timeout_s, suite_check)
    suite_check.findings += _data(suite, site, home)
    if any(one.level is Level.FAILURE for one in suite_check.findings):
        # No case starts without its environment and data, so "all cases can be started" would contradict them.
        suite_check.findings = [
            one for one in suite_check.findings if (one.check, one.level) != ("cases", Level.OK)
        ]
    on_gpu = any(device_of(case, site.machine) is Device.CUDA for case in suite.cases)
    suite_check.device = Device.CUDA if on_gpu else Device.CPU
    suite_check.precisions = tuple(
        dict.fromkeys(
            Precision.FP32 if isinstance(case.precision, UnknownPrecision) else case.precision.of_products
            for case in suite.cases
        )
    )
    # PyTorch's collectives can be timed; the other environments have numpy.
    suite_check.interpreter = usable.get("pytorch") or next(iter(usable.values()), None)
    return suite_check


def _cases(
    suite: Suite, site: RunEnvironment, out: Path, names: tuple[str, ...], missing: tuple[str, ...]
) -> Iterator[CheckFinding]:
    """Yield one finding for each reason why cases cannot start, or one if all can."""
    reasons: Counter[str] = Counter()
    plans = FirstPlans(site, suite.protocol, ResultDirectory(out.absolute()))
    for case in suite.cases:
        try:
            plan = plans.plan(case)
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
        remedy = "provide what is missing, or exclude these cases (--only)"
        if missing:
            remedy = f"first mend {', '.join(missing)}, which cannot be inspected; then {remedy}"
        yield _finding("cases", Level.FAILURE, names, found, remedy)


def _requirements(suite: Suite, names: tuple[str, ...]) -> Iterator[CheckFinding]:
    """Yield a warning if the protocol has too few runs for an interval, by which alone a requirement is decided."""
    most = suite.protocol.max_repeats
    if suite.require and most < MIN_RUNS:
        found = (
            f"the suite requires values, but cannot decide them: an interval needs {MIN_RUNS} runs of a "
            f"case, and the protocol has at most {most}"
        )
        remedy = f"write protocol: {{repeats: {MIN_RUNS}}} or more, 5 for example"
        yield _finding("require", Level.WARNING, names, found, remedy)


def _timed_cases(
    suite: Suite, site: RunEnvironment, out: Path, names: tuple[str, ...]
) -> Iterator[CheckFinding]:
    """Yield whether cases of other projects' programs end in time, by short runs, if the suite sets a limit of time."""
    if "timeout_s" not in suite.limits.model_fields_set or not isinstance(site.hosts[0], LocalHost):
        return
    directory, limit_s = ResultDirectory(out.absolute()), suite.limits.timeout_s
    cases = [
        case
        for case in suite.cases
        if can_be_timed(case, site.workload(case).card) and not directory.run(case, 1).exists()
    ]
    for case in cases[:_MOST_TIMED]:
        with TemporaryDirectory(prefix="trainmark-check-") as folder:
            timed = time_steps(case, site, suite.protocol, suite.limits, Path(folder, "run"))
        if timed is None:
            continue
        if timed.step_s is None:
            yield _finding("time", Level.OK, names, f"{case.id} ended in a short run")
        elif timed.run_s is None or timed.steps is None:
            found = f"{case.id} takes {timed.step_s:.3g} s per step; its number of steps is unknown"
            remedy = f"pass {{steps}} to the program, or check that it ends within {limit_s:g} s (limits.timeout_s)"
            yield _finding("time", Level.NOTE, names, found, remedy)
        else:
            what = f"at {timed.step_s:.3g} s per step, its {timed.steps} steps take about {timed.run_s:.0f} s"
            in_time = timed.run_s <= limit_s
            yield _finding(
                "time",
                Level.OK if in_time else Level.WARNING,
                names,
                f"{case.id} {'ends' if in_time else 'cannot end'} in time: {what}; limits.timeout_s is {limit_s:g}",
                None if in_time else "raise limits.timeout_s, or give the program fewer steps",
            )
    if len(cases) > _MOST_TIMED:
        found = f"{len(cases) - _MOST_TIMED} more cases were not timed"
        yield _finding("time", Level.NOTE, names, found)


def _environments(
    suite: Suite, site: RunEnvironment, home: Path, timeout_s: float, suite_check: SuiteCheck
) -> dict[str, FrameworkPython]:
    """Check each environment on each host; return the interpreters that all hosts have, by framework."""
    usable: dict[str, FrameworkPython] = {}
    checked: set[tuple[str, str, tuple[str, ...]]] = set()
    for case in suite.cases:
        card = site.workload(case).card
        environment = suite.environment_of(case.framework)
        name = card.environment if environment == EACH_ITS_OWN else environment
        if (name, card.framework, card.packages) in checked:
            continue
        checked.add((name, card.framework, card.packages))
        if name in ENGINES:
            suite_check.findings += _engines(Engine(name), site.hosts)
            continue
        probe = partial(_probe_environment, name, card.framework, home, timeout_s)
        answers = map_hosts(site.hosts, probe)
        probed: dict[str, ProbedEnvironment] = {}
        for host, answer in zip(site.hosts, answers, strict=True):
            if isinstance(answer, ProbedEnvironment):
                probed[host.name] = answer
                continue
            # A lost host has no environment to mend.
            lost = answer.partition(": ")[2].startswith(f"{host.name}: ")
            made = f"trainmark env create {name}, on that host"
            make = "check the host's load and its network" if lost else made
            remedy = None if "trainmark env create" in answer else make
            suite_check.findings.append(_finding("environment", Level.FAILURE, (host.name,), answer, remedy))
        suite_check.findings += _compare_environments(name, card.framework, probed)
        suite_check.findings += _packages(site, case, tuple(probed))
        interpreter = site.expected_interpreter(case)
        if len(probed) == len(site.hosts) and isinstance(interpreter, FrameworkPython):
            usable[case.framework] = interpreter
    return usable


def _probe_environment(
    name: str, framework: str, home: Path, timeout_s: float, host: Host
) -> ProbedEnvironment | str:
    """Return an environment's state on a host, or why it cannot be used."""
    try:
        return probe_environment(name, framework, home, probe_runner(host, timeout_s))
    except TrainmarkError as error:
        return str(error)
    except (OSError, ValueError):
        return f"environment '{name}' cannot be probed"


def _compare_environments(
    name: str, framework: str, probed: Mapping[str, ProbedEnvironment]
) -> Iterator[CheckFinding]:
    remedy = f"trainmark env create {name}, on the hosts that differ"
    versions = {
        host: f"{framework} {found.versions.version} (Python {found.versions.python})"
        for host, found in probed.items()
        if found.versions is not None
    }
    yield from compare_values("framework", versions, remedy)
    if name != SYSTEM:
        locks = {host: (found.lock_digest or "none")[:19] for host, found in probed.items()}
        yield from compare_values("environment", locks, remedy, what=f"{name}, lock")


def _packages(site: RunEnvironment, case: Case, names: tuple[str, ...]) -> Iterator[CheckFinding]:
    """Yield what a run installs for the card of a case; why it cannot is a finding on the cases."""
    card, interpreter = site.workload(case).card, site.expected_interpreter(case)
    if isinstance(interpreter, CannotStart):
        return
    what = f"the packages of card {card.name} ({', '.join(card.packages)})"
    if interpreter.unresolved:
        found = f"{what} are resolved when the environment is made: {interpreter.python} is missing"
        yield _finding("packages", Level.NOTE, names or tuple(host.name for host in site.hosts), found)
    if interpreter.packages is None:
        return
    if interpreter.packages.is_installed:
        yield _finding("packages", Level.OK, names, f"{what} are installed in {interpreter.packages.folder}")
    else:
        found = f"{what} are missing: the run will install {interpreter.packages.description}"
        yield _finding("packages", Level.NOTE, names, found)


def _engines(engine: Engine, hosts: Sequence[Host]) -> Iterator[CheckFinding]:
    versions = {}
    for host in hosts:
        try:
            versions[host.name] = f"{engine} {require_engine(engine, host)}"
        except TrainmarkError as error:
            yield _finding("engine", Level.FAILURE, (host.name,), str(error))
    yield from compare_values("engine", versions, "install the same version on all hosts", Level.WARNING)


def _data(suite: Suite, site: RunEnvironment, home: Path) -> Iterator[CheckFinding]:
    """Yield the findings on each data set, in each format that the cases read."""
    sets = DataSets(suite.datasets, home, site.machine.cores)
    required = {
        (case.data, site.workload(case).card.data_format(case.loader)): case
        for case in suite.cases
        if case.reads_data_set
    }
    for (name, form), case in required.items():
        hosts = site.hosts_of(case)
        try:
            folder = sets.location(name, form)
            dataset = suite.datasets[name]
            makes = dataset.make is not None or (dataset.path is not None and Path(dataset.path).exists())
            yield from _locate_data(f"data set '{name}' ({form})", folder, hosts, makes)
        except (OSError, TrainmarkError) as error:
            names = tuple(host.name for host in hosts)
            yield _finding("data", Level.FAILURE, names, f"data set '{name}': {error}")


def _locate_data(what: str, folder: Path, hosts: Sequence[Host], makes: bool) -> Iterator[CheckFinding]:
    """Yield the findings on a data set's location; a run makes or converts it here and sends it to hosts without it."""
    names = tuple(host.name for host in hosts)
    has = map_hosts(hosts, lambda host: host.has(remote_path(host.paths, folder)))
    present = [host for host, found in zip(hosts, has, strict=True) if found]
    missing = tuple(host.name for host in hosts if host not in present)
    if not folder.exists():
        if makes:
            found = f"{what} is missing: the run will make it in {folder}"
            yield _finding("data", Level.NOTE, names, found)
        else:
            remedy = f"copy it to {folder} on the machine that starts the run"
            yield _finding("data", Level.FAILURE, missing or names, f"{what} is missing", remedy)
        return
    if missing:
        total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        if total <= MOST_BYTES:
            found = f"{what} is missing: the run will send it ({size(total)})"
            yield _finding("data", Level.NOTE, missing, found)
        else:
            found = f"{what} is missing, and too large to be sent ({size(total)})"
            yield _finding("data", Level.FAILURE, missing, found, f"copy {folder} to this host")
    if present:
        yield from _compare_data(what, folder, present)


def _compare_data(what: str, folder: Path, hosts: Sequence[Host]) -> Iterator[CheckFinding]:
    """Compare the files of a data set on each host with those on the first; a single host has nothing to compare."""
    names = tuple(host.name for host in hosts)
    if len(hosts) == 1:
        yield _finding("data", Level.OK, names, f"{what} is present")
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
    yield _finding("data", Level.OK, tuple(alike), f"{what} is present: {len(first)} files")


def _finding(
    check: str, level: Level, hosts: tuple[str, ...], found: str, remedy: str | None = None
) -> CheckFinding:
    return CheckFinding(check=check, level=level, hosts=hosts, found=found, remedy=remedy)
