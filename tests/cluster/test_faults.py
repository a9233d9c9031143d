"""What goes wrong while ranks step together: the host and the rank are named, the other case is measured."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
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
    wait_for,
)

from clusters import HOSTS, SCRIPT, Cluster
from fakes import CARD, SUITE, Bench, Silent
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import CaseResult, Results

pytestmark = ON_CLUSTER

STEPPING = card_of("stepping.py")
MEMORY = Path("/sys/fs/cgroup/memory")


def two_that(behaviour: str) -> dict[str, Any]:
    return {**TWO, "options": {"behaviour": behaviour}}


def measured(
    hosts: Cluster, bench: Bench, behaviour: str, strike: Silent | None = None, **settings: Any
) -> CaseResult:
    """Return what becomes of a case on two hosts; the one on one host after it has to be measured."""
    bench.write(two_that(behaviour), ONE, card=STEPPING, **settings)
    wrong, other = run_on(hosts, bench, strike).cases
    assert other.outcome is Outcome.OK, other.reason
    return wrong


def test_a_rank_that_ends_without_a_word_is_named_and_not_the_one_that_lost_it(
    hosts: Cluster, bench: Bench
) -> None:
    wrong = measured(hosts, bench, "exits-1-7")
    assert wrong.outcome is Outcome.FAILED
    assert (wrong.reason or "").startswith("rank 1 on node02 ended with exit code 3: "), wrong.reason


@pytest.mark.rare
def test_a_rank_that_never_comes_to_the_others_is_named_at_the_limit(hosts: Cluster, bench: Bench) -> None:
    wrong = measured(hosts, bench, "hangs-1-7", limits={"stall_timeout_s": 30})
    assert wrong.outcome is Outcome.TIMEOUT
    reported = (
        r"at step 6 \(.*\); rank 1 on node02 was in go_wrong \(stepping.py:\d+\), while rank 0 on node01 "
    )
    reported += r"waited in all_reduce \(stepping.py:\d+\)$"
    assert re.search(reported, wrong.reason or ""), wrong.reason


@pytest.mark.rare
@pytest.mark.skipif(not MEMORY.is_dir(), reason="no control groups for memory here")
def test_a_rank_that_the_kernel_ends_for_memory_is_out_of_memory(hosts: Cluster, bench: Bench) -> None:
    group = MEMORY / f"trainmark-test-{os.getpid()}"
    group.mkdir()
    try:

        def bound() -> None:
            (group / "memory.limit_in_bytes").write_text(str(200 << 20))
            (group / "cgroup.procs").write_text(str(rank_on(hosts, "node02")))

        wrong = measured(hosts, bench, "grows-1-500", Striker(bound))
        hosts.wait_until_quiet()
    finally:
        group.rmdir()
    assert wrong.outcome is Outcome.OOM
    assert wrong.reason == "rank 1 on node02 was killed by the kernel because memory ran out"


@pytest.mark.rare
def test_a_port_that_somebody_takes_before_the_ranks_meet_is_named_with_the_host(
    hosts: Cluster, bench: Bench
) -> None:
    def take() -> None:
        reported = Path(f"/proc/{rank_on(hosts, 'node01')}/environ").read_bytes().decode()
        port = re.search(r"MASTER_PORT=(\d+)", reported)
        assert port
        listen = f"import socket, sys; s = socket.create_server(('', {port[1]})); print(flush=True); sys.stdin.read()"
        words = [sys.executable, str(SCRIPT), "--state", str(hosts.state), "run", "node01"]
        squatter = subprocess.Popen(
            [*words, "/opt/trainmark/bin/python", "-c", listen], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        squatters.append(squatter)
        assert squatter.stdout
        squatter.stdout.readline()

    squatters: list[subprocess.Popen[bytes]] = []
    try:
        wrong = measured(hosts, bench, "late-20", EarlyStriker(take))
    finally:
        for squatter in squatters:
            squatter.communicate()
    assert wrong.outcome is Outcome.FAILED
    assert re.match(r"rank 0 on node01 .*Address already in use", wrong.reason or ""), wrong.reason


@pytest.mark.rare
def test_a_host_that_is_a_third_slower_is_measured_all_the_same(hosts: Cluster, bench: Bench) -> None:
    with hosts.fault("slow", "node02", "1.3"):
        slow = measured(hosts, bench, "well")
    assert slow.outcome is Outcome.OK, slow.reason


@contextmanager
def under_way(hosts: Cluster, *words: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Have a command in the control place whose ranks are under way on node02."""
    started = in_control(hosts, *words)
    try:
        wait_for(lambda: "stepping.py" in str(hosts.processes("node02")))
        yield started
    finally:
        started.wait()


def test_ctrl_c_leaves_nothing_on_any_host_and_resume_goes_on(hosts: Cluster, bench: Bench) -> None:
    bench.write(ONE, two_that("lasts-5"), card=STEPPING)
    with under_way(hosts, *by_command(hosts, bench, "ssh")):
        os.kill(controller(hosts), signal.SIGINT)
    hosts.wait_until_quiet()
    assert not [path for host in HOSTS for path in hosts.files(host) if str(bench.folder) in f"/{path}"]
    # What the run had written lies here.
    assert [path for path in bench.out.rglob("train.node1.log") if "2n1g" in str(path)]
    results = run_on(hosts, bench, resume=True)
    assert [case.outcome for case in results.cases] == [Outcome.OK, Outcome.OK]


@pytest.mark.rare
@pytest.mark.parametrize("how", ["cancelled", "told", "out-of-time"])
def test_a_slurm_job_that_is_ended_leaves_nothing_and_goes_on_where_it_was(how: str, hosts: Cluster) -> None:
    """The script of ``plan --as sbatch`` measures the suite, on hosts that share no disk.

    ``told``: it is sent the signal that announces the end of its time, ends the run in hand and has itself queued
    again.
    """
    folder, python = f"/root/slurm-{how}", "/opt/trainmark/bin/python"
    lasts = {"cancelled": 20, "told": 20, "out-of-time": 90}[how]
    card = {**CARD, **STEPPING, "source": {"kind": "folder", "path": "/opt/programs"}}
    plain = {"workload": "fake", "framework": "fake", "model": "good", "batch_per_device": 4, "device": "cpu"}
    cases = [plain | ONE, plain | two_that(f"lasts-{lasts}")]
    suite = {**SUITE, "protocol": {"order_seed": None, **SUITE["protocol"]}, "cases": cases}
    limit = {"time_limit_s": 600} if how == "told" else {}
    job = {
        "out": f"{folder}/out",
        "python": python,
        "slurm": {"options": ["--nodelist=node01,node02"]},
        **limit,
    }
    for name, text in (
        ("card.yaml", yaml.safe_dump(card)),
        ("suite.yaml", yaml.safe_dump(suite)),
        ("hosts.yaml", yaml.safe_dump({"job": job})),
    ):
        hosts.run("node01", "sh", "-c", f'mkdir -p {folder}; printf %s "$1" > {folder}/{name}', "sh", text)
    plan = f"{python} -m trainmark.cli.main plan suite.yaml --hosts hosts.yaml --as sbatch > job"
    hosts.run("node01", "sh", "-c", f"cd {folder} && {plan}")

    def submitted(minutes: int) -> str:
        words = f"sbatch --parsable --time={minutes} {folder}/job"
        return hosts.run("node01", "sh", "-c", f"cd {folder} && {words}").stdout.strip()

    try:
        number = submitted(1 if how == "out-of-time" else 10)
        wait_for(lambda: "stepping.py" in str(hosts.processes("node02")))
        if how == "cancelled":
            hosts.run("control", "scancel", number)
        elif how == "told":
            hosts.run("control", "scancel", "--batch", "--signal=USR1", number)
        hosts.wait_until_quiet()
        first = hosts.run("node01", "sh", "-c", f"ls -d {folder}/out/runs/*1n2g*/*").stdout.split()
        if how != "told":
            number = submitted(10)
        finished = f"test -f {folder}/out/report.html && cat {folder}/out/results.json"
        wait_for(
            lambda: hosts.run("control", "squeue", "--noheader", f"--job={number}", check=False).stdout == ""
        )
        reported = hosts.run("node01", "sh", "-c", finished).stdout
        results = Results.model_validate_json(reported)
        assert [case.outcome for case in results.cases] == [Outcome.OK, Outcome.OK], reported
        # What was measured before is not measured again.
        assert hosts.run("node01", "sh", "-c", f"ls -d {folder}/out/runs/*1n2g*/*").stdout.split() == first
        hosts.wait_until_quiet()
    finally:
        hosts.run("control", "scancel", "--user=root", check=False)
        hosts.wait_until_quiet()
        hosts.ssh("node01", f"rm -r {folder}")
