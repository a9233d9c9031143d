"""Is an environment what it claims to be, and does it train? Each answer is one line."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from trainmark.environment.describing import (
    Inside,
    framework_versions,
    look_inside,
    run_script,
)
from trainmark.environment.entry import Entry, find_entry
from trainmark.environment.inspecting import EnvironmentFinding, import_findings, inspect
from trainmark.environment.locations import folder_of
from trainmark.environment.resolving import (
    Environment,
    EnvironmentKind,
    State,
    UnusableEnvironment,
    reason_for,
    resolve,
)
from trainmark.environment.stamp import read_stamp
from trainmark.schema.manifest import FrameworkVersions


class CheckReport(BaseModel):
    """The findings on one environment, in order; what cannot be looked at after a failure is not in it.

    ``remedy`` is what makes it right again, where trainmark can.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    environment: str
    python: str | None
    findings: tuple[EnvironmentFinding, ...]
    framework: FrameworkVersions | None = None
    remedy: str | None = None

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
    catalog: Path | None = None,
) -> CheckReport:
    """Look at the environment ``name`` from outside and inside, and train one step in it.

    ``framework`` says what ``system`` (or an interpreter's path) is to hold; ``pytorch`` by default.
    """
    try:
        environment = resolve(name, home=home, python=python, catalog=catalog)
    except UnusableEnvironment as error:
        return CheckReport(
            environment=name,
            python=None,
            findings=(EnvironmentFinding(check="state", ok=False, message=str(error)),),
        )
    made_here = environment.kind is EnvironmentKind.VENV
    entry = find_entry(name if made_here else framework or "pytorch", catalog)
    looked, inside = (
        _look_at_ours(entry, home, timeout_s)
        if made_here
        else _look_at_another(entry, environment, timeout_s)
    )
    findings, versions = list(looked), None
    if inside is not None and entry.import_name not in inside.failures:
        versions = framework_versions(entry, inside)
        findings.append(_smoke(environment, entry, timeout_s))
    report = CheckReport(
        environment=name, python=str(environment.python), findings=tuple(findings), framework=versions
    )
    if report.ok or not made_here:
        return report
    return report.model_copy(update={"remedy": f"trainmark env create {name} makes it anew"})


def _look_at_ours(
    entry: Entry, home: Path, timeout_s: float
) -> tuple[tuple[EnvironmentFinding, ...], Inside | None]:
    folder = folder_of(home, entry.framework)
    stamp = read_stamp(folder)
    assert stamp is not None, "resolve() gives no environment without a stamp"
    state = EnvironmentFinding(
        check="state", ok=True, message=reason_for(State.READY, entry.framework, folder)
    )
    found = inspect(entry, folder, stamp, timeout_s=timeout_s)
    return (state, *found.findings), found.inside


def _look_at_another(
    entry: Entry, environment: Environment, timeout_s: float
) -> tuple[tuple[EnvironmentFinding, ...], Inside | None]:
    imports = (entry.import_name,)
    try:
        inside = look_inside(environment.python, entry, list(imports), environment.env_vars, timeout_s)
    except UnusableEnvironment as error:
        return (EnvironmentFinding(check="python", ok=False, message=str(error)),), None
    runs = EnvironmentFinding(check="python", ok=True, message=f"Python {inside.python} runs")
    return (runs, *import_findings(imports, inside)), inside


def _smoke(environment: Environment, entry: Entry, timeout_s: float) -> EnvironmentFinding:
    result = run_script(environment.python, entry.smoke, [], environment.env_vars, timeout_s)
    if result.problem is not None:
        return EnvironmentFinding(
            check="smoke", ok=False, message=f"one training step failed: {result.problem}"
        )
    before, after = result.answer["loss_before"], result.answer["loss_after"]
    message = f"one training step on {result.answer['device']}: loss {before:.4f} -> {after:.4f}"
    return EnvironmentFinding(check="smoke", ok=True, message=message)
