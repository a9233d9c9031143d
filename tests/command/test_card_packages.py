"""A card's packages: locked and installed by uv next to the environment, which stays as it is."""

import json
import os
import platform
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from foreign_cards import planned, written
from trainmark.cli.main import main
from trainmark.environment import UnusableEnvironment
from trainmark.environment.packages import error_line, index_options, lock_packages

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        subprocess.run([sys.executable, "-c", "import uv"], capture_output=True, check=False).returncode != 0,
        reason="needs uv (pip install 'trainmark[packages]')",
    ),
]

IMPORTS = """
import time, tinypart
print("tinypart", tinypart.VALUE, flush=True)
for step in range(1, 61):
    time.sleep(0.005)
    print(f"iter {step}: loss 1.0000, time 5.00ms, mfu 1.00%", flush=True)
"""


def wheel(folder: Path, name: str, version: str, requires: str = "") -> None:
    """Write a wheel with one module of the package's name, whose VALUE is the version."""
    folder.mkdir(exist_ok=True)
    info, metadata = (
        f"{name}-{version}.dist-info",
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
    )
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}.py", f"VALUE = '{version}'\n")
        file.writestr(f"{info}/METADATA", metadata + (f"Requires-Dist: {requires}\n" if requires else ""))
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")


@pytest.fixture
def links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels that is the only index, and a home of the test's own."""
    for name in [name for name in os.environ if name.startswith(("UV_", "PIP_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TRAINMARK_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path / "links"))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    wheel(tmp_path / "links", "tinypart", "1.0")
    return tmp_path / "links"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A venv without packages, as the environment."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "base")], check=True)
    return tmp_path / "base" / "bin" / "python"


def suite_of(folder: Path, python: Path, *packages: str, **more: Any) -> Path:
    card: dict[str, Any] = {"packages": list(packages), "command": ["{source}/imports.py"], "axes": {}} | more
    suite = {"environment": str(python), "cases": [{"workload": "mlp"}]}
    path = written(folder, suite, work_per_step=8, unit="tokens/s", **card)
    (folder / "program" / "imports.py").write_text(IMPORTS)
    text = path.read_text()
    path.write_text(text[: text.index("defaults:")] + text[text.index("cases:") :])
    return path


def test_a_program_imports_the_cards_packages_and_the_runs_have_their_lock(
    tmp_path: Path, links: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = suite_of(tmp_path, base, "tinypart>=1")
    (plan,) = planned(path, capsys)
    assert plan["cannot_run"] is None
    assert [step["description"] for step in plan["before"]] == 3 * ["the card's packages: tinypart==1.0"]
    assert not list((tmp_path / "home" / "packages").glob("*/venv"))

    assert main(["run", str(path), "--out", str(tmp_path / "out")]) in (0, 1)

    assert capsys.readouterr().err.count("the card's packages: tinypart==1.0") == 1
    (case,) = json.loads((tmp_path / "out" / "results.json").read_text())["cases"]
    (run,) = case["runs"]
    assert run["outcome"] == "ok", run["reason"]
    assert "tinypart 1.0" in (tmp_path / "out" / run["directory"] / "train.log").read_text()
    (part,) = (part for part in run["identity"]["parts"] if part["name"] == "packages")
    held = json.loads(next((tmp_path / "out" / "identity").glob(f"{part['digest'][7:39]}*")).read_text())
    (venv,) = (tmp_path / "home" / "packages").iterdir()
    assert held["entries"]["tinypart"] == "1.0"
    assert held["entries"]["lock of the card's packages"].startswith("sha256:")
    assert not list((tmp_path / "base").rglob("tinypart*"))

    # The lock and the venv are made once: a newer version on the index changes nothing.
    wheel(links, "tinypart", "2.0")
    capsys.readouterr()
    (again,) = planned(path, capsys)
    assert again["before"][0]["description"] == "the card's packages: tinypart==1.0"
    assert [each.name for each in (tmp_path / "home" / "packages").iterdir()] == [venv.name]


def test_what_is_prepared_with_other_packages_is_prepared_anew_in_a_folder_of_its_own(
    tmp_path: Path, links: Path, base: Path
) -> None:
    wheel(links, "tinymore", "1.0")
    # As some converters of data do, it refuses a folder that it has filled before.
    words = ["{python}", "-c", "import os, sys, tinypart; os.mkdir(sys.argv[1])", "{prepared}/made"]
    prepare = [{"description": "data", "words": words, "leaves": ["made"]}]

    for number, packages in enumerate((["tinypart"], ["tinypart", "tinymore"])):
        path = suite_of(tmp_path, base, *packages, prepare=prepare)
        assert main(["run", str(path), "--out", str(tmp_path / f"out{number}")]) in (0, 1)
        (case,) = json.loads((tmp_path / f"out{number}" / "results.json").read_text())["cases"]
        assert case["runs"][0]["outcome"] == "ok", case["runs"][0]["reason"]


def test_check_tells_what_a_run_will_install(
    tmp_path: Path, links: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = suite_of(tmp_path, base, "tinypart")

    main(["check", str(path), "--json"])

    findings = json.loads(capsys.readouterr().out)["findings"]
    (found,) = (one["found"] for one in findings if one["check"] == "packages")
    assert found == "the packages of card mlp (tinypart) are missing: the run will install tinypart==1.0"


def test_the_packages_for_a_missing_environment_are_named_by_plan(
    tmp_path: Path, links: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "later" / "bin" / "python"
    path = suite_of(tmp_path, missing, "tinypart>=1", "tinymore")

    assert main(["plan", "--json", str(path)]) == 1
    plan = json.loads(capsys.readouterr().out)
    assert plan["cannot_run"] == f"{missing}: no such interpreter (environment)"
    assert plan["commands"][0]["words"][0] == str(missing)
    assert plan["by_hand"] == [
        f"{missing} is missing: make the environment; plan then has the commands that install the card's packages "
        "(tinypart>=1, tinymore), at versions that fit it"
    ]

    main(["check", str(path), "--json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    (found,) = (one["found"] for one in findings if one["check"] == "packages")
    assert found == (
        "the packages of card mlp (tinypart>=1, tinymore) are resolved when the environment is made: "
        f"{missing} is missing"
    )

    # A run has the environment's own reason, and the packages are those of the plan once it is there.
    assert main(["run", str(path), "--out", str(tmp_path / "out")]) == 1
    (case,) = json.loads((tmp_path / "out" / "results.json").read_text())["cases"]
    assert (case["outcome"], str(missing) in case["reason"]) == ("unsupported", True)
    missing.parent.parent.symlink_to(base.parent.parent)
    wheel(links, "tinymore", "1.0")
    capsys.readouterr()
    (plan,) = planned(path, capsys)
    assert plan["by_hand"] == []
    assert plan["before"][0]["description"] == "the card's packages: tinymore==1.0, tinypart==1.0"


def test_the_packages_for_an_environment_of_the_catalogue_name_its_command(
    tmp_path: Path, links: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card: dict[str, Any] = {
        "packages": ["tinypart"],
        "framework": "pytorch",
        "environment": "pytorch",
        "axes": {},
    }
    path = written(tmp_path, **card)
    path.write_text(yaml.safe_dump({"name": "mlp", "cards": ["card.yaml"], "cases": [{"workload": "mlp"}]}))

    (plan,) = planned(path, capsys)

    assert plan["cannot_run"] is None
    python = tmp_path / "home" / "envs" / "pytorch" / "bin" / "python"
    assert plan["by_hand"][0].startswith(f"{python} is missing: trainmark env create pytorch; plan then")


def test_an_unknown_package_is_one_line_of_plan(
    tmp_path: Path, links: Path, base: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (plan,) = planned(suite_of(tmp_path, base, "tinyprat"), capsys)

    assert plan["cannot_run"].startswith(
        "the packages tinyprat cannot be resolved: Because tinyprat was not found"
    )
    assert plan["cannot_run"].endswith("name the index that has it (UV_INDEX)")
    assert "\n" not in plan["cannot_run"]


def test_without_a_network_plan_says_what_to_do(
    tmp_path: Path,
    links: Path,
    base: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("UV_NO_INDEX")
    monkeypatch.delenv("UV_FIND_LINKS")
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")

    (plan,) = planned(suite_of(tmp_path, base, "tinypart"), capsys)

    assert "http://127.0.0.1:9/simple/tinypart/" in plan["cannot_run"]
    assert "connect to the package index, or name a mirror (UV_DEFAULT_INDEX" in plan["cannot_run"]
    assert "\n" not in plan["cannot_run"]


def test_the_environments_packages_stay_as_they_are(tmp_path: Path, links: Path, base: Path) -> None:
    (site,) = (tmp_path / "base").glob("lib/python3*/site-packages")
    wheel(links, "tinyframe", "1.0+cpu")
    with zipfile.ZipFile(links / "tinyframe-1.0+cpu-py3-none-any.whl") as file:
        file.extractall(site)
    (links / "tinyframe-1.0+cpu-py3-none-any.whl").unlink()
    wheel(links, "tinyframe", "2.0")
    wheel(links, "tinymore", "1.0", "tinyframe")
    wheel(links, "tinynew", "1.0", "tinyframe>=2")

    # tinymore needs a framework that is on no index, because it is there; tinynew needs another one.
    assert lock_packages(base, {}, ["tinymore"], tmp_path / "home").pins == ("tinymore==1.0",)
    with pytest.raises(UnusableEnvironment, match="the environment's own packages stay as they are"):
        lock_packages(base, {}, ["tinynew"], tmp_path / "home")


def test_a_dependency_with_an_exclamation_mark_is_left_out(tmp_path: Path, links: Path, base: Path) -> None:
    wheel(links, "tinyneeds", "1.0", "tinypart")

    with_all = lock_packages(base, {}, ["tinyneeds"], tmp_path / "home")
    without = lock_packages(base, {}, ["tinyneeds", "!tinypart"], tmp_path / "home")

    assert (with_all.pins, without.pins) == (("tinyneeds==1.0", "tinypart==1.0"), ("tinyneeds==1.0",))
    assert with_all.folder != without.folder


@pytest.mark.skipif(
    platform.machine() != "x86_64", reason="PyPI's torchvision is built for CUDA on x86-64 alone"
)
def test_a_torchvision_of_another_build_than_torch_is_named_before_it_is_installed(
    tmp_path: Path, links: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", links.as_uri())
    (packages,) = (tmp_path / "base").glob("lib/python3*/site-packages")
    (packages / "torch-2.9.0+cpu.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: torch\nVersion: 2.9.0+cpu\n"
    (packages / "torch-2.9.0+cpu.dist-info" / "METADATA").write_text(metadata)
    wheel(links, "torchvision", "0.24.0", requires="torch==2.9.0")

    with pytest.raises(UnusableEnvironment) as raised:
        lock_packages(base, {}, ["torchvision"], tmp_path / "home")

    assert str(raised.value).startswith(
        "torchvision==0.24.0 is built for CUDA and cannot be imported with torch 2.9.0+cpu: "
    )
    knowing = lock_packages(base, {}, ["torchvision", "!torch"], tmp_path / "home")
    assert knowing.pins == ("torchvision==0.24.0",)
    wheel(links, "torchvision", "0.24.0+cpu", requires="torch==2.9.0")
    of_cpus = lock_packages(base, {}, ["torchvision==0.24.0"], tmp_path / "home")
    assert of_cpus.pins == ("torchvision==0.24.0+cpu",)


def test_the_index_of_pip_is_uvs_unless_uv_has_its_own(tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://mirror.example/simple\nfind-links = /a /b\n[install]\nno-index = false\n"
    )
    environ = {
        "HOME": str(tmp_path),
        "XDG_CONFIG_DIRS": str(tmp_path),
        "PIP_CONFIG_FILE": str(tmp_path / "pip.conf"),
    }

    options = index_options(environ)

    assert options[:2] == ("--default-index", "https://mirror.example/simple")
    assert options[-4:] == ("--find-links", "/a", "--find-links", "/b")
    assert index_options(environ | {"PIP_INDEX_URL": "https://x/simple"})[1] == "https://x/simple"
    assert index_options(environ | {"UV_DEFAULT_INDEX": "https://y/simple"}) == ()


def test_a_package_is_found_in_any_of_pips_indexes(
    tmp_path: Path, base: Path, links: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("UV_FIND_LINKS", "UV_NO_INDEX"):
        monkeypatch.delenv(name)
    for index, version in (("main", "2.0"), ("extra", "1.0")):
        folder = tmp_path / index / "tinypart"
        folder.parent.mkdir()
        wheel(folder, "tinypart", version)
        file = f"tinypart-{version}-py3-none-any.whl"
        (folder / "index.html").write_text(f'<a href="{file}">{file}</a>\n')
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "main").as_uri())
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", (tmp_path / "extra").as_uri())

    # pip takes the best version of all indexes; uv by itself looks no further than the first one that has the package.
    assert lock_packages(base, {}, ["tinypart>=2"], tmp_path / "home").pins == ("tinypart==2.0",)
    assert lock_packages(base, {}, ["tinypart<2"], tmp_path / "home").pins == ("tinypart==1.0",)


def test_a_report_of_uv_is_one_line() -> None:
    text = (
        "  × No solution found when resolving dependencies:\n  ╰─▶ Because x was not found in the registry\n"
    )

    assert error_line(text).startswith("Because x was not found in the registry")


@pytest.mark.rare
def test_a_real_package_is_installed_from_the_index(tmp_path: Path, base: Path) -> None:
    lock = lock_packages(base, {}, ["einops>=0.7"], tmp_path / "home")

    for _, words in lock.commands():
        subprocess.run(words, check=True)

    code = "import einops; print(einops.__version__)"
    done = subprocess.run([lock.python, "-c", code], capture_output=True, text=True, check=True)
    assert lock.pins == (f"einops=={done.stdout.strip()}",)
    assert "--hash=sha256:" in lock.lock
