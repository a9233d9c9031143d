"""Making environments for real: venv and pip, with a tiny framework in place of a large one."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_framework import make_wheel

from trainmark.environment import (
    CreationRequest,
    EnvironmentState,
    FrameworkEntry,
    UnusableEnvironment,
    Variant,
    check,
    create,
    creation,
    describe,
    find_entry,
    folder_of,
    remove,
    resolve,
    state_of,
)
from trainmark.environment.creation import last_error
from trainmark.environment.resolving import venv_environ
from trainmark.errors import InputError, TrainmarkError

NCCL = "def nccl(): return (2, 27, 3)\n"


def quiet(line: str) -> None:
    """Say nothing."""


@pytest.mark.process
def test_an_environment_is_created_once_and_check_finds_every_kind_of_damage(
    tiny_request: CreationRequest, catalog: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home with a blank"
    assert state_of(tiny_request.entry, home) is EnvironmentState.ABSENT
    made = create(tiny_request, home=home, notify=quiet)
    assert made.made
    assert not create(tiny_request, home=home, notify=quiet).made

    environment = resolve("tinyframework", home=home, catalog=catalog)
    assert environment.python == folder_of(home, "tinyframework") / "bin/python"
    assert environment.lock_digest == made.stamp.lock_digest
    # Those of the framework, and those of the variant that it was made as.
    assert environment.env_vars == {"TINY_THREADS": "2", "TINY_HEAP": "kept"}
    environ = venv_environ(
        environment.python, {"PATH": "/usr/bin", "PYTHONPATH": "/elsewhere", "HOME": "/root"}
    )
    assert "PYTHONPATH" not in environ
    assert environ["PATH"].split(os.pathsep)[0] == str(environment.python.parent)

    report = check("tinyframework", home=home, catalog=catalog)
    assert report.ok, report
    assert report.framework is not None
    assert (report.framework.version, report.framework.cuda, report.framework.nccl) == (
        "1.0+tiny",
        None,
        "2.27.3",
    )
    assert "loss 2.0000 -> 1.0000" in report.findings[-1].message

    # A package changed by hand.
    info = next(made.folder.rglob("tinyframework-1.0.dist-info"))
    changed = info.with_name("tinyframework-1.1.dist-info")
    info.rename(changed)
    (changed / "METADATA").write_text("Metadata-Version: 2.1\nName: tinyframework\nVersion: 1.1\n")
    report = check("tinyframework", home=home, catalog=catalog)
    assert [finding.check for finding in report.findings if not finding.ok] == ["packages"]
    assert "tinyframework 1.0 became 1.1" in str(report.findings)

    # A framework that does not import.
    next(made.folder.rglob("tinyframework.py")).write_text("raise OSError('libtiny.so.1: cannot open')\n")
    report = check("tinyframework", home=home, catalog=catalog)
    assert "'tinyframework' does not import: OSError: libtiny.so.1: cannot open" in str(report.findings)
    with pytest.raises(UnusableEnvironment, match=r"does not import: OSError: libtiny"):
        describe(environment.python, "tinyframework", catalog=catalog)

    # Moved: a venv holds absolute paths.
    moved = tmp_path / "moved"
    home.rename(moved)
    assert state_of(tiny_request.entry, moved) is EnvironmentState.MOVED
    with pytest.raises(UnusableEnvironment, match="was moved to"):
        resolve("tinyframework", home=moved, catalog=catalog)
    moved.rename(home)

    # The Python that it was made with went away.
    python = made.folder / "bin/python"
    target = python.readlink()
    python.unlink()
    python.symlink_to("/nowhere/python3")
    assert state_of(tiny_request.entry, home) is EnvironmentState.BROKEN
    python.unlink()
    python.symlink_to(target)
    assert state_of(tiny_request.entry, home) is EnvironmentState.READY

    # A newer trainmark has another lock.
    (catalog / "tinyframework" / "cpu.lock").write_text("tinyframework==1.0\nnewcomer==1.0\n")
    assert state_of(tiny_request.entry, home) is EnvironmentState.STALE
    with pytest.raises(UnusableEnvironment, match="another lock"):
        resolve("tinyframework", home=home, catalog=catalog)

    assert remove("tinyframework", home=home, notify=quiet)
    assert not remove("tinyframework", home=home, notify=quiet)
    assert state_of(tiny_request.entry, home) is EnvironmentState.ABSENT


@pytest.mark.process
def test_a_wheel_of_another_build_takes_the_place_of_the_frameworks_pin(
    catalog: Path, tmp_path: Path, tiny_request: CreationRequest
) -> None:
    path = catalog / "tinyframework" / "environment.yaml"
    path.write_text(path.read_text() + "stands_for: {tinyframework-gpu: tinyframework}\n")
    body = tiny_request.wheels[0].with_name("gpu")
    wheel = make_wheel(
        body, "2.0", "__version__ = '2.0'\ncuda = '1'\n" + NCCL, "tinyframework-gpu", "tinyframework"
    )
    request = CreationRequest(find_entry("tinyframework", catalog), Variant.CPU, wheels=(wheel,))
    made = create(request, home=tmp_path / "home", notify=quiet)
    assert "tinyframework" not in made.stamp.packages
    assert made.stamp.packages["tinyframework-gpu"] == "2.0"
    assert [(record.package, record.file) for record in made.stamp.wheels] == [("tinyframework", wheel.name)]
    assert describe(made.python, "tinyframework", catalog=catalog).cuda == "1"
    assert not create(request, home=tmp_path / "home", notify=quiet).made


@pytest.mark.process
def test_libraries_in_separate_packages_are_linked_into_the_framework(
    tiny_request: CreationRequest, catalog: Path, tmp_path: Path
) -> None:
    path = catalog / "tinyframework" / "environment.yaml"
    links = 'hint: "it is nowhere", links: {into: "tinyframework-1.0.dist-info", files: "tiny*.py"}}'
    path.write_text(path.read_text().replace('hint: "it is nowhere"}', links))
    request = replace(tiny_request, entry=find_entry("tinyframework", catalog))
    made = create(request, home=tmp_path / "home", notify=quiet)
    (linked,) = made.folder.rglob("tinyframework-1.0.dist-info/tinyframework.py")
    assert linked.readlink() == Path("../tinyframework.py")
    assert linked.read_text().startswith("import os")
    # Without the links it is another environment.
    assert state_of(tiny_request.entry, tmp_path / "home") is EnvironmentState.STALE


@pytest.mark.process
def test_a_pip_failure_is_one_line_with_error_and_log_and_creation_can_be_retried(
    tiny_request: CreationRequest, catalog: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(TrainmarkError) as error:
        create(replace(tiny_request, wheels=()), home=home, notify=quiet)
    message = str(error.value)
    assert "No matching distribution found for tinyframework==1.0" in message
    assert "it is nowhere" in message
    assert f"the whole output: {home}/envs/tinyframework.log" in message
    assert "\n" not in message
    assert state_of(tiny_request.entry, home) is EnvironmentState.HALF_MADE
    with pytest.raises(UnusableEnvironment, match="incomplete"):
        resolve("tinyframework", home=home, catalog=catalog)
    report = check("tinyframework", home=home, catalog=catalog)
    assert not report.ok
    assert len(report.findings) == 1

    assert create(tiny_request, home=home, notify=quiet).made
    assert state_of(tiny_request.entry, home) is EnvironmentState.READY


@pytest.mark.process
def test_a_framework_that_does_not_import_leaves_an_incomplete_environment(
    tiny: FrameworkEntry, catalog: Path, tmp_path: Path
) -> None:
    broken = make_wheel(tmp_path, "1.0", "raise ImportError('a placeholder: get it elsewhere')\n")
    with pytest.raises(TrainmarkError, match="does not import: ImportError: a placeholder"):
        create(CreationRequest(tiny, Variant.CPU, wheels=(broken,)), home=tmp_path / "home", notify=quiet)
    assert state_of(tiny, tmp_path / "home") is EnvironmentState.HALF_MADE


@pytest.mark.process
def test_a_long_installation_shows_the_last_line_of_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(creation, "_WORD_EVERY_S", 0.2)
    lines: list[str] = []
    installer = creation.Installer(tmp_path / "venv", tmp_path / "pip.log", notify=lines.append)
    program = "import time; print('Collecting torch', flush=True); time.sleep(1)"

    installer._run([sys.executable, "-c", program], "pip", "")

    assert re.fullmatch(r"pip, \d+ s: Collecting torch", lines[-1])


@pytest.mark.process
def test_two_creations_at_once_make_one_environment(tiny_request: CreationRequest, tmp_path: Path) -> None:
    lines: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        # The guard is the kernel's, on an open file: two threads with a descriptor each are as two processes.
        both = [
            pool.submit(create, tiny_request, home=tmp_path / "home", notify=lines.append) for _ in range(2)
        ]
    assert sorted(done.result().made for done in both) == [False, True]
    assert "another trainmark process is creating or removing 'tinyframework'; waiting for it" in lines


@pytest.mark.process
def test_a_killed_creation_is_incomplete_and_can_be_retried(
    tiny_request: CreationRequest, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    wheel, catalog = tiny_request.wheels[0], tiny_request.entry.folder.parent
    code = f"""
from pathlib import Path
from trainmark.environment import CreationRequest, Variant, create, find_entry
entry = find_entry("tinyframework", Path({str(catalog)!r}))
request = CreationRequest(entry, Variant.CPU, wheels=(Path({str(wheel)!r}),))
create(request, home=Path({str(home)!r}), notify=print)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
    marker = folder_of(home, "tinyframework") / "pyvenv.cfg"
    while not marker.exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert state_of(tiny_request.entry, home) is EnvironmentState.HALF_MADE
    # What the dead one started (venv, pip) may still write there: it holds the guard, and is waited for.
    assert create(tiny_request, home=home, notify=quiet).made
    assert state_of(tiny_request.entry, home) is EnvironmentState.READY


@pytest.mark.process
def test_variables_of_the_shell_do_not_affect_an_environment(
    tiny_request: CreationRequest, catalog: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "path").mkdir()
    (tmp_path / "path/tinyframework.py").write_text("raise RuntimeError('the wrong one')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "path"))
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "target"))
    monkeypatch.setenv("PIP_CONSTRAINT", str(tmp_path / "missing.txt"))
    monkeypatch.setenv("VIRTUAL_ENV", "/some/other/venv")
    made = create(tiny_request, home=tmp_path / "home", notify=quiet)
    assert made.stamp.packages["tinyframework"] == "1.0"
    assert describe(made.python, "tinyframework", catalog=catalog).version == "1.0+tiny"
    base = subprocess.run(
        [made.python, "-c", "import sys; print(sys.base_prefix)"], capture_output=True, text=True, check=True
    )
    assert base.stdout.strip() == sys.base_prefix


def test_a_folder_that_is_not_ours_is_left_alone(tiny_request: CreationRequest, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "tinyframework")
    folder.mkdir(parents=True)
    (folder / "thesis.tex").write_text("years of work")
    assert state_of(tiny_request.entry, tmp_path) is EnvironmentState.FOREIGN
    for act in (
        lambda: create(tiny_request, home=tmp_path, notify=quiet),
        lambda: remove("tinyframework", home=tmp_path, notify=quiet),
    ):
        with pytest.raises(InputError, match="not an environment that trainmark created"):
            act()
    assert (folder / "thesis.tex").read_text() == "years of work"


def test_a_link_in_place_of_an_environment_is_not_followed_to_be_deleted(
    tiny_request: CreationRequest, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "environment.json").write_text("{}")
    (tmp_path / "envs").mkdir()
    folder_of(tmp_path, "tinyframework").symlink_to(elsewhere)
    with pytest.raises(InputError, match="not an environment"):
        remove("tinyframework", home=tmp_path, notify=quiet)
    assert (elsewhere / "environment.json").exists()


@pytest.mark.parametrize("name", ["torch.zip", "torch-2.13.0.whl", "missing-1.0-py3-none-any.whl"])
def test_an_invalid_wheel_is_an_input_error(tiny: FrameworkEntry, tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=f"--wheel .*{name}"):
        create(CreationRequest(tiny, Variant.CPU, wheels=(tmp_path / name,)), home=tmp_path, notify=quiet)


def test_a_home_that_cannot_be_written_is_an_input_error(
    tiny_request: CreationRequest, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="TRAINMARK_HOME"):
        create(tiny_request, home=tmp_path / "file", notify=quiet)


def test_pips_last_error_is_found_in_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("Collecting x\nERROR: first\nERROR: last\nnotice\n")
    assert last_error(log, 1) == "last"
    log.write_text("Traceback\nOSError: [Errno 28] No space left on device\n")
    assert last_error(log, 1) == "OSError: [Errno 28] No space left on device"
    log.write_text("")
    assert last_error(log, 3) == "exit code 3"


@pytest.mark.rare
@pytest.mark.training
def test_pytorch_is_made_from_its_lock_and_trains_a_step(tmp_path: Path) -> None:
    from trainmark.cli.main import main

    home = ["--root", str(tmp_path / "home")]
    assert main(["env", "create", "pytorch", "--variant", "cpu", *home]) == 0
    assert main(["env", "check", "pytorch", *home]) == 0
    stamp = json.loads((tmp_path / "home/envs/pytorch/environment.json").read_text())
    assert stamp["packages"]["torch"].split("+")[0] == "2.13.0"
    shutil.rmtree(tmp_path / "home")
