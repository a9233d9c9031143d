"""Two hosts whose folders have the same paths on two disks: what is asked of one is never looked up on the other's."""

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes import CARD, PROGRAMS, Bench, Silent
from hosts import FOUR_CORES, OtherDisk
from repositories import Repository
from trainmark.campaign import run_campaign
from trainmark.node import LocalHost
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import RunResult

pytestmark = pytest.mark.process

MEETING = {
    "launcher": "ranks",
    "command": ["{source}/rendezvous.py", *CARD["command"][1:]],
    "axes": {**CARD["axes"], "devices_per_node": {}},
}
TRIES = "from pathlib import Path; import sys; Path(sys.argv[1], 'tries').open('a').write('x')"
STEP = {
    "description": "trying",
    "where": "host",
    "words": [sys.executable, "-c", TRIES, "{prepared}"],
    "leaves": ["tries"],
}


@pytest.fixture
def ours(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "node")


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    return tmp_path / "disk-of-the-second"


def run(bench: Bench, theirs: Path, card: dict[str, Any], environment: str = "system") -> RunResult:
    bench.folder.mkdir(exist_ok=True)
    case = {"nodes": 2, "devices_per_node": 1, "framework": card.get("framework", "fake")}
    bench.write(case, card=MEETING | card, environment=environment)
    hosts = (LocalHost("first", machine=FOUR_CORES), OtherDisk("second", bench.folder, theirs))
    order = replace(bench.order(), hosts=hosts)
    return run_campaign(order, Silent()).results.cases[0].runs[-1]


def left(disk: Path) -> Path:
    (found,) = disk.glob("home/prepared/*/tries")
    return found


def test_what_a_node_wrote_is_brought_from_another_disk_though_its_path_is_the_same(
    ours: Bench, theirs: Path
) -> None:
    ran = run(ours, theirs, {})
    folder = ours.out / ran.directory
    assert ran.outcome is Outcome.OK, ran.reason
    assert (folder / "train.node1.log").read_text() == "rank 1 has 3\n"
    assert (folder / "sum.rank1").read_text() == "3"
    assert len((folder / "telemetry.node1.jsonl").read_text().splitlines()) >= 2
    assert not list((theirs / "out").rglob("*.log")), "nothing of the run stays on the host"


def test_a_prepare_step_is_done_on_each_disk_and_checked_there(ours: Bench, theirs: Path) -> None:
    ran = run(ours, theirs, {"prepare": [STEP]})
    assert ran.outcome is Outcome.OK, ran.reason
    assert [left(disk).read_text() for disk in (ours.folder, theirs)] == ["x", "x"]
    stored = [json.loads(path.read_text()) for path in (ours.out / "identity").glob("*.json")]
    (made,) = (part["entries"] for part in stored if part["name"] == "prepared")
    assert sorted(made) == ["node 1 tries/.", "tries/."]
    left(theirs).unlink()
    assert run(Bench(ours.folder, "again"), theirs, {"prepare": [STEP]}).outcome is Outcome.OK
    assert [left(disk).read_text() for disk in (ours.folder, theirs)] == ["x", "x"]


def test_a_step_that_leaves_nothing_on_the_second_disk_has_failed_there(ours: Bench, theirs: Path) -> None:
    only_here = f"import sys; {theirs.name!r} in sys.argv[1] or exec({TRIES!r})"
    step = STEP | {"words": [sys.executable, "-c", only_here, "{prepared}"]}
    ran = run(ours, theirs, {"prepare": [step]})
    assert ran.outcome is Outcome.FAILED
    assert "ended normally, but without" in (ran.reason or "")


def test_the_source_is_fetched_and_checked_out_on_each_disk(
    ours: Bench, theirs: Path, tmp_path: Path
) -> None:
    repository = Repository(tmp_path / "repository")
    names = ("rendezvous.py", "fake_training.py")
    commit = repository.commit({f"code/{name}": (PROGRAMS / name).read_text() for name in names})
    source = {"kind": "git", "url": repository.url, "folder": "code", "commit": commit}
    ran = run(ours, theirs, {"source": source})
    folder = ours.out / ran.directory
    assert ran.outcome is Outcome.OK, ran.reason
    for disk in (ours.folder, theirs):
        assert list(disk.glob("home/sources/*.git/HEAD"))
        assert not list(disk.rglob("rendezvous.py")), "no working tree is left"
    reported = [json.loads((folder / name).read_text()) for name in ("source.json", "source.node1.json")]
    assert reported[0] == reported[1]
    assert reported[0]["commit"] == commit


FRAMEWORK = """\
#!/bin/sh
case "$1" in
*describe_environment.py) echo 'TRAINMARK {answer}' ;;
*) exec {python} "$@" ;;
esac
"""


def interpreter(disk: Path, version: str, cudnn: str = "9.1") -> Path:
    """Put a Python on a disk that says it has a version of PyTorch and of cuDNN, and return its path on both."""
    path = disk / "python"
    path.parent.mkdir(parents=True, exist_ok=True)
    versions = {"version": version, "cudnn": cudnn}
    answer = {"python": "3.11.7", "failures": {}, "versions": versions, "packages": {}}
    path.write_text(FRAMEWORK.format(answer=json.dumps(answer), python=sys.executable))
    path.chmod(0o755)
    return path


def test_each_nodes_manifest_says_what_its_own_host_has(ours: Bench, theirs: Path) -> None:
    python = interpreter(ours.folder, "1.0")
    interpreter(theirs, "1.0", "9.2")
    ran = run(ours, theirs, {"framework": "pytorch"}, str(python))
    assert ran.outcome is Outcome.OK, ran.reason
    nodes = json.loads((ours.out / ran.directory / "manifest.json").read_text())["nodes"]
    assert [node["framework"]["cudnn"] for node in nodes] == ["9.1", "9.2"]


def test_hosts_with_two_versions_of_a_framework_do_not_train_one_model(ours: Bench, theirs: Path) -> None:
    python = interpreter(ours.folder, "1.0")
    interpreter(theirs, "2.0")
    ran = run(ours, theirs, {"framework": "pytorch"}, str(python))
    assert ran.outcome is Outcome.UNSUPPORTED
    assert (ran.reason or "").startswith("second: has pytorch 2.0, but first has pytorch 1.0; ")


def test_a_host_without_the_environment_is_named(ours: Bench, theirs: Path) -> None:
    python = interpreter(ours.folder, "1.0")
    ran = run(ours, theirs, {"framework": "pytorch"}, str(python))
    assert ran.outcome is Outcome.UNSUPPORTED
    missing = "is missing; the Python of a program must be at the same path on all its hosts"
    assert ran.reason == f"second: {theirs}/python: {missing}"


def test_what_lies_elsewhere_on_a_host_is_planned_and_used_there(tmp_path: Path) -> None:
    bench, theirs = Bench(tmp_path / "node"), tmp_path / "second"
    programs = tmp_path / "programs-of-the-second"
    shutil.copytree(PROGRAMS, programs)
    bench.folder.mkdir()
    bench.write({"nodes": 2, "devices_per_node": 1}, card=MEETING | {"prepare": [STEP]})
    paths = ((bench.folder / "home", theirs / "home"), (PROGRAMS, programs))
    second = LocalHost("second", folder=theirs / "runs", machine=FOUR_CORES, paths=paths)
    order = replace(bench.order(), hosts=(LocalHost("first", machine=FOUR_CORES), second))
    (ran,) = run_campaign(order, Silent()).results.cases[0].runs
    assert ran.outcome is Outcome.OK, ran.reason
    assert [left(disk).read_text() for disk in (bench.folder, theirs)] == ["x", "x"]
    assert str(PROGRAMS) in ran.commands[0]
    assert str(programs) in ran.commands[1]
