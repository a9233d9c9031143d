"""Check that an environment matches its lock and can train one step."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from trainmark.environment.entry import FrameworkEntry, find_entry
from trainmark.environment.inspection import EnvironmentFinding, import_findings, inspect
from trainmark.environment.locations import folder_of, read_stamp
from trainmark.environment.resolving import (
    Environment,
    EnvironmentContents,
    EnvironmentKind,
    EnvironmentState,
    UnusableEnvironment,
    framework_versions,
    read_contents,
    reason_for,
    resolve,
    run_script,
)
from trainmark.schema.manifest import FrameworkVersions


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
