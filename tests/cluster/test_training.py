"""Every framework on hosts of the cluster, its ranks started by torchrun, by mpirun or by agents."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from clusters import ALLOCATED, HOSTS, Cluster
from frameworks import needs_framework
from trainmark.execution import name_on
from trainmark.schema.names import TELEMETRY
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import Results

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.training,
    pytest.mark.rare,
    pytest.mark.xdist_group("cluster"),
    pytest.mark.usefixtures("tidy"),
]

SUITE: dict[str, Any] = {
    "name": "several-hosts",
    "protocol": {"name": "adaptive", "steps": 4, "warmup_steps": 2, "repeats": 1},
    "limits": {"timeout_s": 900},
    "equivalence": False,
    "defaults": {
        "model": "mobilenet_v1",
        "batch_per_device": 2,
        "image_size": 32,
        "device": "cpu",
    },
}


def trained(
    hosts: Cluster, folder: Path, engine: str, **settings: Any
) -> tuple[Results, list[dict[str, Any]]]:
    """Return the results of a suite with these settings on the cluster, and each run's outcome as it is kept."""
    (folder / "suite.yaml").write_text(yaml.safe_dump({**SUITE, **settings}), encoding="utf-8")
    home = Path(os.environ["TRAINMARK_TEST_ENVS"]).parent
    words = ["run", str(folder / "suite.yaml"), "--out", str(folder / "out"), "--engine", engine]
    ended = hosts.run(
        "control",
        *ALLOCATED.get(engine, ()),
        *("env", f"TRAINMARK_HOME={home}", sys.executable, "-m", "trainmark.cli.main"),
        *(*words, "--hosts", str(hosts.state / "hosts.yaml")),
        check=False,
        patience_s=1700,
    )
    assert (folder / "out" / "results.json").exists(), ended.stderr
    results = Results.model_validate_json((folder / "out" / "results.json").read_text())
    runs = [run for case in results.cases for run in case.runs]
    assert runs, ended.stderr
    assert {run.outcome for run in runs} == {Outcome.OK}, [run.reason for run in runs]
    assert all(run.measurement is not None for run in runs)
    return results, [
        json.loads((folder / "out" / run.directory / "outcome.json").read_text()) for run in runs
    ]


@needs_framework("pytorch")
@pytest.mark.parametrize(
    ("engine", "launcher", "nodes"),
    [
        ("ssh", "torchrun", [1, 2, 4]),
        ("slurm", "ranks", [4]),
        ("slurm", "torchrun", [2]),
        ("slurm", "mpirun", [2]),
        ("mpi", "mpirun", [4]),
    ],
)
def test_pytorch_trains_on_several_hosts(
    engine: str, launcher: str, nodes: list[int], hosts: Cluster, tmp_path: Path
) -> None:
    several = [{"nodes": nodes, "framework": len(nodes) * ["pytorch"]}]
    results, stored = trained(hosts, tmp_path, engine, launcher=launcher, zip=several)
    for requested, case, outcome in zip(nodes, results.cases, stored, strict=True):
        # What mpirun starts on other nodes is nobody's job, and watched all the same.
        assert [node["host"] for node in outcome["nodes"]] == list(HOSTS[:requested])
        assert all(node["clock_offset_after_s"] is not None for node in outcome["nodes"])
        folder = tmp_path / "out" / case.runs[0].directory
        for node in range(requested):
            samples = (folder / name_on(TELEMETRY, node)).read_text().splitlines()[1:]
            assert any(json.loads(sample)["processes"] for sample in samples), node
        assert "nodes-not-watched" not in {doubt.code for run in case.runs for doubt in run.suspicions}


@pytest.mark.parametrize(
    "framework",
    [
        pytest.param(name, marks=needs_framework(name))
        for name in ("tensorflow", "mxnet", "paddle", "jax", "mindspore")
    ],
)
def test_the_ranks_of_every_framework_find_each_other_by_the_names_of_their_hosts(
    framework: str, hosts: Cluster, tmp_path: Path
) -> None:
    # In nchw JAX trains nowhere, and TensorFlow only where its oneDNN is on, which SSH does not hand over.
    own = {"jax": {"layout": ["nhwc"], "compiler": ["xla"]}, "tensorflow": {"layout": ["nhwc"]}}
    two = {**own.get(framework, {}), "framework": [framework], "nodes": [2]}
    _, (outcome,) = trained(hosts, tmp_path, "ssh", zip=[two])
    assert [(node["host"], node["exit_code"]) for node in outcome["nodes"]] == [
        (host, 0) for host in HOSTS[:2]
    ]


@needs_framework("pytorch")
def test_a_step_over_a_slow_line_is_bound_by_communication(hosts: Cluster, tmp_path: Path) -> None:
    """Exchange 17 MB of gradients a step over a line that delays each frame."""
    with hosts.fault("delay", "node02", "20"):
        results, _ = trained(
            hosts,
            tmp_path,
            "ssh",
            zip=[{"nodes": [2], "framework": ["pytorch"]}],
            gates={"off": ["cpu-shared"]},
        )

    ((run,),) = (case.runs for case in results.cases)
    assert run.bound is not None
    assert run.bound.bound == "communication", run.bound.sentence
    assert run.ranks is not None
    assert run.ranks.all_reduce is not None
    assert run.ranks.all_reduce.share > 0.5
