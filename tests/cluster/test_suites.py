"""Suites on a cluster: every engine, and what goes wrong on a host, named by host and rank, with nothing left there."""

import json
import os
import signal
import threading
import time
from typing import Any

import pytest
from cluster_campaigns import (
    ON_CLUSTER,
    ONE,
    TWO,
    EarlyStriker,
    Striker,
    by_command,
    card_of,
    controller,
    in_control,
    rank_on,
    run_on,
)

from clusters import HOSTS, Cluster
from fakes import Bench, Silent
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import CaseResult, Results

pytestmark = ON_CLUSTER

MEETING = card_of("rendezvous.py")
ALL = {"nodes": 4, "devices_per_node": 2}
HANGS = {**TWO, "options": {"behaviour": "rank-1-hangs"}}
"""Its rank 1, which is on node02, has met the other and then does nothing."""


def measured(
    hosts: Cluster,
    bench: Bench,
    *cases: dict[str, Any],
    strike: Silent | None = None,
    **settings: Any,
) -> tuple[CaseResult, ...]:
    """Return what becomes of cases by ssh; ``strike`` is who watches."""
    bench.write(*cases, card=MEETING, **settings)
    return run_on(hosts, bench, strike).cases


@pytest.mark.parametrize("engine", ["ssh", "mpi", "slurm"])
def test_eight_ranks_on_four_hosts_meet_by_every_engine(engine: str, hosts: Cluster, bench: Bench) -> None:
    bench.write(ALL, card=MEETING)
    ended = hosts.run("control", *by_command(hosts, bench, engine), check=False)
    assert (bench.out / "results.json").exists(), ended.stderr
    results = Results.model_validate_json((bench.out / "results.json").read_text())
    (ran,) = results.cases[0].runs
    assert ran.outcome is Outcome.OK, ran.reason
    folder = bench.out / ran.directory
    assert {(folder / f"sum.rank{rank}").read_text() for rank in range(8)} == {"36"}
    stored = json.loads((folder / "outcome.json").read_text())
    assert [(node["host"], node["exit_code"]) for node in stored["nodes"]] == [(host, 0) for host in HOSTS]
    assert [(rank["node"], rank["rank"]) for rank in stored["ranks"]] == [
        (rank // 2, rank) for rank in range(8)
    ]


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("refuse", "node02: no agent could be started on it (ssh ended with code 255: .*Connection refused"),
        (
            "key",
            "node02: no agent could be started on it (ssh ended with code 255: .*Host key verification failed",
        ),
    ],
)
def test_a_host_that_cannot_be_reached_is_named_and_costs_no_other_case(
    fault: str, sentence: str, hosts: Cluster, bench: Bench
) -> None:
    with hosts.fault(fault, "node02"):
        two, one = measured(hosts, bench, TWO, ONE)
    assert two.outcome is Outcome.FAILED
    for part in sentence.split(".*"):
        assert part in (two.reason or "")
    assert one.outcome is Outcome.OK, one.reason


def test_a_host_without_trainmark_is_named_and_costs_no_other_case(hosts: Cluster, bench: Bench) -> None:
    path = "/opt/trainmark/lib/python3*/site-packages/trainmark.pth"
    hosts.ssh("node02", f"mv {path} /opt/trainmark/away")
    try:
        two, one = measured(hosts, bench, TWO, ONE)
    finally:
        hosts.ssh("node02", f"mv /opt/trainmark/away $(echo {path.rpartition('/')[0]})/trainmark.pth")
    assert two.outcome is Outcome.FAILED
    assert (two.reason or "").startswith("node02: ")
    assert "trainmark" in (two.reason or "").removeprefix("node02: ")
    assert one.outcome is Outcome.OK, one.reason


def test_a_rank_that_is_killed_is_named_with_its_host(hosts: Cluster, bench: Bench) -> None:
    killed, after = measured(
        hosts,
        bench,
        HANGS,
        TWO,
        strike=Striker(lambda: os.kill(rank_on(hosts, "node02"), signal.SIGKILL)),
    )
    assert killed.outcome is Outcome.FAILED
    assert "node02" in (killed.reason or "")
    assert "rank 1" in (killed.reason or "")
    assert after.outcome is Outcome.OK, after.reason


def test_a_rank_that_is_stopped_runs_out_of_time_and_is_named_with_its_host(
    hosts: Cluster, bench: Bench
) -> None:
    stopped, after = measured(
        hosts,
        bench,
        HANGS,
        TWO,
        strike=Striker(lambda: os.kill(rank_on(hosts, "node02"), signal.SIGSTOP)),
        limits={"timeout_s": 12},
    )
    assert stopped.outcome is Outcome.TIMEOUT
    assert "node02" in (stopped.reason or "")
    assert "rank 1" in (stopped.reason or "")
    assert after.outcome is Outcome.OK, after.reason


def test_a_host_whose_disk_is_full_is_named_and_costs_no_other_case(hosts: Cluster, bench: Bench) -> None:
    with hosts.fault("full", "node02"):
        two, one = measured(hosts, bench, TWO, ONE)
    assert two.outcome is Outcome.FAILED
    assert "node02" in (two.reason or "")
    assert "is its disk full?" in (two.reason or "")
    assert one.outcome is Outcome.OK, one.reason


@pytest.mark.rare
def test_a_cable_that_is_out_for_a_moment_costs_nothing(hosts: Cluster, bench: Bench) -> None:
    healed = threading.Timer(5, lambda: hosts.break_("heal", "node02"))

    def pull() -> None:
        hosts.break_("cut", "node02")
        healed.start()

    lasting = {**TWO, "options": {"behaviour": "lasts-12"}}
    (result,) = measured(hosts, bench, lasting, strike=EarlyStriker(pull))
    healed.join()
    assert result.outcome is Outcome.OK, result.reason


@pytest.mark.rare
def test_a_cable_that_stays_out_names_the_host_and_costs_no_other_case(hosts: Cluster, bench: Bench) -> None:
    try:
        cut, after = measured(hosts, bench, HANGS, ONE, strike=Striker(lambda: hosts.break_("cut", "node02")))
        assert cut.outcome is Outcome.FAILED
        assert "node02" in (cut.reason or "")
        assert after.outcome is Outcome.OK, after.reason
        # What is left there ends by itself, as nobody is heard.
        hosts.wait_until_quiet()
    finally:
        hosts.break_("heal", "node02")
        # What its rank wrote is there still: nobody could fetch it.
        hosts.ssh("node02", f"rm -r {bench.folder}")


@pytest.mark.rare
@pytest.mark.parametrize("fault", [("delay", "50"), ("loss", "1"), ("slow", "3"), ("clock", "90")])
def test_a_host_that_is_late_slow_or_wrong_about_the_time_is_measured_all_the_same(
    fault: tuple[str, str], hosts: Cluster, bench: Bench
) -> None:
    with hosts.fault(fault[0], "node02", fault[1]):
        (result,) = measured(hosts, bench, TWO)
    assert result.outcome is Outcome.OK, result.reason


@pytest.mark.parametrize(
    "engine",
    ["ssh", pytest.param("mpi", marks=pytest.mark.rare), pytest.param("slurm", marks=pytest.mark.rare)],
)
def test_no_process_is_left_on_any_host_when_signal_9_ends_the_controller_and_resume_goes_on(
    engine: str, hosts: Cluster, bench: Bench
) -> None:
    hangs = {**ALL, "options": {"behaviour": "rank-5-hangs"}}
    bench.write(ONE, hangs, card=MEETING, limits={"timeout_s": 15})
    started = in_control(hosts, *by_command(hosts, bench, engine))
    end = time.monotonic() + 100
    while "rendezvous.py" not in str(hosts.processes("node03")):
        assert time.monotonic() < end
        assert started.poll() is None
        time.sleep(0.05)
    os.kill(controller(hosts), signal.SIGKILL)
    started.wait()
    hosts.wait_until_quiet()
    ended = hosts.run("control", *by_command(hosts, bench, engine, "--resume"), check=False)
    results = Results.model_validate_json((bench.out / "results.json").read_text())
    assert [case.outcome for case in results.cases] == [Outcome.OK, Outcome.TIMEOUT], ended.stderr
