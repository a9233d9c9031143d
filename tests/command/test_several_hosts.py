"""The suite and the card of a command line on several hosts."""

from pathlib import Path

import pytest

from trainmark.cli.command_suite import CommandOptions, command_suite, nodes_of
from trainmark.errors import InputError
from trainmark.workload import reaches_nodes

TORCHRUN = ["torchrun", "--nnodes", "{nodes}", "--node-rank", "{node}", "--nproc-per-node", "2", "train.py"]
MPIRUN = ["env", "A=1", "mpirun", "-np", "8", "-H", "{hosts}", "python", "train.py"]


@pytest.mark.parametrize(
    ("words", "options", "hosts", "nodes"),
    [
        (TORCHRUN, CommandOptions(), 4, 4),
        (TORCHRUN, CommandOptions(nodes=2), 4, 2),
        (TORCHRUN, CommandOptions(), 1, None),
        (["python", "train.py"], CommandOptions(), 4, None),
        (["python", "train.py", "{nodes}"], CommandOptions(vary=["nodes=1,2"]), 4, None),
        (MPIRUN, CommandOptions(), 2, 2),
    ],
)
def test_a_command_with_a_placeholder_of_several_nodes_runs_on_all_hosts(
    words: list[str], options: CommandOptions, hosts: int, nodes: int | None
) -> None:
    assert nodes_of(words, options, hosts) == nodes


def test_more_nodes_than_hosts_are_refused() -> None:
    with pytest.raises(InputError, match="--hosts has only 2"):
        nodes_of(TORCHRUN, CommandOptions(nodes=3), 2)


@pytest.mark.parametrize(("words", "devices"), [(TORCHRUN, 2), (MPIRUN, 4)])
def test_the_devices_of_a_node_are_those_of_torchrun_and_a_share_of_those_of_mpirun(
    words: list[str], devices: int, tmp_path: Path
) -> None:
    found = command_suite(words, CommandOptions(nodes=2, precision="bf16"), tmp_path)

    (case,) = found.suite["cases"]
    assert (case["nodes"], case["devices_per_node"]) == (2, devices)
    assert set(found.card["axes"]) >= {"nodes", "devices_per_node", "precision"}


def test_processes_that_do_not_divide_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give --devices"):
        command_suite(MPIRUN, CommandOptions(nodes=3), tmp_path)


@pytest.mark.parametrize(
    ("words", "reaches"), [(TORCHRUN, False), (MPIRUN, True), (["srun", "-n", "2"], True)]
)
def test_mpirun_and_srun_reach_the_other_nodes_themselves(words: list[str], reaches: bool) -> None:
    assert reaches_nodes(words) is reaches
