"""The folder for compiled programs: one for each environment, on several nodes each node's own."""

from pathlib import Path
from tempfile import gettempdir

import pytest

from trainmark.campaign.run_environment import CannotStart, RunEnvironment, plan_run
from trainmark.node import LocalHost
from trainmark.schema.case import case_of
from trainmark.schema.plan import NodeResources
from trainmark.schema.suite import Protocol, Suite
from trainmark.workload import load_workloads


def cache_of(home: Path, nodes: int, environment: str, framework: str = "pytorch", repeat: int = 1) -> str:
    """Return the folder that a run's command names in its variables."""
    case = case_of(framework=framework, model="mobilenet_v1", layout="nhwc", nodes=nodes, device="cpu")
    hosts = tuple(
        LocalHost(machine=NodeResources(cores=2, gpus=0), name=f"node-{number}") for number in range(nodes)
    )
    suite = Suite(name="s", cases=(case,), environment=environment)
    run_env = RunEnvironment(suite, load_workloads(), hosts, home)
    interpreter = run_env.expected_interpreter(case)
    assert not isinstance(interpreter, CannotStart)
    protocol = Protocol.model_validate({"name": "adaptive", "steps": 4, "warmup_steps": 1})
    plan = plan_run(run_env, case, protocol, interpreter, repeat, home / "run")
    assert not isinstance(plan, CannotStart), plan.reason
    variables = {"pytorch": "TORCHINDUCTOR_CACHE_DIR", "jax": "JAX_COMPILATION_CACHE_DIR"}
    return str(Path(plan.commands[0].variables[variables[framework]]).parent)


def test_the_runs_of_an_environment_share_a_folder_in_the_home(tmp_path: Path) -> None:
    folder = cache_of(tmp_path, 1, "/opt/a/bin/python")

    assert Path(folder).parent == tmp_path / "compile-caches"
    assert cache_of(tmp_path, 1, "/opt/a/bin/python", repeat=2) == folder
    assert cache_of(tmp_path, 1, "/opt/b/bin/python") != folder
    assert cache_of(tmp_path, 1, "/opt/a/bin/python", "jax") != folder


@pytest.mark.parametrize("nodes", [2, 4])
def test_several_nodes_do_not_share_a_folder_over_the_network(tmp_path: Path, nodes: int) -> None:
    folder = Path(cache_of(tmp_path, nodes, "/opt/a/bin/python"))

    assert folder.is_relative_to(gettempdir())
    assert not folder.is_relative_to(tmp_path / "compile-caches")
