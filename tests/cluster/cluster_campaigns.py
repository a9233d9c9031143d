"""Campaigns of the tests' own programs on a cluster: their cases, what strikes them, and where they run."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from clusters import ALLOCATED, HOSTS, SCRIPT, Cluster
from fakes import CARD, Bench, Silent
from trainmark.campaign import run_campaign
from trainmark.node import RemoteHost, connect_hosts
from trainmark.schema.results import Results
from trainmark.suite import load_hosts

ON_CLUSTER = [
    pytest.mark.cluster,
    pytest.mark.xdist_group("cluster"),
    pytest.mark.usefixtures("tidy"),
]
"""The marks of tests that leave nothing on the cluster that all share."""

TWO = {"nodes": 2, "devices_per_node": 1}
ONE = {"nodes": 1, "devices_per_node": 2}
RANKS = ("rendezvous.py", "stepping.py")
"""The programs that are started once a rank."""


def card_of(program: str) -> dict[str, Any]:
    """Return what the card of a program that is started once a rank says besides a fake one's."""
    return {
        "launcher": "ranks",
        "command": [f"{{source}}/{program}", *CARD["command"][1:]],
        "axes": {**CARD["axes"], "devices_per_node": {}},
    }


class Striker(Silent):
    """Does one thing when a run is under way."""

    def __init__(self, strike: Callable[[], None]) -> None:
        self._strike: Callable[[], None] | None = strike

    def pulse(self, pulse: Any) -> None:
        if self._strike is not None and self.is_time(pulse):
            strike, self._strike = self._strike, None
            strike()

    def is_time(self, pulse: Any) -> bool:
        """Say whether the ranks have met, of which the first then tells its steps."""
        return pulse.step is not None


class EarlyStriker(Striker):
    """Does one thing as soon as a run is known to have begun."""

    def is_time(self, pulse: Any) -> bool:
        return True


@contextmanager
def connected(hosts: Cluster) -> Iterator[tuple[Any, ...]]:
    """Have the hosts' agents by ssh, from this process."""
    made = connect_hosts(load_hosts(str(hosts.state / "hosts.yaml"), os.environ))
    try:
        yield made
    finally:
        for host in made:
            assert isinstance(host, RemoteHost)
            host.close()


def run_on(hosts: Cluster, bench: Bench, readers: Silent | None = None, resume: bool = False) -> Results:
    """Run a bench's suite on the hosts by ssh, from this process; ``audience`` is who watches."""
    with connected(hosts) as chosen:
        return run_campaign(replace(bench.order(resume), hosts=chosen), readers or Silent()).results


def by_command(hosts: Cluster, bench: Bench, engine: str, *more: str) -> list[str]:
    words = bench.words("--hosts", str(hosts.state / "hosts.yaml"), "--engine", engine, *more)
    return [
        *ALLOCATED.get(engine, ()),
        "env",
        f"TRAINMARK_HOME={bench.folder / 'home'}",
        sys.executable,
        "-m",
        "trainmark.cli.main",
        *words,
    ]


def in_control(hosts: Cluster, *words: str) -> "subprocess.Popen[bytes]":
    """Start a command in the control place."""
    place = [sys.executable, str(SCRIPT), "--state", str(hosts.state), "run", "control"]
    return subprocess.Popen(
        [*place, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def rank_on(hosts: Cluster, host: str) -> int:
    """Return the number of the one rank that is on a host."""
    (number,) = [
        number for number, line in hosts.processes(host).items() if any(program in line for program in RANKS)
    ]
    return number


def controller(hosts: Cluster) -> int:
    """Return the number of the trainmark in the control place."""
    begin = f"{sys.executable} -m trainmark.cli.main"
    (number,) = [number for number, line in hosts.processes("control").items() if line.startswith(begin)]
    return number


def wait_for(holds: Callable[[], object]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def slurm_is_idle(hosts: Cluster) -> bool:
    """Return whether Slurm has all hosts idle: one whose network was cut is down until it registers again."""
    answer = hosts.run("control", "sinfo", "--noheader", "--Node", "--format=%N %t", check=False)
    return answer.stdout.splitlines() == [f"{host} idle" for host in HOSTS]
