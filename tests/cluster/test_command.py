"""``trainmark run --hosts FILE -- COMMAND``: a foreign program on two hosts, by torchrun and by mpirun."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cluster_campaigns import in_control, slurm_is_idle, wait_for

from clusters import SCRIPT, Cluster
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


THERE = "/opt/trainmark/bin/python"
"""Trainmark's own Python on the hosts, which starts faster than one with PyTorch."""

EACH_NODE = f"env RANK={{node}} {THERE} ranks.py"
"""A rank on each node without a launcher, which begins at once."""

RANKS = {
    "torchrun": f"{TORCHRUN.removesuffix(' train.py')} ranks.py",
    "torchrun-files": f"{TORCHRUN.removesuffix(' train.py')} --redirects 3 --log-dir {{run}}/node{{node}} ranks.py",
    "mpirun": f"mpirun --allow-run-as-root --tag-output -np {{world_size}} -H {{hosts}} {THERE} ranks.py",
}


class Measurement:
    """A measurement of the program, started in the control place in a folder that every host has."""

    def __init__(self, hosts: Cluster, folder: Path, out: Path) -> None:
        self.hosts, self.folder, self.out = hosts, folder, out
        for name in ("train.py", "ranks.py"):
            (folder / name).write_bytes((PROGRAMS / "command" / name).read_bytes())

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
        done = self.hosts.run("control", *self.words(command, *options), check=False, patience_s=600)
        assert (self.out / "results.json").exists(), done.stderr
        self.printed = done.stdout
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
        return [number for number, line in found if ".py --" in line and "torchrun" not in line]


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
    with measurement.started(f"{RANKS['torchrun']} --steps 100000"):
        (rank,) = measurement.ranks()
        os.kill(rank, signal.SIGKILL)

    run = measurement.result()
    assert run["outcome"] == "failed"
    assert "rank 1 on node02 was killed by signal 9 (SIGKILL)" in run["reason"]


def test_seconds_end_the_ranks_of_all_nodes(measurement: Measurement) -> None:
    run = measurement.run(f"{EACH_NODE} --steps 100000", "--seconds", "8")

    assert (run["outcome"], run["reason"]) == ("ok", "ended on purpose after 8 s")
    assert [one["host"] for one in run["rank_logs"]["ranks"]] == ["node01", "node02"]
    measurement.hosts.wait_until_quiet()


# A host is lost when half a minute has passed without a word of it; execution/test_agents.py shortens that.
@pytest.mark.rare
def test_a_cut_network_is_the_outcome_and_names_the_host(measurement: Measurement) -> None:
    with measurement.started(f"{EACH_NODE} --steps 100000"):
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


def doubts(run: dict[str, Any], code: str) -> list[str]:
    return [doubt["sentence"] for doubt in run["suspicions"] if doubt["code"] == code]


@contextmanager
def hog(hosts: Cluster, host: str) -> Iterator[None]:
    """Keep a process busy on a host."""
    command = [sys.executable, str(SCRIPT), "--state", str(hosts.state), "run", host]
    process = subprocess.Popen([*command, THERE, "-c", "while True: pass"])

    def started() -> list[int]:
        return [number for number, line in hosts.processes(host).items() if "while True" in line]

    try:
        wait_for(started)
        yield
    finally:
        for number in started():
            os.kill(number, signal.SIGKILL)
        process.wait()


def test_a_hog_is_named_with_its_host(measurement: Measurement) -> None:
    with hog(measurement.hosts, "node02"):
        run = measurement.run(f"{RANKS['mpirun']} --times --steps 150")

    # The hosts of this cluster share the counters of one kernel, but each sees its own processes alone.
    named = {sentence for sentence in doubts(run, "cpu-shared") if ": python (PID " in sentence}
    assert [" on node02 " in sentence for sentence in named] == [True], run["suspicions"]
    (sentence,) = named
    assert f"doubt       {sentence} (cpu-shared)" in measurement.printed
    assert sentence in (measurement.out / "report.md").read_text()


@pytest.mark.parametrize(
    "launcher", [pytest.param("torchrun", marks=pytest.mark.rare), "torchrun-files", "mpirun"]
)
def test_the_slow_host_is_named(launcher: str, measurement: Measurement) -> None:
    run = measurement.run(f"{RANKS[launcher]} --times --slow node02 --steps 120")

    assert run["outcome"] == "ok", run["reason"]
    ranks = [(one["rank"], one["host"], one["waits_for_data"]) for one in run["rank_logs"]["ranks"]]
    assert ranks == [(0, "node01", False), (1, "node02", True)]
    (sentence,) = doubts(run, "rank-waits-for-data")
    assert sentence.startswith("rank 1 on node02 waits ")
    assert f"doubt       {sentence} (rank-waits-for-data)" in measurement.printed
    assert sentence in (measurement.out / "report.md").read_text()


@pytest.mark.parametrize("as_job", [False, pytest.param(True, marks=pytest.mark.rare)])
def test_srun_is_measured_in_an_allocation_and_as_a_job(as_job: bool, measurement: Measurement) -> None:
    """Measure two of an allocation's three hosts, then submit the ``command.yaml`` that this wrote.

    The script of a job is golden (``tests/submission``), and submitted rarely.
    """
    hosts, out = measurement.hosts, "/root/by-srun"
    trainmark = f"{THERE} -m trainmark.cli.main"
    job = {"job": {"out": f"{out}/again", "python": THERE, "gpus": 0}}

    def on_node01(line: str) -> str:
        words = ["env", f"TRAINMARK_HOME={out}/home", "sh", "-c", f"cd {measurement.folder} && {line}"]
        return hosts.run("node01", *words, check=False, patience_s=600).stdout

    def check(results: str, nodes: list[str]) -> None:
        (run,) = json.loads(on_node01(f"cat {results}/results.json"))["cases"][0]["runs"]
        assert run["outcome"] == "ok", run["reason"]
        assert run["hosts"] == nodes
        assert [one["host"] for one in run["rank_logs"]["ranks"]] == nodes
        assert len(run["other_nodes"]) == 1, "srun's ranks on the other host are observed too"
        assert run["other_nodes"][0]["cpu_tree_s"] > 0
        (sentence,) = doubts(run, "rank-waits-for-data")
        assert sentence.startswith("rank 1 on node02 waits ")

    try:
        options = f"--nodes 2 --out {out}/first --repeats 1"
        program = f"srun --label -n 2 -w node01,node02 {THERE} ranks.py --times --slow node02 --steps 300"
        wait_for(lambda: slurm_is_idle(hosts))
        on_node01(f"salloc --quiet --nodes=3 --exclusive {trainmark} run {options} -- {program}")
        check(f"{out}/first", ["node01", "node02"])
        if not as_job:
            return

        on_node01(f"printf %s {shlex.quote(json.dumps(job))} > {out}/job.yaml")
        planned = f"{trainmark} plan {out}/first/command.yaml --hosts {out}/job.yaml --as sbatch"
        wait_for(lambda: slurm_is_idle(hosts))
        number = on_node01(f"{planned} > {out}/job.sh && sbatch --parsable {out}/job.sh").strip()
        assert number.isdecimal(), number
        wait_for(lambda: not on_node01(f"squeue --noheader --job={number} 2>/dev/null"))
        check(f"{out}/again", ["node01", "node02"])
    finally:
        hosts.run("control", "scancel", "--user=root", check=False)
        hosts.wait_until_quiet()
        hosts.ssh("node01", f"rm -r {out}")
