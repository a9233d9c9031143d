"""Checking environments: against their stamp and lock, in files, packages and imports, and by one step of training."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from trainmark.environment.entry import FrameworkEntry, entries, find_entry, lock_of, minor_of
from trainmark.environment.locations import Stamp, folder_of, python_of, read_stamp
from trainmark.environment.lock import Pin, canonical
from trainmark.environment.resolving import (
    Environment,
    EnvironmentContents,
    EnvironmentKind,
    EnvironmentState,
    UnusableEnvironment,
    describe,
    framework_versions,
    read_contents,
    reason_for,
    resolve,
    run_script,
)
from trainmark.schema.manifest import FrameworkVersions

_INTERPRETER = re.compile(r"/[^\n'\"]*/bin/python[0-9.]*")


class EnvironmentFinding(BaseModel):
    """The result of one check: ``check`` is its short name, ``message`` the result in one line."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    check: str
    ok: bool
    message: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """The findings in order, and the environment's contents; None if its Python gave no answer."""

    findings: tuple[EnvironmentFinding, ...]
    contents: EnvironmentContents | None

    @property
    def problems(self) -> list[str]:
        """The messages of the failed checks."""
        return [finding.message for finding in self.findings if not finding.ok]


def inspect(entry: FrameworkEntry, folder: Path, stamp: Stamp, *, timeout_s: float = 600) -> Inspection:
    """Check the launchers, the Python, the packages and the imports of a created environment (it imports them)."""
    findings = [_launchers(folder)]
    imports = imports_of(entry, stamp.extras)
    try:
        contents = read_contents(python_of(folder), entry, list(imports), entry.env_vars, timeout_s)
    except UnusableEnvironment as error:
        return Inspection((*findings, EnvironmentFinding(check="python", ok=False, message=str(error))), None)
    findings.append(_python(stamp, contents))
    findings.append(_packages(pins_of(entry, stamp), stamp.packages, contents))
    findings.extend(import_findings(imports, contents))
    return Inspection(tuple(findings), contents)


def verify_environment(
    environment: Environment, framework: str, *, catalog: Path | None = None
) -> FrameworkVersions | None:
    """Return the versions of ``framework`` in an environment; None for a framework outside the catalogue.

    An environment that trainmark created is inspected first. Raises ``UnusableEnvironment`` with the reason if it no
    longer matches its lock, or if the framework does not import.
    """
    if environment.kind is EnvironmentKind.VENV:
        entry, folder = find_entry(environment.name, catalog), environment.python.parent.parent
        stamp = read_stamp(folder)
        assert stamp is not None, "resolve() returns no environment without a stamp"
        found = inspect(entry, folder, stamp)
        if found.problems or found.contents is None:
            reason = "; ".join(found.problems[:2])
            raise UnusableEnvironment(
                f"environment '{entry.framework}' changed since its creation: {reason} "
                f"(trainmark env create {entry.framework} recreates it)"
            )
        if framework == entry.framework:
            return framework_versions(entry, found.contents)
    if framework not in {entry.framework for entry in entries(catalog)}:
        return None
    return describe(environment.python, framework, catalog=catalog)


def imports_of(entry: FrameworkEntry, extras: Iterable[str]) -> tuple[str, ...]:
    """Return the modules that must import in an environment with these extras."""
    more = [module for extra in entry.find_extras(extras).values() for module in extra.imports]
    return (*entry.imports, *more)


def pins_of(entry: FrameworkEntry, stamp: Stamp) -> tuple[Pin, ...]:
    """Return the pins that must be installed: the lock without replaced pins, and the extras with their tools."""
    pins = {pin.name: pin for pin in lock_of(entry, stamp.variant).without(stamp.wheel_digests).pins}
    for extra in entry.find_extras(stamp.extras).values():
        for pin in extra.pins:
            pins.setdefault(pin.name, pin)
    return tuple(pins.values())


def import_findings(imports: Iterable[str], contents: EnvironmentContents) -> Iterator[EnvironmentFinding]:
    """Yield one finding per module."""
    for module in imports:
        reason = contents.failures.get(module)
        message = f"'{module}' does not import: {reason}" if reason else f"'{module}' imports"
        yield EnvironmentFinding(check="import", ok=reason is None, message=message)


def _launchers(folder: Path) -> EnvironmentFinding:
    """Check that the scripts in ``bin``, which name their interpreter by its absolute path, name this one."""
    for script in sorted((folder / "bin").iterdir()):
        if script.is_symlink() or not script.is_file():
            continue
        # pip writes the interpreter into the first line, or, when that is too long for the kernel, the second.
        with script.open("rb") as file:
            head = file.readline(4096) + file.readline(4096)
        named = _INTERPRETER.search(head.decode(errors="replace")) if head.startswith(b"#!") else None
        if named is not None and _is_foreign(Path(named[0]), folder):
            message = f"{script} starts {named[0]}, not the Python of this environment"
            return EnvironmentFinding(check="launchers", ok=False, message=message)
    return EnvironmentFinding(check="launchers", ok=True, message="the scripts in bin start this Python")


def _is_foreign(python: Path, folder: Path) -> bool:
    """Return whether a launcher's interpreter is missing or in another venv; a system interpreter is allowed."""
    if not python.exists():
        return True
    other = python.parent.parent
    return (other / "pyvenv.cfg").exists() and not other.samefile(folder)


def _python(stamp: Stamp, contents: EnvironmentContents) -> EnvironmentFinding:
    if minor_of(contents.python) != minor_of(stamp.python_version):
        message = (
            f"its Python is now {contents.python}; the environment was created with {stamp.python_version}"
        )
        return EnvironmentFinding(check="python", ok=False, message=message)
    return EnvironmentFinding(check="python", ok=True, message=f"Python {contents.python} runs")


def _packages(
    pins: tuple[Pin, ...], packages: Mapping[str, str], contents: EnvironmentContents
) -> EnvironmentFinding:
    """Compare the installed packages with the pins, and the other packages with those at creation."""
    now = {canonical(name): version for name, version in contents.packages.items()}
    problems = [
        f"{pin} became {now[pin.name]}" if pin.name in now else f"{pin} is missing"
        for pin in pins
        if not pin.accepts(now.get(pin.name, ""))
    ]
    for name in sorted((packages.keys() | now.keys()) - {pin.name for pin in pins}):
        before, after = packages.get(name), now.get(name)
        if before is None:
            problems.append(f"{name} {after} was added")
        elif after is None:
            problems.append(f"{name} {before} is missing")
        elif before != after:
            problems.append(f"{name} {before} became {after}")
    if not problems:
        return EnvironmentFinding(check="packages", ok=True, message=f"{len(pins)} packages match the lock")
    more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
    message = f"changed since the environment was created: {'; '.join(problems[:3])}{more}"
    return EnvironmentFinding(check="packages", ok=False, message=message)


class EnvironmentReport(BaseModel):
    """The findings on one environment, in order; checks that a failure makes impossible are absent.

    ``remedy`` is the command that repairs it, if trainmark has one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    environment: str
    python: str | None
    findings: tuple[EnvironmentFinding, ...]
    framework: FrameworkVersions | None = None
    remedy: str | None = None

    @property
    def ok(self) -> bool:
        """True if no check failed."""
        return all(finding.ok for finding in self.findings)


def check(
    name: str,
    *,
    home: Path,
    python: Path | None = None,
    framework: str | None = None,
    timeout_s: float = 600,
    catalog: Path | None = None,
) -> EnvironmentReport:
    """Check the files, packages and imports of the environment ``name``, and train one step in it.

    ``framework`` is the framework expected in ``system`` (or in an interpreter's path); ``pytorch`` by default.
    """
    try:
        environment = resolve(name, home=home, python=python, catalog=catalog)
    except UnusableEnvironment as error:
        return EnvironmentReport(
            environment=name,
            python=None,
            findings=(EnvironmentFinding(check="state", ok=False, message=str(error)),),
        )
    is_ours = environment.kind is EnvironmentKind.VENV
    entry = find_entry(name if is_ours else framework or "pytorch", catalog)
    found, contents = (
        _check_created(entry, home, timeout_s) if is_ours else _check_external(entry, environment, timeout_s)
    )
    findings, versions = list(found), None
    if contents is not None and entry.import_name not in contents.failures:
        versions = framework_versions(entry, contents)
        findings.append(_smoke_test(environment, entry, timeout_s))
    report = EnvironmentReport(
        environment=name, python=str(environment.python), findings=tuple(findings), framework=versions
    )
    if report.ok or not is_ours:
        return report
    return report.model_copy(update={"remedy": f"trainmark env create {name} recreates it"})


def _check_created(
    entry: FrameworkEntry, home: Path, timeout_s: float
) -> tuple[tuple[EnvironmentFinding, ...], EnvironmentContents | None]:
    folder = folder_of(home, entry.framework)
    stamp = read_stamp(folder)
    assert stamp is not None, "resolve() returns no environment without a stamp"
    state = EnvironmentFinding(
        check="state", ok=True, message=reason_for(EnvironmentState.READY, entry.framework, folder)
    )
    found = inspect(entry, folder, stamp, timeout_s=timeout_s)
    return (state, *found.findings), found.contents


def _check_external(
    entry: FrameworkEntry, environment: Environment, timeout_s: float
) -> tuple[tuple[EnvironmentFinding, ...], EnvironmentContents | None]:
    imports = (entry.import_name,)
    try:
        contents = read_contents(environment.python, entry, list(imports), environment.env_vars, timeout_s)
    except UnusableEnvironment as error:
        return (EnvironmentFinding(check="python", ok=False, message=str(error)),), None
    runs = EnvironmentFinding(check="python", ok=True, message=f"Python {contents.python} runs")
    return (runs, *import_findings(imports, contents)), contents


def _smoke_test(environment: Environment, entry: FrameworkEntry, timeout_s: float) -> EnvironmentFinding:
    result = run_script(environment.python, entry.smoke, [], environment.env_vars, timeout_s)
    if result.problem is not None:
        return EnvironmentFinding(
            check="smoke", ok=False, message=f"one training step failed: {result.problem}"
        )
    before, after = result.answer["loss_before"], result.answer["loss_after"]
    message = f"one training step on {result.answer['device']}: loss {before:.4f} -> {after:.4f}"
    return EnvironmentFinding(check="smoke", ok=True, message=message)
