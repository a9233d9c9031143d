"""``--vary`` of the number of processes: each case has its own devices, and the cases are scales of one program."""

import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from trainmark.cli.main import main
from trainmark.cli.run_options import CommandOptions
from trainmark.cli.suite_input import CommandSuite, command_suite, nodes_of
from trainmark.errors import InputError
from trainmark.suite import load_suite

TRAINS = """\
import sys, time
began = time.monotonic()
for step in range(1, 81):
    time.sleep(max(0, began + 0.02 * step - time.monotonic()))
    print(f"step {step} loss {1 / step:.4f} | {100 * int(sys.argv[1])} images/s | 20.0 ms/step", flush=True)
"""
"""A step ends when it is due, so that under other load, too, the printed rates are those of the wall clock."""


def suite_of(folder: Path, command: str, **options: Any) -> CommandSuite:
    return command_suite(shlex.split(command), CommandOptions(**options), folder)


def test_a_varied_number_of_processes_is_the_devices_of_its_case(tmp_path: Path) -> None:
    command = "torchrun --nproc-per-node {n} train.py --lr {lr}"
    found = suite_of(tmp_path, command, vary=["n=1,2,4", "lr=0.1,0.2"])

    suite = load_suite(found.write(tmp_path / "out"))
    assert [(case.options["n"], case.devices_per_node) for case in suite.cases] == [
        (n, n) for n in (1, 2, 4) for _ in range(2)
    ]
    assert found.assumed == ()


def test_a_varied_word_that_is_no_number_leaves_the_devices_unknown(tmp_path: Path) -> None:
    found = suite_of(tmp_path, "torchrun --nproc-per-node {n} train.py", vary=["n=gpu,2"])

    assert [case.get("devices_per_node", 1) for case in found.suite["cases"]] == [1, 2]
    assert found.assumed == ("the command does not show how many devices it uses: 1 (--devices N)",)


def test_devices_per_node_is_an_axis_and_no_option(tmp_path: Path) -> None:
    command = "torchrun --nproc-per-node {devices_per_node} train.py"
    found = suite_of(
        tmp_path, command, vary=["devices_per_node=1,2"], work_per_step="32 * {devices_per_node}"
    )

    suite = load_suite(found.write(tmp_path / "out"))
    assert [(case.devices_per_node, dict(case.options)) for case in suite.cases] == [(1, {}), (2, {})]
    assert found.card["command"] == shlex.split(command)


def test_nodes_are_an_axis_and_the_cases_are_scales_of_one_program(tmp_path: Path) -> None:
    command = (
        "torchrun --nnodes {nodes} --node-rank {node} --nproc-per-node 2 --master-addr {master} train.py"
    )
    given = CommandOptions(vary=["nodes=1,2,4"])
    assert nodes_of(shlex.split(command), given, 4) is None
    found = suite_of(tmp_path, command, vary=["nodes=1,2,4"], require=["efficiency=0.9"])

    suite = load_suite(found.write(tmp_path / "out"))
    assert [(case.nodes, case.devices_per_node) for case in suite.cases] == [(1, 2), (2, 2), (4, 2)]
    assert [one.efficiency for one in suite.require] == [0.9]


def test_mpirun_needs_no_placeholder_of_the_nodes_themselves(tmp_path: Path) -> None:
    found = suite_of(tmp_path, "mpirun -np {world_size} -H {hosts} python train.py", vary=["nodes=1,2"])

    assert [case["nodes"] for case in found.suite["cases"]] == [1, 2]


@pytest.mark.parametrize(
    ("given", "hosts", "error"),
    [
        ({"vary": ["nodes=1,4"]}, 2, "--vary nodes: --hosts has only 2, and 4 are required"),
        ({"vary": ["nodes=1,2"], "nodes": 2}, 4, "--vary nodes gives the nodes; leave one of them out"),
        ({"vary": ["nodes=1,all"]}, 4, "--vary nodes: 'all' is not a number above 0"),
    ],
)
def test_nodes_that_are_not_there_are_an_error(given: dict[str, Any], hosts: int, error: str) -> None:
    with pytest.raises(InputError, match=error):
        nodes_of(["torchrun", "--nnodes", "{nodes}"], CommandOptions(**given), hosts)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"vary": ["devices_per_node=1,gpu"]}, "--vary devices_per_node: 'gpu' is not a number above 0"),
        ({"vary": ["devices_per_node=0,1"]}, "--vary devices_per_node: '0' is not a number above 0"),
        (
            {"vary": ["devices_per_node=1,2"], "devices": 2},
            "--devices 2: --vary devices_per_node gives the devices",
        ),
    ],
)
def test_devices_that_are_no_numbers_or_stated_twice_are_refused(
    tmp_path: Path, options: dict[str, Any], error: str
) -> None:
    with pytest.raises(InputError, match=error):
        suite_of(tmp_path, "torchrun --nproc-per-node {devices_per_node} train.py", **options)


@pytest.mark.process
def test_scales_of_one_program_have_a_speedup_and_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAINS)
    words = ["--vary", "devices_per_node=1,2", "--repeats", "1", "--out", "out"]

    main(["run", *words, "--", sys.executable, "train.py", "{devices_per_node}"])

    printed = capsys.readouterr().out
    assert "per device  100   of 2 devices" in printed
    assert "compare     trainmark compare out --axis devices_per_node" in printed
    assert main(["compare", "out", "--axis", "devices_per_node"]) == 0
    assert "devices_per_node: 1 -> 2" in capsys.readouterr().out
    assert "## Scaling" in (tmp_path / "out" / "report.md").read_text()
