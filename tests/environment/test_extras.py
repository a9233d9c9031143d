"""Additions on demand: wheels, and what is built from source, with packages of a few lines and a real pip."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from tiny_framework import make_source, make_wheel, served

from trainmark.environment import (
    CreationRequest,
    EnvironmentState,
    FrameworkEntry,
    check,
    create,
    find_entry,
    state_of,
)
from trainmark.errors import InputError, TrainmarkError

EXTRA = {
    "requirements": ["tinyextra==1.0"],
    "imports": ["tinyextra"],
    "build": {
        "requirements": ["tinytool==2.0"],
        "needs": ["sh"],
        "env_vars": {"TINY_WITH": "care"},
        "options": ["--no-build-isolation", "--no-deps", "--no-cache-dir"],
    },
}


def quiet(line: str) -> None:
    """Say nothing."""


def with_extra(catalog: Path, **build: object) -> FrameworkEntry:
    return with_extras(catalog, {"tinyextra": {**EXTRA, "build": {**EXTRA["build"], **build}}})  # type: ignore[dict-item]


def with_extras(catalog: Path, extras: dict[str, dict[str, object]]) -> FrameworkEntry:
    path = catalog / "tinyframework" / "environment.yaml"
    document = yaml.safe_load(path.read_text())
    document["extras"] = extras
    path.write_text(yaml.safe_dump(document))
    return find_entry("tinyframework", catalog)


@pytest.mark.process
def test_an_extra_is_built_recorded_checked_and_retained(
    tiny_request: CreationRequest, catalog: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_source(tmp_path / "index" / "tinyextra", "tinyextra", "1.0")
    make_wheel(tmp_path / "index" / "tinytool", "2.0", "name = 'tinytool'\n", "tinytool")
    home, lines = tmp_path / "home", list[str]()
    plain = replace(tiny_request, entry=with_extra(catalog))
    wanted = replace(plain, extras=("tinyextra",))
    without = create(plain, home=home, notify=lines.append)
    with served(tmp_path / "index") as url:
        monkeypatch.setenv("PIP_INDEX_URL", url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        made = create(wanted, home=home, notify=lines.append)
    assert any("building 'tinyextra' for 'tinyframework' from source" in line for line in lines)
    assert (made.made, made.stamp.extras, made.unlocked_packages) == (True, ("tinyextra",), ())
    assert made.stamp.lock_digest != without.stamp.lock_digest
    module = next(made.folder.rglob("tinyextra.py")).read_text()
    assert module == "built_with = ['tinytool', 'care']"
    report = check("tinyframework", home=home, catalog=catalog)
    assert report.ok, report
    assert "'tinyextra' imports" in str(report.findings)
    # Who asks for less than there is has what was asked for.
    assert not create(plain, home=home, notify=lines.append).made

    next(made.folder.rglob("tinyextra.py")).unlink()
    report = check("tinyframework", home=home, catalog=catalog)
    assert "'tinyextra' does not import" in str(report.findings)
    # Built in another way now: what is there is from another recipe.
    assert state_of(with_extra(catalog, env_vars={"TINY_WITH": "haste"}), home) is EnvironmentState.STALE


WHEELS: dict[str, object] = {"requirements": ["tinyextra==1.0", "tinytool==2.0"], "imports": ["tinyextra"]}


@pytest.mark.parametrize("extra", [EXTRA, {key: EXTRA[key] for key in ("requirements", "imports")}])
def test_another_version_of_an_extra_is_another_environment(catalog: Path, extra: dict[str, object]) -> None:
    lines = [
        with_extras(catalog, {"tinyextra": {**extra, "requirements": [f"tinyextra=={version}"]}})
        .extras["tinyextra"]
        .digest_line("tinyextra")
        for version in ("1.0", "1.1")
    ]
    assert lines[0] != lines[1]


@pytest.mark.process
def test_an_extra_of_wheels_is_added_at_its_pins_and_checked(
    tiny_request: CreationRequest, catalog: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(tmp_path / "index" / "tinyextra", "1.0", "import tinytool\n", "tinyextra")
    make_wheel(tmp_path / "index" / "tinyextra", "1.1", "import tinytool\n", "tinyextra")
    make_wheel(tmp_path / "index" / "tinytool", "2.0", "", "tinytool")
    home, lines = tmp_path / "home", list[str]()
    wanted = replace(tiny_request, entry=with_extras(catalog, {"tinyextra": WHEELS}), extras=("tinyextra",))
    with served(tmp_path / "index") as url:
        monkeypatch.setenv("PIP_INDEX_URL", url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        made = create(wanted, home=home, notify=lines.append)
    assert lines[1:] == ["adding 'tinyextra' to 'tinyframework'"]
    assert made.stamp.packages["tinyextra"] == "1.0"
    assert (made.stamp.extras, made.unlocked_packages) == (("tinyextra",), ())
    report = check("tinyframework", home=home, catalog=catalog)
    assert report.ok, report
    assert "'tinyextra' imports" in str(report.findings)

    next(made.folder.rglob("tinytool.py")).unlink()
    report = check("tinyframework", home=home, catalog=catalog)
    assert "'tinyextra' does not import: ModuleNotFoundError: No module named 'tinytool'" in str(
        report.findings
    )
    other = {**WHEELS, "requirements": ["tinyextra==1.1", "tinytool==2.0"]}
    assert state_of(with_extras(catalog, {"tinyextra": other}), home) is EnvironmentState.STALE


@pytest.mark.process
def test_an_extra_never_changes_what_the_lock_pins(
    tiny_request: CreationRequest, catalog: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (catalog / "tinyframework" / "cpu.lock").write_text("tinyframework==1.0\ntinytool==2.0\n")
    for version in ("2.0", "3.0"):
        make_wheel(tmp_path / "index" / "tinytool", version, "", "tinytool")
    make_wheel(tmp_path / "index" / "tinyextra", "1.0", "", "tinyextra")
    asks_for_more: dict[str, object] = {"requirements": ["tinyextra==1.0", "tinytool==3.0"], "imports": []}
    wanted = replace(
        tiny_request, entry=with_extras(catalog, {"tinyextra": asks_for_more}), extras=("tinyextra",)
    )
    with served(tmp_path / "index") as url:
        monkeypatch.setenv("PIP_INDEX_URL", url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        with pytest.raises(TrainmarkError, match=r"^pip failed: "):
            create(wanted, home=tmp_path / "home", notify=quiet)
    assert state_of(wanted.entry, tmp_path / "home") is EnvironmentState.HALF_MADE


@pytest.mark.process
def test_an_obstacle_to_a_build_is_reported_in_one_line(
    tiny_request: CreationRequest, catalog: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = replace(tiny_request, entry=with_extra(catalog, needs=["g+++", "sh"]), extras=("tinyextra",))
    with pytest.raises(
        InputError, match=r"--extra tinyextra is built from source, but g\+\+\+ is not on PATH"
    ):
        create(lacking, home=tmp_path / "home", notify=quiet)
    assert state_of(lacking.entry, tmp_path / "home") is EnvironmentState.ABSENT
    with pytest.raises(InputError, match=r"no extra 'tinyextr'; did you mean 'tinyextra'"):
        create(replace(lacking, extras=("tinyextr",)), home=tmp_path / "home", notify=quiet)

    make_source(tmp_path / "index" / "tinyextra", "tinyextra", "1.0")
    make_wheel(tmp_path / "index" / "tinytool", "2.0", "raise ImportError('no tool')\n", "tinytool")
    with served(tmp_path / "index") as url:
        monkeypatch.setenv("PIP_INDEX_URL", url)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        failing = replace(tiny_request, entry=with_extra(catalog), extras=("tinyextra",))
        with pytest.raises(
            TrainmarkError, match=r"^building tinyextra==1.0 failed: .*; the whole output: "
        ) as error:
            create(failing, home=tmp_path / "home", notify=quiet)
    assert "\n" not in str(error.value)
    assert state_of(failing.entry, tmp_path / "home") is EnvironmentState.HALF_MADE


def test_an_extra_that_leaves_pip_a_choice_is_no_entry(catalog: Path) -> None:
    with pytest.raises(
        InputError, match=r"extras.tinyextra.build.requirements.0: .*'setuptools<81' is not an exact pin"
    ):
        with_extra(catalog, requirements=["setuptools<81"])
