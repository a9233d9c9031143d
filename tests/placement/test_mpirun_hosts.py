"""mpirun over hosts of a hosts file: what it carries to the ranks, and what it cannot give to each of them."""

from dataclasses import replace
from pathlib import Path

import pytest

from trainmark.placement import FrameworkPython, PlacementHost, RunSpec, build_plan
from trainmark.schema.case import case_of
from trainmark.schema.hosts import HostEntry, Traffic
from trainmark.schema.plan import NodeResources, Plan
from trainmark.schema.suite import Launcher, Protocol
from trainmark.workload import load_workloads

FIRST = PlacementHost(
    NodeResources(4, 0),
    "gpu01",
    "10.0.0.1",
    interface="ib0",
    traffic=Traffic(variables={"NCCL_IB_HCA": "mlx5_0"}),
)
SECOND = replace(FIRST, name="gpu02", address="10.0.0.2")


def by_mpirun(*hosts: PlacementHost) -> Plan:
    case = case_of(framework="pytorch", model="mobilenet_v1", device="cpu", nodes=2, devices_per_node=2)
    python = FrameworkPython(Path("/envs/pytorch/bin/python"), isolated=True)
    spec = RunSpec(
        case,
        load_workloads().find(case),
        python,
        hosts,
        Protocol.model_validate("dlperf"),
        1,
        Path("/results/runs/case/1"),
        "synthetic",
        started_by=Launcher.MPIRUN,
    )
    return build_plan(spec)


def test_the_variables_of_a_hosts_file_reach_the_ranks_of_every_node() -> None:
    plan = by_mpirun(FIRST, SECOND)
    assert plan.cannot_run is None
    (command,) = plan.commands
    assert "-x NCCL_IB_HCA" in command.text()
    assert "-H 10.0.0.1:2,10.0.0.2:2" in command.text()


@pytest.mark.parametrize("other", [{"NCCL_IB_HCA": "mlx5_1"}, {}])
def test_hosts_whose_ranks_would_need_other_variables_are_refused_by_name(other: dict[str, str]) -> None:
    reported = "mpirun gives all ranks the same NCCL_IB_HCA, but gpu01 and gpu02 have different ones"
    assert by_mpirun(FIRST, replace(SECOND, traffic=Traffic(variables=other))).cannot_run == reported


def test_each_host_may_have_its_own_home_of_trainmark() -> None:
    entry = HostEntry(name="gpu01", variables={"TRAINMARK_HOME": "/gpu01", "NCCL_DEBUG": "WARN"})
    assert entry.traffic.variables == {"NCCL_DEBUG": "WARN"}
