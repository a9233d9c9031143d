"""The suite and the card of a command line on several hosts."""

from pathlib import Path

import pytest

from agents import hosts_file, stand_in
from trainmark.cli.main import main
from trainmark.cli.run_options import CommandOptions
from trainmark.cli.suite_input import command_suite, hosts_of, nodes_of
from trainmark.errors import InputError
from trainmark.workload import reaches_nodes, srun_on

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


SRUN = ["srun", "--label", "-n4", "python", "train.py", "-N", "7"]


@pytest.mark.parametrize(
    ("words", "environment", "hosts"),
    [
        (SRUN, {"SLURM_JOB_ID": "7"}, "slurm"),
        (SRUN, {}, None),
        (["python", "train.py"], {"SLURM_JOB_ID": "7"}, None),
    ],
)
def test_srun_in_an_allocation_runs_on_its_hosts(
    words: list[str], environment: dict[str, str], hosts: str | None
) -> None:
    assert hosts_of(words, CommandOptions(), environment) == hosts


def test_more_nodes_in_an_allocation_are_its_hosts() -> None:
    assert hosts_of(TORCHRUN, CommandOptions(nodes=2), {"SLURM_JOB_ID": "7"}) == "slurm"


@pytest.mark.parametrize(
    ("words", "hosts", "nodes", "devices"),
    [
        (SRUN, 4, 4, 1),
        (["srun", "-N2", "-n", "4", "python", "train.py"], 4, 2, 2),
        (["srun", "--nodes=2", "--ntasks-per-node=8", "python", "train.py"], 4, 2, 8),
        (["srun", "python", "train.py", "-n", "9"], 2, 2, 1),
    ],
)
def test_nodes_and_devices_of_srun_are_those_of_its_own_words(
    words: list[str], hosts: int, nodes: int, devices: int, tmp_path: Path
) -> None:
    found = command_suite(words, CommandOptions(nodes=nodes_of(words, CommandOptions(), hosts)), tmp_path)

    (case,) = found.suite["cases"]
    assert (case["nodes"], case.get("devices_per_node", 1)) == (nodes, devices)


def test_a_number_of_nodes_that_disagrees_with_the_command_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"--nodes 2: the command itself states 4 nodes; write \{nodes\} there"
    ):
        nodes_of(["srun", "-N", "4", "python", "train.py"], CommandOptions(nodes=2), 4)
    with pytest.raises(InputError, match="the command's number of nodes: 4: --hosts has only 2"):
        nodes_of(["torchrun", "--nnodes=4", "train.py"], CommandOptions(), 2)
    with pytest.raises(
        InputError, match=r"--nodes 2: --hosts names no more than this machine \(--hosts FILE\)"
    ):
        nodes_of(TORCHRUN, CommandOptions(nodes=2), 1)


def test_srun_is_limited_to_the_hosts_of_the_run() -> None:
    assert srun_on(SRUN, ["a", "b"]) == ("srun", "--nodes=2", "--nodelist=a,b", *SRUN[1:])
    own = ["env", "A=1", "srun", "-N2", "-w", "b,c", "python", "train.py"]
    assert srun_on(own, ["a", "b"]) == tuple(own)


@pytest.mark.process
def test_a_host_that_cannot_be_reached_is_named_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in(tmp_path, monkeypatch)
    monkeypatch.chdir(tmp_path)
    hosts = hosts_file(tmp_path / "hosts.yaml", "first", "refused", folder=tmp_path)
    hosts.write_text(hosts.read_text().replace("refused, address: 127.0.0.1", "refused, address: refused"))

    main(["run", "--hosts", str(hosts), "--out", "out", "--repeats", "1", "--", "sh", "-c", "true {node}"])

    reason = "refused: no agent could be started on it (ssh ended with code 255: ssh: connect to host refused port 22"
    assert f"no number   failed: {reason}: Connection refused); start sshd there" in capsys.readouterr().out
