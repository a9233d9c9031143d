"""GitHub workflows call existing targets, with pinned actions and the packages of .ci/run; one version everywhere."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import trainmark

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def load(path: Path) -> dict[Any, Any]:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in load(path)["jobs"].values() for step in job["steps"]]


def commands(path: Path) -> str:
    return "\n".join(step["run"].replace("\\\n", " ") for step in steps(path) if "run" in step)


def make_targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    rules = re.findall(r"^([a-z][a-z -]*):(?!=)", makefile, re.MULTILINE)
    return {target for rule in rules for target in rule.split()}


def test_the_workflows_exist() -> None:
    assert [path.stem for path in WORKFLOWS] == ["check", "docs", "nightly", "test"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_triggers_and_bounded_jobs(path: Path) -> None:
    workflow = load(path)

    # YAML 1.1 reads the key `on` as true.
    assert workflow[True]
    assert workflow["permissions"] == {"contents": "read"}
    assert all(job["timeout-minutes"] > 0 and job["steps"] for job in workflow["jobs"].values())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_an_action_is_pinned_by_version(path: Path) -> None:
    used = [step["uses"] for step in steps(path) if "uses" in step]

    assert used
    assert [
        action for action in used if not re.fullmatch(r"[\w-]+/[\w-]+@(v\d+\.\d+\.\d+|[0-9a-f]{40})", action)
    ] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_existing_targets_and_scripts(path: Path) -> None:
    text = commands(path)
    called = set(re.findall(r"^make ([a-z-]+)", text, re.MULTILINE))
    scripts = re.findall(r"(?:^|\s)((?:\.ci|scripts)/\S+)", text)

    assert called or scripts
    assert called <= make_targets()
    assert [name for name in scripts if not (ROOT / name).is_file()] == []


def test_the_test_workflow_installs_the_packages_of_the_ci_script() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    packages = set(re.findall(r"(?<=\s|\()[\w+]+:([a-z][\w+-]+)", script.replace("(wanted ", "( ")))

    assert {"openmpi-bin", "chromium", "g++", "munge"} <= packages
    assert packages <= set(commands(ROOT / ".github/workflows/test.yml").split())


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_an_issue_template_is_complete(path: Path) -> None:
    template = load(path)

    if path.stem == "config":
        assert template == {"blank_issues_enabled": True}
        return
    assert {"name", "description", "body"} <= template.keys()
    assert all({"type", "id", "attributes"} <= field.keys() for field in template["body"])


def test_one_version_in_package_project_citation_and_changelog() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    citation = load(ROOT / "CITATION.cff")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)$", changelog, re.MULTILINE)

    assert trainmark.__version__ == project == citation["version"] == released[0][0]
    assert str(citation["date-released"]) == released[0][1]
    assert f"### v{project}\n" in (ROOT / "docs" / "how-to" / "releasing.md").read_text(encoding="utf-8")


def test_an_entry_of_the_changelog_is_one_short_line() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()

    assert [line for line in lines if len(line) > 120] == []
    assert [line for line in lines if line.startswith(("  ", "\t"))] == []
