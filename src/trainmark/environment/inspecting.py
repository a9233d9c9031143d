"""Is a made environment still what it was made as? Looked at from outside and, in one process, from inside."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from trainmark.environment.describing import (
    Inside,
    describe,
    framework_versions,
    look_inside,
)
from trainmark.environment.entry import Entry, entries, find_entry, lock_of, minor_of
from trainmark.environment.locations import python_of
from trainmark.environment.lock import Pin, canonical
from trainmark.environment.resolving import Environment, EnvironmentKind, UnusableEnvironment
from trainmark.environment.stamp import Stamp, read_stamp
from trainmark.schema.manifest import FrameworkVersions

_INTERPRETER = re.compile(r"/[^\n'\"]*/bin/python[0-9.]*")


class EnvironmentFinding(BaseModel):
    """One thing that was looked at: ``check`` is its short name, ``message`` says in one line how it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    check: str
    ok: bool
    message: str


@dataclass(frozen=True, slots=True)
class Inspection:
    """The findings in order, and the answer from inside; None when the environment's Python gave none."""

    findings: tuple[EnvironmentFinding, ...]
    inside: Inside | None

    @property
    def wrong(self) -> list[str]:
        """The messages of what is not as it should be."""
        return [finding.message for finding in self.findings if not finding.ok]


def inspect(entry: Entry, folder: Path, stamp: Stamp, *, timeout_s: float = 600) -> Inspection:
    """Look at the launchers, the Python, the packages and the imports of a made environment (it imports them)."""
    findings = [_launchers(folder)]
    imports = imports_of(entry, stamp.extras)
    try:
        inside = look_inside(python_of(folder), entry, list(imports), entry.env_vars, timeout_s)
    except UnusableEnvironment as error:
        return Inspection((*findings, EnvironmentFinding(check="python", ok=False, message=str(error))), None)
    findings.append(_python(stamp, inside))
    findings.append(_packages(pins_of(entry, stamp), stamp.packages, inside))
    findings.extend(import_findings(imports, inside))
    return Inspection(tuple(findings), inside)


def examine(
    environment: Environment, framework: str, *, catalog: Path | None = None
) -> FrameworkVersions | None:
    """Return what ``framework`` says of itself in an environment; None for one that the catalogue does not have.

    An environment that trainmark made is inspected first. Raises ``UnusableEnvironment`` with the reason when it is
    not what it was made as, or when the framework does not import.
    """
    if environment.kind is EnvironmentKind.VENV:
        entry, folder = find_entry(environment.name, catalog), environment.python.parent.parent
        stamp = read_stamp(folder)
        assert stamp is not None, "resolve() gives no environment without a stamp"
        found = inspect(entry, folder, stamp)
        if found.wrong or found.inside is None:
            reason = "; ".join(found.wrong[:2])
            raise UnusableEnvironment(
                f"environment '{entry.framework}' is not what was made: {reason} "
                f"(trainmark env create {entry.framework} makes it anew)"
            )
        if framework == entry.framework:
            return framework_versions(entry, found.inside)
    if framework not in {entry.framework for entry in entries(catalog)}:
        return None
    return describe(environment.python, framework, catalog=catalog)


def imports_of(entry: Entry, extras: Iterable[str]) -> tuple[str, ...]:
    """Return the modules that must import in an environment with these extras."""
    more = [module for extra in entry.find_extras(extras).values() for module in extra.imports]
    return (*entry.imports, *more)


def pins_of(entry: Entry, stamp: Stamp) -> tuple[Pin, ...]:
    """Return what must be installed: the lock without what wheels replaced, and the extras with their tools."""
    pins = {pin.name: pin for pin in lock_of(entry, stamp.variant).without(stamp.wheel_digests).pins}
    for extra in entry.find_extras(stamp.extras).values():
        for pin in extra.pins:
            pins.setdefault(pin.name, pin)
    return tuple(pins.values())


def import_findings(imports: Iterable[str], inside: Inside) -> Iterator[EnvironmentFinding]:
    """Return one finding a module."""
    for module in imports:
        reason = inside.failures.get(module)
        message = f"'{module}' does not import: {reason}" if reason else f"'{module}' imports"
        yield EnvironmentFinding(check="import", ok=reason is None, message=message)


def _launchers(folder: Path) -> EnvironmentFinding:
    """The scripts in ``bin`` name their interpreter by its absolute path: do they name this one?"""
    for script in sorted((folder / "bin").iterdir()):
        if script.is_symlink() or not script.is_file():
            continue
        # pip writes the interpreter into the first line, or, when that is too long for the kernel, the second.
        with script.open("rb") as file:
            head = file.readline(4096) + file.readline(4096)
        named = _INTERPRETER.search(head.decode(errors="replace")) if head.startswith(b"#!") else None
        if named is not None and _is_another(Path(named[0]), folder):
            message = f"{script} starts {named[0]}, not the Python beside it"
            return EnvironmentFinding(check="launchers", ok=False, message=message)
    return EnvironmentFinding(check="launchers", ok=True, message="the scripts in bin start this Python")


def _is_another(python: Path, folder: Path) -> bool:
    """Tell whether a launcher's interpreter is gone, or in another venv; the system's own is a package's choice."""
    if not python.exists():
        return True
    other = python.parent.parent
    return (other / "pyvenv.cfg").exists() and not other.samefile(folder)


def _python(stamp: Stamp, inside: Inside) -> EnvironmentFinding:
    if minor_of(inside.python) != minor_of(stamp.python_version):
        message = f"its Python is {inside.python} now; it was made with {stamp.python_version}"
        return EnvironmentFinding(check="python", ok=False, message=message)
    return EnvironmentFinding(check="python", ok=True, message=f"Python {inside.python} runs")


def _packages(pins: tuple[Pin, ...], packages: Mapping[str, str], inside: Inside) -> EnvironmentFinding:
    """Compare what is installed with what must be, and the rest with what there was when it was made."""
    now = {canonical(name): version for name, version in inside.packages.items()}
    wrong = [
        f"{pin} became {now[pin.name]}" if pin.name in now else f"{pin} is gone"
        for pin in pins
        if not pin.accepts(now.get(pin.name, ""))
    ]
    for name in sorted((packages.keys() | now.keys()) - {pin.name for pin in pins}):
        before, after = packages.get(name), now.get(name)
        if before is None:
            wrong.append(f"{name} {after} was added")
        elif after is None:
            wrong.append(f"{name} {before} is gone")
        elif before != after:
            wrong.append(f"{name} {before} became {after}")
    if not wrong:
        return EnvironmentFinding(
            check="packages", ok=True, message=f"{len(pins)} packages are as the lock says"
        )
    more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    message = f"changed since the environment was made: {'; '.join(wrong[:3])}{more}"
    return EnvironmentFinding(check="packages", ok=False, message=message)
