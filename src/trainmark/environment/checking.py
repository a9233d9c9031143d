"""Is an environment what it claims to be, and does it train? Each answer is one line."""

import re
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from trainmark.environment.describing import (
    FrameworkVersions,
    Inside,
    framework_versions,
    look_inside,
    run_script,
)
from trainmark.environment.entry import CATALOG, Entry, find_entry, lock_of
from trainmark.environment.lock import canonical
from trainmark.environment.places import folder_of
from trainmark.environment.resolving import (
    Environment,
    Kind,
    State,
    UnusableEnvironment,
    reason_for,
    resolve,
)
from trainmark.environment.stamp import Stamp, read_stamp

_INTERPRETER = re.compile(r"(?P<folder>/[^\n'\"]*)/bin/python[0-9.]*")


class Finding(BaseModel):
    """One thing that was looked at: ``check`` is its short name, ``message`` says in one line how it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    check: str
    ok: bool
    message: str


class CheckReport(BaseModel):
    """The findings on one environment, in order; what cannot be looked at after a failure is not in it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    environment: str
    python: str | None
    findings: tuple[Finding, ...]
    framework: FrameworkVersions | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing was found wrong."""
        return all(finding.ok for finding in self.findings)


def check(
    name: str,
    *,
    home: Path,
    python: Path | None = None,
    framework: str | None = None,
    timeout_s: float = 600,
    catalog: Path = CATALOG,
) -> CheckReport:
    """Look at the environment ``name`` from outside and inside, and train one step in it.

    ``framework`` says what ``system`` (or an interpreter's path) is to hold; ``pytorch`` by default.
    """
    try:
        environment = resolve(name, home=home, python=python, catalog=catalog)
    except UnusableEnvironment as error:
        return CheckReport(
            environment=name, python=None, findings=(Finding(check="state", ok=False, message=str(error)),)
        )
    made_here = environment.kind is Kind.VENV
    entry = find_entry(name if made_here else framework or "pytorch", catalog)
    findings: list[Finding] = []
    if made_here:
        findings.append(
            Finding(check="state", ok=True, message=reason_for(State.READY, name, folder_of(home, name)))
        )
        findings.append(_launchers(folder_of(home, name)))
    versions = None
    try:
        imports = entry.imports if made_here else (entry.import_name,)
        inside = look_inside(environment.python, entry, list(imports), environment.env_vars, timeout_s)
        findings.append(Finding(check="python", ok=True, message=f"Python {inside.python} runs"))
        findings.extend(_imports(imports, inside))
        stamp = read_stamp(folder_of(home, name)) if made_here else None
        if stamp is not None:
            findings.append(_packages(entry, stamp, inside))
        if entry.import_name not in inside.failures:
            versions = framework_versions(entry, inside)
            findings.append(_smoke(environment, entry, timeout_s))
    except UnusableEnvironment as error:
        findings.append(Finding(check="python", ok=False, message=str(error)))
    return CheckReport(
        environment=name, python=str(environment.python), findings=tuple(findings), framework=versions
    )


def _launchers(folder: Path) -> Finding:
    """The scripts in ``bin`` name their interpreter by its absolute path: do they name this one?"""
    for script in sorted((folder / "bin").glob("pip*")):
        # pip writes the interpreter into the first line, or, when that is too long for the kernel, the second.
        head = b"\n".join(script.read_bytes().splitlines()[:2]).decode(errors="replace")
        named = _INTERPRETER.search(head)
        if named is not None and not _is_same(Path(named["folder"]), folder):
            message = (
                f"{script} starts {named[0]}, not the Python beside it (trainmark env create makes it anew)"
            )
            return Finding(check="launchers", ok=False, message=message)
    return Finding(check="launchers", ok=True, message="the scripts in bin start this Python")


def _is_same(one: Path, other: Path) -> bool:
    return one.exists() and one.samefile(other)


def _imports(imports: tuple[str, ...], inside: Inside) -> Iterator[Finding]:
    for module in imports:
        reason = inside.failures.get(module)
        message = f"'{module}' does not import: {reason}" if reason else f"'{module}' imports"
        yield Finding(check="import", ok=reason is None, message=message)


def _packages(entry: Entry, stamp: Stamp, inside: Inside) -> Finding:
    """Compare what is installed with the lock (or the wheel that replaced a pin) and with the stamp."""
    now = {canonical(name): version for name, version in inside.packages.items()}
    pins = lock_of(entry, stamp.variant).without(stamp.wheel_digests).pins
    wrong = [f"{pin} became {now.get(pin.name)}" for pin in pins if not pin.accepts(now.get(pin.name, ""))]
    locked = {pin.name for pin in pins}
    for name in sorted((stamp.packages.keys() | now.keys()) - locked):
        before, after = stamp.packages.get(name), now.get(name)
        if before != after:
            wrong.append(f"{name}: {before or 'absent'} became {after or 'absent'}")
    if not wrong:
        return Finding(check="packages", ok=True, message=f"{len(pins)} packages are as the lock says")
    more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    message = f"changed since the environment was made: {'; '.join(wrong[:3])}{more}"
    return Finding(check="packages", ok=False, message=message)


def _smoke(environment: Environment, entry: Entry, timeout_s: float) -> Finding:
    result = run_script(environment.python, entry.smoke, [], environment.env_vars, timeout_s)
    if result.problem is not None:
        return Finding(check="smoke", ok=False, message=f"one training step failed: {result.problem}")
    before, after = result.answer["loss_before"], result.answer["loss_after"]
    message = f"one training step on {result.answer['device']}: loss {before:.4f} -> {after:.4f}"
    return Finding(check="smoke", ok=True, message=message)
