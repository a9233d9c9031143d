"""A program of a git repository, unchanged and through its card, on two hosts: by torchrun, and by mpirun."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from clusters import HOSTS, Cluster
from fakes import PROGRAMS, Bench
from frameworks import needs_framework
from repositories import Repository, card
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import Results

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.training,
    pytest.mark.rare,
    pytest.mark.xdist_group("cluster"),
    pytest.mark.usefixtures("tidy"),
    needs_framework("pytorch"),
]

MEET = ["--ranks", "{world_size}", "--meet", "{master}:{port}"]
LAUNCHED: dict[str, dict[str, Any]] = {
    "torchrun": {
        "log_format": "ngc-pytorch-convnets",
        "command": ["{source}/by_multiproc.py", "--steps", "{steps}"],
    },
    "mpirun": {
        "log_format": "ngc-tensorflow-convnets",
        "command": ["{source}/by_mpirun.py", "--steps", "{steps}", *MEET],
    },
}
HOME_THERE = "/root/.local/share/trainmark"


@pytest.mark.parametrize("launcher", LAUNCHED)
def test_a_program_of_a_repository_trains_on_two_hosts(
    launcher: str, hosts: Cluster, repositories: Path, bench: Bench
) -> None:
    repository = Repository(repositories / launcher)
    files = (PROGRAMS / "launched").glob("*.py")
    commit = repository.commit({f"code/{path.name}": path.read_text(encoding="utf-8") for path in files})
    document = card(
        repository,
        commit,
        **LAUNCHED[launcher],
        launcher=launcher,
        framework="pytorch",
        environment="pytorch",
        axes={
            "model": {"values": {"good": []}},
            "batch_per_device": {"flags": ["--batch", "{value}"]},
            "nodes": {},
            "devices_per_node": {},
            "device": {},
        },
        expects=[],
    )
    four = {"workload": "linear", "framework": "pytorch", "nodes": 2, "devices_per_node": 2}
    bench.write(four, card=document, environment="auto", equivalence=False)
    (bench.folder / "home").mkdir()
    (bench.folder / "home" / "envs").symlink_to(os.environ["TRAINMARK_TEST_ENVS"])
    command = ["env", f"TRAINMARK_HOME={bench.folder / 'home'}", sys.executable, "-m", "trainmark.cli.main"]
    words = bench.words("--hosts", str(hosts.state / "hosts.yaml"))
    try:
        ended = hosts.run("control", *command, *words, check=False, patience_s=900)
    finally:
        for host in HOSTS[:2]:
            # Kept there for the next run of the same commit, as it is to be.
            hosts.ssh(host, f"rm -r {HOME_THERE}/sources")
    assert (bench.out / "results.json").exists(), ended.stderr
    results = Results.model_validate_json((bench.out / "results.json").read_text())
    (run,) = results.cases[0].runs
    assert run.outcome is Outcome.OK, run.reason
    assert run.measurement is not None
    assert run.measurement.throughput > 0
    folder = bench.out / run.directory
    weights = {(folder / f"weights.rank{rank}").read_text() for rank in range(4)}
    assert len(weights) == 1, "they began with other weights, and averaged their gradients"
    stored = json.loads((folder / "outcome.json").read_text())
    assert {node["host"] for node in stored["nodes"]} <= set(HOSTS[:2])
