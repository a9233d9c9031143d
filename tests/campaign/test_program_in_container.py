"""A program in a container, with a stand-in for Docker: what is asked of the engine, in which order, and cleared up."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes import CARD, PROGRAMS, Bench, Silent
from repositories import Repository, card, program
from trainmark.campaign import run_campaign
from trainmark.node import LocalHost
from trainmark.schema.hosts import Traffic
from trainmark.schema.outcome import Outcome
from trainmark.schema.plan import NodeResources
from trainmark.schema.results import RunResult

pytestmark = pytest.mark.process

CASE = {"workload": "linear", "framework": "python"}
PROTOCOL = {"name": "adaptive", "steps": 30, "warmup_steps": 5, "repeats": 2}
IMAGE = {
    "reference": "python:3.11",
    "build": {"name": "linear-image", "folder": "docker", "arguments": {"FROM": "{reference}"}},
    "python": sys.executable,
    "shm_size": "1g",
}


@pytest.fixture
def docker(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the stand-in first on the path, and return its folder."""
    folder = bench.folder / "bin"
    folder.mkdir()
    shim = folder / "docker"
    shim.write_text((PROGRAMS / "docker_shim.py").read_text().replace("PYTHON", sys.executable, 1))
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def calls(docker: Path) -> list[list[str]]:
    return [json.loads(line) for line in (docker / "calls.jsonl").read_text().splitlines()]


def runs(bench: Bench, **changes: Any) -> tuple[RunResult, ...]:
    repository = Repository(bench.folder / "repository")
    commit = repository.commit({"code/train.py": program("first"), "code/docker/Dockerfile": "FROM x\n"})
    document = card(repository, commit, image=IMAGE, environment="docker", fixed={}, **changes)
    bench.write(CASE, card=document, environment="auto", protocol=PROTOCOL)
    return bench.run().cases[0].runs


def test_a_program_in_a_container_is_built_once_run_measured_and_cleared_up(
    bench: Bench, docker: Path
) -> None:
    first, second = runs(bench)
    assert [first.outcome, second.outcome] == [Outcome.OK, Outcome.OK], first.reason
    assert first.measurement is not None
    verbs = [" ".join(words[:2]) if words[0] == "image" else words[0] for words in calls(docker)]
    of_a_run = ["rm", "image inspect"], ["run", "rm"]
    assert verbs == ["version", *of_a_run[0], "build", *of_a_run[1], *of_a_run[0], *of_a_run[1]]
    build, started, removed = (calls(docker)[number] for number in (3, 4, 5))
    assert build[build.index("--build-arg") + 1] == "FROM=python:3.11"
    assert build[-1].endswith("/source/code/docker")
    assert removed == ["rm", "--force", started[started.index("--name") + 1]]


def test_a_container_gets_the_runs_folder_its_variables_and_no_others(
    bench: Bench, docker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hidden")
    first, _ = runs(bench)
    started = next(words for words in calls(docker) if words[0] == "run")
    folder = bench.out.resolve() / first.directory
    assert f"{folder}:{folder}" in started
    assert started[started.index("--workdir") + 1] == str(folder)
    assert started[started.index("--user") + 1] == f"{os.getuid()}:{os.getgid()}"
    assert "--shm-size=1g" in started
    assert "--gpus" not in started, "the case computes on the CPU"
    given = [started[number + 1] for number, word in enumerate(started) if word == "--env"]
    assert f"HOME={folder}" in given
    assert not any("SECRET_TOKEN" in word for word in started)
    assert any(word.startswith("linear-image:") for word in started)


def test_each_rank_on_each_host_has_a_container_of_its_own_which_is_cleared_up_there(
    bench: Bench, docker: Path
) -> None:
    meeting = {
        "launcher": "ranks",
        "environment": "docker",
        "image": {"reference": f"python@sha256:{'0a' * 32}", "python": sys.executable},
        "command": ["{source}/rendezvous.py", *CARD["command"][1:]],
        "axes": {**CARD["axes"], "devices_per_node": {}},
    }
    bench.write({"nodes": 2, "devices_per_node": 2}, card=meeting, environment="auto")
    hosts = (
        LocalHost("first", machine=NodeResources(4, 0), traffic=Traffic(rdma=True)),
        LocalHost("second", folder=bench.folder / "disk-of-the-second", machine=NodeResources(4, 0)),
    )
    (ran,) = run_campaign(replace(bench.order(), hosts=hosts), Silent()).results.cases[0].runs
    assert ran.outcome is Outcome.OK, ran.reason
    started = [words for words in calls(docker) if words[0] == "run"]
    names = [words[words.index("--name") + 1] for words in started]
    assert sorted(name.rpartition("-n")[2] for name in names) == ["0-r0", "0-r1", "1-r2", "1-r3"]
    assert all(f"python@sha256:{'0a' * 32}" in words for words in started)
    assert sum("/dev/infiniband" in words for words in started) == 2, "the first host's alone has RDMA"
    ended = [words[2] for words in calls(docker) if words[0] == "rm"]
    assert set(ended[-4:]) == set(names)


def test_the_manifest_says_which_engine_and_image_it_was(bench: Bench, docker: Path) -> None:
    first, _ = runs(bench)
    manifest = json.loads((bench.out / first.directory / "manifest.json").read_text())
    assert manifest["nodes"][0]["environment_lock"] == "docker 28.0, python:3.11"


def test_a_docker_whose_daemon_is_away_makes_the_case_unsupported(bench: Bench, docker: Path) -> None:
    (docker / "no-daemon").touch()
    (only,) = runs(bench)
    assert only.outcome is Outcome.UNSUPPORTED
    assert (only.reason or "").startswith("docker cannot be used: Cannot connect to the Docker daemon at ")


def test_a_container_is_ended_when_its_run_takes_too_long(bench: Bench, docker: Path) -> None:
    repository = Repository(bench.folder / "repository")
    commit = repository.commit(
        {"code/train.py": "import time; time.sleep(600)", "code/docker/Dockerfile": ""}
    )
    document = card(repository, commit, image=IMAGE, environment="docker", fixed={})
    bench.write(CASE, card=document, environment="auto", protocol=PROTOCOL, limits={"timeout_s": 3.0})
    result = bench.run().cases[0].runs[0]
    assert result.outcome is Outcome.TIMEOUT
    assert calls(docker)[-1][:2] == ["rm", "--force"]


def test_a_folder_that_no_engine_can_mount_is_reported(bench: Bench, docker: Path) -> None:
    (bench.folder / "a:b").mkdir()
    odd = Bench(bench.folder, "a:b/out")
    (only,) = runs(odd)
    assert only.outcome is Outcome.UNSUPPORTED
    assert "docker cannot mount a path with ':', ',' or a quote in it" in (only.reason or "")
