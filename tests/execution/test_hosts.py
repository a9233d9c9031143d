"""Runs over several hosts: a second host here is this machine under another name, with folders of its own."""

import json
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes import CARD, Bench, Silent, alive
from trainmark.campaign import run_campaign
from trainmark.cli.main import main
from trainmark.execution import run_plan
from trainmark.node import Host, LocalHost, free_ports
from trainmark.node.jobs import HostError
from trainmark.schema.outcome import Outcome
from trainmark.schema.plan import Command, NodeResources, Plan, PlannedNode
from trainmark.schema.results import RunResult
from trainmark.schema.suite import Limits

pytestmark = pytest.mark.process

FOUR_CORES = NodeResources(cores=4, gpus=0)
MEETING = {
    "launcher": "ranks",
    "command": ["{source}/rendezvous.py", *CARD["command"][1:]],
    "axes": {**CARD["axes"], "devices_per_node": {}},
}


def two_hosts(bench: Bench) -> tuple[Host, ...]:
    return (
        LocalHost("first", machine=FOUR_CORES),
        LocalHost("second", folder=bench.folder / "disk-of-the-second", machine=FOUR_CORES),
    )


def run(bench: Bench, behaviour: str = "well", **settings: Any) -> RunResult:
    """Run two ranks on each of two hosts."""
    case = {"nodes": 2, "devices_per_node": 2, "options": {"behaviour": behaviour}}
    bench.write(case, card=MEETING, **settings)
    order = replace(bench.order(), hosts=two_hosts(bench))
    (ran,) = run_campaign(order, Silent()).results.cases[0].runs
    return ran


def record(bench: Bench, ran: RunResult) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((bench.out / ran.directory / "outcome.json").read_text())
    return found


def left(bench: Bench, ran: RunResult) -> list[str]:
    folder = bench.out / ran.directory
    files = (folder / "pids", folder / "node1" / "pids")
    pids = {pid for file in files for pid in file.read_text().split()}
    assert len(pids) == 4
    return [pid for pid in pids if alive(int(pid))]


def test_two_nodes_train_one_model_and_nothing_of_either_is_lost(bench: Bench) -> None:
    ran = run(bench)
    folder = bench.out / ran.directory
    assert ran.outcome is Outcome.OK, ran.reason
    assert [(folder / f"sum.rank{rank}").read_text() for rank in range(4)] == ["10"] * 4
    assert "rank 0 has 10" in (folder / "train.log").read_text()
    assert sorted((folder / "train.node1.log").read_text().split("\n")) == [
        "",
        "rank 2 has 10",
        "rank 3 has 10",
    ]
    stored = record(bench, ran)
    assert [(node["node"], node["host"], node["exit_code"]) for node in stored["nodes"]] == [
        (0, "first", 0),
        (1, "second", 0),
    ]
    assert [(rank["node"], rank["rank"], rank["exit_code"]) for rank in stored["ranks"]] == [
        (0, 0, 0),
        (0, 1, 0),
        (1, 2, 0),
        (1, 3, 0),
    ]
    for name in ("telemetry.jsonl", "telemetry.node1.jsonl"):
        assert len((folder / name).read_text().splitlines()) >= 2, name
    manifest = json.loads((folder / "manifest.json").read_text())
    assert len(manifest["nodes"]) == 2
    assert len(ran.commands) == 4
    assert not left(bench, ran)


def test_a_rank_of_the_second_node_that_fails_is_named_with_its_words(bench: Bench) -> None:
    ran = run(bench, "rank-3-raises")
    assert ran.outcome is Outcome.FAILED
    assert ran.reason == "rank 3 on second ended with exit code 1: ValueError: this is why"
    stored = record(bench, ran)
    assert [(node["exit_code"], node["reason"]) for node in stored["nodes"]] == [(0, None), (1, ran.reason)]
    assert {rank["rank"]: (rank["exit_code"], rank["reason"]) for rank in stored["ranks"]}[3] == (
        1,
        "ValueError: this is why",
    )
    assert not left(bench, ran)


def test_a_limit_ends_the_ranks_of_both_nodes(bench: Bench) -> None:
    ran = run(bench, "rank-2-hangs", limits={"timeout_s": 8})
    assert ran.outcome is Outcome.TIMEOUT
    reported = "it took longer than 8 s at step 2 (limits.timeout_s); rank 2 on second was in <module> (rendezvous.py:"
    assert (ran.reason or "").startswith(reported)
    assert not left(bench, ran)


def test_with_more_nodes_than_hosts_the_case_is_unsupported(bench: Bench) -> None:
    bench.write({"nodes": 3}, card=MEETING)
    case = run_campaign(replace(bench.order(), hosts=two_hosts(bench)), Silent()).results.cases[0]
    assert (case.outcome, case.reason) == (
        Outcome.UNSUPPORTED,
        "3 nodes are required, but only 2 hosts are known",
    )


def test_a_command_for_a_host_that_is_not_there_is_never_dropped(bench: Bench, tmp_path: Path) -> None:
    (case,) = bench.write({"nodes": 2}).cases
    plan = Plan(
        case=case,
        repeat=1,
        nodes=(PlannedNode("localhost", "127.0.0.1", tmp_path), PlannedNode("faraway", "10.0.0.2", tmp_path)),
        commands=(Command(0, ("true",), {}), Command(1, ("true",), {})),
        directory=tmp_path,
        log_format="trainmark",
        unit="images/s",
        cannot_run=None,
    )
    reported = run_plan(plan, tmp_path, Limits(), (LocalHost(),))
    assert reported.outcome is Outcome.UNSUPPORTED
    assert reported.reason == "the plan has commands for node 1 (faraway), but the only hosts are localhost"
    assert not (tmp_path / "train.log").exists()


def test_a_plan_names_host_and_rank_of_each_command_and_hosts_that_nobody_knows_yet(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.write({"nodes": 2, "devices_per_node": 2}, card=MEETING)
    assert main(["plan", str(bench.suite), "--json"]) == 0
    commands = json.loads(capsys.readouterr().out)["commands"]
    assert [(command["node"], command["host"], command["rank"]) for command in commands] == [
        (0, "NODE0", 0),
        (0, "NODE0", 1),
        (1, "NODE1", 2),
        (1, "NODE1", 3),
    ]
    assert {command["variables"]["MASTER_ADDR"] for command in commands} == {"NODE0"}


def test_ports_that_were_given_away_are_given_to_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainmark.node.machine.random.sample", lambda starts, _: starts[700:])
    first, second = free_ports(8), free_ports(8)

    ask = (
        "import random; random.sample = lambda starts, _: starts[700:]; "
        "from trainmark.node import free_ports; print(free_ports(8))"
    )
    other = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    # Which they are depends on who else is given ports on this machine; drawn by chance alone all would be the first.
    assert len({first, second, int(other.stdout)}) == 3


def test_ports_of_many_ranks_are_found_again_and_again_next_to_others_and_with_few_open_files() -> None:
    ask = (
        "import resource; from trainmark.node import free_ports; "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024)); "
        "print([free_ports(count) > 0 for count in [4] * 40 + [512] * 20])"
    )
    others = [subprocess.Popen([sys.executable, "-c", ask], stdout=subprocess.PIPE) for _ in range(2)]
    assert [other.communicate()[0].count(b"True") for other in others] == [60, 60]


def test_reserved_ports_are_released_at_exit_without_a_warning() -> None:
    # In Python's development mode it warns about each socket that is left open.
    words = [sys.executable, "-X", "dev", "-c", "from trainmark.node import free_ports; free_ports(1)"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stderr == ""


def test_a_host_on_which_no_port_is_free_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of ports that no other test takes or reserves.
    monkeypatch.setattr("trainmark.node.machine._FIRST", 18_000)
    monkeypatch.setattr("trainmark.node.machine._LAST", 18_400)
    with ExitStack() as taken:
        for port in (18_199, 18_399):
            with suppress(OSError):  # Somebody else has it: that will do.
                taken.enter_context(socket.socket()).bind(("", port))
        with pytest.raises(HostError, match=r"^second: no 200 free ports in a row between 18000 and 18400$"):
            free_ports(200, [LocalHost("second")])
