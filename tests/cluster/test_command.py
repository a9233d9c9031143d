"""``trainmark run --hosts FILE -- COMMAND``: a foreign program on two hosts, by torchrun and by mpirun."""

import json
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cluster_campaigns import in_control, wait_for

from clusters import Cluster
from fakes import PROGRAMS
from frameworks import needs_framework

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.training,
    pytest.mark.xdist_group("cluster"),
    pytest.mark.usefixtures("tidy"),
    needs_framework("pytorch"),
]

PYTHON = Path(os.environ.get("TRAINMARK_TEST_ENVS", "/nowhere")) / "pytorch" / "bin"
TORCHRUN = (
    f"{PYTHON}/torchrun --nnodes {{nodes}} --node-rank {{node}} --nproc-per-node 1 "
    "--master-addr {master} --master-port {port} train.py"
)
MPIRUN = (
    "mpirun --allow-run-as-root -np {world_size} -H {hosts} "
    f"{PYTHON}/python train.py --quiet --meet tcp://{{master}}:{{port}}"
)


class Measurement:
    """A measurement of the program, started in the control place in a folder that every host has."""

    def __init__(self, hosts: Cluster, folder: Path, out: Path) -> None:
        self.hosts, self.folder, self.out = hosts, folder, out
        (folder / "train.py").write_bytes((PROGRAMS / "command" / "train.py").read_bytes())

    def words(self, command: str, *options: str) -> list[str]:
        """Return the words that measure a command."""
        words = [
            "run",
            "--hosts",
            str(self.hosts.state / "hosts.yaml"),
            "--nodes",
            "2",
            "--out",
            str(self.out),
        ]
        words += ["--repeats", "1", *options, "--", *shlex.split(command)]
        line = f"cd {self.folder} && exec {sys.executable} -m trainmark.cli.main {shlex.join(words)}"
        return ["env", f"TRAINMARK_HOME={self.out.parent / 'home'}", "sh", "-c", line]

    def run(self, command: str, *options: str) -> dict[str, Any]:
        """Measure a command; return its one run."""
        done = self.hosts.run("control", *self.words(command, *options), check=False)
        assert (self.out / "results.json").exists(), done.stderr
        return self.result()

    def result(self) -> dict[str, Any]:
        """Return the one run."""
        document = json.loads((self.out / "results.json").read_text())
        (run,) = document["cases"][0]["runs"]
        found: dict[str, Any] = run
        return found

    @contextmanager
    def started(self, command: str, *options: str) -> Iterator[None]:
        """Measure a command; enter as soon as its ranks train."""
        process = in_control(self.hosts, *self.words(command, *options))
        try:
            wait_for(self.ranks)
            yield
            process.wait(120)
        finally:
            process.kill()
            process.wait()

    def ranks(self) -> list[int]:
        """Return the processes of the rank on node02, which its launcher names too."""
        found = self.hosts.processes("node02").items()
        return [number for number, line in found if "train.py" in line and "torchrun" not in line]


@pytest.fixture
def measurement(
    hosts: Cluster, repositories: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> Measurement:
    folder = repositories / request.node.name.replace("[", "-").replace("]", "")
    folder.mkdir()
    return Measurement(hosts, folder, tmp_path / "out")


@pytest.mark.parametrize("command", [TORCHRUN, MPIRUN], ids=["torchrun", "mpirun"])
def test_a_program_on_two_hosts_is_measured_by_its_command_line(
    command: str, measurement: Measurement
) -> None:
    run = measurement.run(command)

    assert run["outcome"] == "ok", run["reason"]
    assert run["hosts"] == ["node01", "node02"]
    assert run["measurement"]["throughput"] > 0


def test_a_killed_rank_is_named_with_its_host(measurement: Measurement) -> None:
    with measurement.started(f"{TORCHRUN} --steps 100000"):
        (rank,) = measurement.ranks()
        os.kill(rank, signal.SIGKILL)

    run = measurement.result()
    assert run["outcome"] == "failed"
    assert "rank 1 on node02 was killed by signal 9 (SIGKILL)" in run["reason"]


def test_seconds_end_the_ranks_of_all_nodes(measurement: Measurement) -> None:
    run = measurement.run(f"{TORCHRUN} --steps 100000", "--seconds", "45")

    assert (run["outcome"], run["reason"]) == ("ok", "ended on purpose after 45 s")
    measurement.hosts.wait_until_quiet()


def test_a_cut_network_is_the_outcome_and_names_the_host(measurement: Measurement) -> None:
    with measurement.started(f"{TORCHRUN} --steps 100000"):
        measurement.hosts.break_("cut", "node02")

    measurement.hosts.break_("heal", "node02")
    run = measurement.result()
    assert run["outcome"] == "failed"
    assert "node02" in run["reason"]
    # A lost host keeps the files of its run; the next run in the same folder removes them.
    measurement.hosts.wait_until_quiet()
    for path in measurement.hosts.files("node02"):
        if str(measurement.out).lstrip("/") in path:
            measurement.hosts.ssh("node02", f"rm '/{path}'")
