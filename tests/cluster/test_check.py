"""`trainmark check` on a cluster: a problem is reported for its host, and nothing is left on any host."""

import subprocess
import sys
from pathlib import Path

import pytest
from cluster_campaigns import connected

from clusters import HOSTS, Cluster
from trainmark.check import CheckOptions, check_hosts
from trainmark.check.network import check_network
from trainmark.schema.check import Level

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.xdist_group("cluster"),
]


@pytest.fixture(autouse=True)
def _one_short_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connect each pair of hosts once, and time each device for a moment: no test asks how fast they are."""
    monkeypatch.setattr("trainmark.check.network._ROUNDS", 1)
    monkeypatch.setattr("trainmark.check.bandwidth._ROUND_S", 0.02)


@pytest.mark.usefixtures("tidy")
def test_a_host_that_refuses_is_reported_and_the_others_are_checked(hosts: Cluster, tmp_path: Path) -> None:
    with hosts.fault("refuse", "node02"), connected(hosts) as chosen:
        report = check_hosts(CheckOptions(chosen, tmp_path / "home", tmp_path / "out", rounds=(1, 1)))
    (found,) = [finding for finding in report.findings if finding.level is Level.FAILURE]
    assert (found.check, found.hosts) == ("reachable", ("node02",))
    assert "Connection refused" in found.found
    others = tuple(host for host in HOSTS if host != "node02")
    (ports,) = [finding for finding in report.findings if finding.check == "ports"]
    assert (ports.level, ports.hosts) == (Level.OK, others)
    assert ports.found.startswith("6 connections in both directions: ")
    assert {timing.host for timing in report.timings} == set(others)


@pytest.mark.rare
def test_a_slow_host_is_found_whatever_else_the_machine_does(
    hosts: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By all cores a host had to be 5.5 times slower, with a load of 10 on this machine."""
    monkeypatch.setattr("trainmark.check.bandwidth._ROUND_S", 0.5)
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(6)]
    try:
        with hosts.fault("slow", "node03", "3"), connected(hosts) as chosen:
            report = check_hosts(CheckOptions(chosen, tmp_path / "home", tmp_path / "out", rounds=(5, 5)))
    finally:
        for one in load:
            one.kill()
            one.wait()
    cores = [finding for finding in report.findings if finding.check == "one-core"]
    assert [finding.hosts for finding in cores if finding.level is Level.WARNING] == [("node03",)], cores
    assert "times slower than the others" in cores[0].found


# The library that shifts the clock leaves files behind, so this test does not use `tidy`.
def test_a_clock_that_is_90_s_off_is_found_with_its_error(hosts: Cluster) -> None:
    with hosts.fault("clock", "node03", "90"), connected(hosts) as chosen:
        network = check_network(chosen, 60.0)
    (found,) = [finding for finding in network.findings if finding.level is Level.WARNING]
    assert (found.check, found.hosts) == ("clocks", ("node03",))
    (clock,) = [clock for clock in network.clocks if clock.host == "node03"]
    assert abs(clock.offset_s - 90) <= clock.error_s + 0.05
