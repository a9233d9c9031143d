"""PyTorch on one, two and four hosts of the cluster, its ranks started by torchrun, by mpirun or by agents."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters import ALLOCATED, HOSTS, Cluster
from frameworks import framework_python, needs_framework
from trainmark.words.outcome import Outcome
from trainmark.words.results import Results

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.training,
    pytest.mark.rare,
    pytest.mark.xdist_group("cluster"),
    pytest.mark.usefixtures("tidy"),
    needs_framework("pytorch"),
]

SUITE: dict[str, Any] = {
    "name": "several-hosts",
    "protocol": {"name": "adaptive", "steps": 4, "warmup_steps": 2, "repeats": 1},
    "limits": {"timeout_s": 900},
    "equivalence": False,
    "defaults": {
        "framework": "pytorch",
        "model": "mobilenet_v1",
        "batch_per_device": 2,
        "image_size": 32,
        "device": "cpu",
    },
}


@pytest.mark.parametrize(
    ("engine", "launcher", "nodes"),
    [("ssh", "torchrun", [1, 2, 4]), ("slurm", "ranks", [4]), ("mpi", "mpirun", [4])],
)
def test_pytorch_trains_on_several_hosts(
    engine: str, launcher: str, nodes: list[int], hosts: Cluster, tmp_path: Path
) -> None:
    document = {**SUITE, "launcher": launcher, "zip": [{"nodes": nodes}]}
    (tmp_path / "suite.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    home = Path(framework_python("pytorch")).parents[3]
    words = ["run", str(tmp_path / "suite.yaml"), "--out", str(tmp_path / "out"), "--engine", engine]
    ended = hosts.run(
        "control",
        *ALLOCATED.get(engine, ()),
        *("env", f"TRAINMARK_HOME={home}", sys.executable, "-m", "trainmark.cli.main"),
        *(*words, "--hosts", str(hosts.state / "hosts.yaml")),
        check=False,
        patience_s=1700,
    )
    assert (tmp_path / "out" / "results.json").exists(), ended.stderr
    results = Results.model_validate_json((tmp_path / "out" / "results.json").read_text())
    runs = [run for case in results.cases for run in case.runs]
    assert [run.outcome for run in runs] == [Outcome.OK] * len(nodes), [run.reason for run in runs]
    for asked, run in zip(nodes, runs, strict=True):
        kept = json.loads((tmp_path / "out" / run.directory / "outcome.json").read_text())
        # What mpirun starts on other nodes is nobody's job: it is not watched, and said not to be.
        watched = 1 if launcher == "mpirun" else asked
        assert [node["host"] for node in kept["nodes"]] == list(HOSTS[:watched])
        assert ("nodes-not-watched" in {doubt.code for doubt in run.suspicions}) is (watched < asked)
        assert run.measurement is not None, run.directory
