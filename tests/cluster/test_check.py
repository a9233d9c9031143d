"""`trainmark check` on a cluster: a problem is reported for its host, and nothing is left on any host."""

import os
from pathlib import Path

import pytest

from clusters import HOSTS, Cluster
from trainmark.check import CheckOptions, check_hosts
from trainmark.check.network import check_network
from trainmark.node import RemoteHost, connect_hosts
from trainmark.schema.check import Level
from trainmark.suite import load_hosts

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.xdist_group("cluster"),
]


@pytest.fixture(autouse=True)
def _one_short_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connect each pair of hosts once, and time each device for a moment: no test asks how fast they are."""
    monkeypatch.setattr("trainmark.check.network._ROUNDS", 1)
    monkeypatch.setattr("trainmark.check.bandwidth._ROUND_S", 0.02)


def connected(hosts: Cluster) -> tuple[RemoteHost, ...]:
    """Return the hosts' agents by ssh, from this process."""
    made = connect_hosts(load_hosts(str(hosts.state / "hosts.yaml"), os.environ))
    return tuple(host for host in made if isinstance(host, RemoteHost))


@pytest.mark.usefixtures("tidy")
def test_a_host_that_refuses_is_reported_and_the_others_are_checked(hosts: Cluster, tmp_path: Path) -> None:
    with hosts.fault("refuse", "node02"):
        chosen = connected(hosts)
        try:
            report = check_hosts(CheckOptions(chosen, tmp_path / "home", tmp_path / "out", rounds=(1, 1)))
        finally:
            for host in chosen:
                host.close()
    (found,) = [finding for finding in report.findings if finding.level is Level.FAILURE]
    assert (found.check, found.hosts) == ("reachable", ("node02",))
    assert "Connection refused" in found.found
    others = tuple(host for host in HOSTS if host != "node02")
    (ports,) = [finding for finding in report.findings if finding.check == "ports"]
    assert (ports.level, ports.hosts) == (Level.OK, others)
    assert ports.found.startswith("6 connections in both directions: ")
    assert {timing.host for timing in report.timings} == set(others)


# The library that shifts the clock leaves files behind, so this test does not use `tidy`.
def test_a_clock_that_is_90_s_off_is_found_with_its_error(hosts: Cluster) -> None:
    with hosts.fault("clock", "node03", "90"):
        chosen = connected(hosts)
        try:
            network = check_network(chosen, 60.0)
        finally:
            for host in chosen:
                host.close()
    (found,) = [finding for finding in network.findings if finding.level is Level.WARNING]
    assert (found.check, found.hosts) == ("clocks", ("node03",))
    (clock,) = [clock for clock in network.clocks if clock.host == "node03"]
    assert abs(clock.offset_s - 90) <= clock.error_s + 0.05
