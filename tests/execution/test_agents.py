"""Runs on hosts behind agents: what is lost with an agent, with its controller, and with a host that is not there."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from agents import agent_host, hosts_file, stand_in
from fakes import CARD, Bench, Silent, alive
from trainmark.campaign import run_campaign
from trainmark.campaign.transfer import send_data, send_program
from trainmark.errors import TrainmarkError
from trainmark.node import Host, HostGoneError, Job, LocalHost, RemoteHost, remedy_of, remote_path
from trainmark.node.connection import HELLO, PART_BYTES, Sender, receive
from trainmark.node.jobs import probe_runner
from trainmark.node.network import find_interface
from trainmark.node.processes import MARK
from trainmark.schema.outcome import Outcome
from trainmark.schema.plan import Command, NodeResources
from trainmark.schema.results import Results

pytestmark = pytest.mark.process

FOUR_CORES = NodeResources(cores=4, gpus=0)
MEETING: dict[str, Any] = {
    "launcher": "ranks",
    "command": ["{source}/rendezvous.py", *CARD["command"][1:]],
    "axes": {**CARD["axes"], "devices_per_node": {}},
}


@pytest.fixture(autouse=True)
def _no_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[RemoteHost]:
    host = agent_host("faraway", tmp_path / "disk")
    yield host
    host.close()


def run(bench: Bench, hosts: tuple[Host, ...], *cases: dict[str, Any], **settings: Any) -> Results:
    bench.write(*cases, card=MEETING, **settings)
    return run_campaign(replace(bench.order(), hosts=hosts), Silent()).results


def job(folder: Path, *words: str) -> Job:
    return Job((Command(0, words, {}),), folder, folder / "log", str(folder))


def marked(mark: str) -> list[int]:
    """Return the processes that carry a mark."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{MARK}={mark}".encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return [pid for pid in found if alive(pid)]


def gone_within(seconds: float, mark: str) -> bool:
    deadline = time.monotonic() + seconds
    while marked(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not marked(mark)


def test_two_nodes_behind_agents_train_one_model_and_their_files_come_here(
    bench: Bench, tmp_path: Path
) -> None:
    hosts = tuple(agent_host(name, tmp_path / f"disk of {name}") for name in ("first", "second"))
    results = run(bench, hosts, {"nodes": 2, "devices_per_node": 1})
    for one in hosts:
        one.close()
    (ran,) = results.cases[0].runs
    assert ran.outcome is Outcome.OK, ran.reason
    folder = bench.out / ran.directory
    assert [(folder / f"sum.rank{rank}").read_text() for rank in range(2)] == ["3", "3"]
    assert "rank 1 has 3" in (folder / "train.node1.log").read_text()
    for name in ("telemetry.jsonl", "telemetry.node1.jsonl"):
        assert len((folder / name).read_text().splitlines()) >= 2, name
    assert len(json.loads((folder / "manifest.json").read_text())["nodes"]) == 2
    stored = json.loads((folder / "outcome.json").read_text())
    assert [(node["host"], node["exit_code"]) for node in stored["nodes"]] == [("first", 0), ("second", 0)]
    assert all(abs(node["clock_offset_s"]) <= node["clock_error_s"] + 0.05 for node in stored["nodes"])
    assert not [path for path in tmp_path.glob("disk*/**/*") if path.is_file()], "nothing is left there"


def test_hosts_that_share_a_disk_which_is_not_ours_give_what_both_wrote(bench: Bench, tmp_path: Path) -> None:
    hosts = tuple(agent_host(name, tmp_path / "their disk") for name in ("first", "second"))
    results = run(bench, hosts, {"nodes": 2, "devices_per_node": 1})
    for one in hosts:
        one.close()
    (ran,) = results.cases[0].runs
    assert ran.outcome is Outcome.OK, ran.reason
    assert "rank 1 has 3" in (bench.out / ran.directory / "train.node1.log").read_text()


def test_a_program_and_a_data_set_that_a_host_lacks_are_sent_to_it_once(
    host: RemoteHost, tmp_path: Path
) -> None:
    program, reported = tmp_path / "program", list[str]()
    (program / "code").mkdir(parents=True)
    (program / "code" / "train.py").write_text("print('hello')")
    (program / "run").write_text("#!/bin/sh\n")
    (program / "run").chmod(0o755)
    # Where the host's disk is another one, the same path is not there.
    host.map_path(tmp_path, tmp_path / "their disk")
    there = tmp_path / "their disk" / "home" / "sent"
    send_program(host, program, (), tmp_path / "home", reported.append)
    (sent,) = there.iterdir()
    assert remote_path(host.paths, program / "code" / "train.py") == sent / "code" / "train.py"
    assert (sent / "code" / "train.py").read_text() == "print('hello')"
    assert os.access(sent / "run", os.X_OK)
    assert reported == [f"sending {program} to faraway"]
    send_program(host, program, (), tmp_path / "home", reported.append)
    send_data(host, program / "code", reported.append)
    assert len(reported) == 1
    data = tmp_path / "data"
    data.mkdir()
    (data / "shard").write_bytes(b"\x00" * 100)
    send_data(host, data, reported.append)
    assert (tmp_path / "their disk" / "data" / "shard").read_bytes() == b"\x00" * 100
    assert not list((tmp_path / "their disk").glob(".data*"))


def test_what_is_too_much_to_send_is_reported(
    host: RemoteHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainmark.campaign.transfer.MOST_BYTES", 10)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "shard").write_bytes(b"\x00" * 100)
    host.map_path(tmp_path / "data", tmp_path / "elsewhere")
    with pytest.raises(
        TrainmarkError,
        match=r"data is not on faraway, and 0\.0 GB are too much to send; copy it to the host by hand",
    ):
        send_data(host, tmp_path / "data", print)


def test_a_host_that_refuses_costs_the_cases_that_need_it_and_no_other(bench: Bench) -> None:
    results = run(
        bench,
        (LocalHost("first", machine=FOUR_CORES), agent_host("other", address="refused")),
        {"nodes": 2, "devices_per_node": 1},
        {"nodes": 1, "devices_per_node": 2},
    )
    two, one = results.cases
    assert (two.outcome, two.reason) == (
        Outcome.FAILED,
        "other: no agent could be started on it (ssh ended with code 255: "
        "ssh: connect to host refused port 22: Connection refused); "
        "start sshd there, or correct 'port' or 'address' in the hosts file",
    )
    assert one.outcome is Outcome.OK, one.runs


def test_a_host_that_is_not_there_is_tried_once_a_case_and_not_with_every_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = tmp_path / "tries"
    place = tmp_path / "other"
    place.mkdir()
    (place / "ssh").write_text(f"#!/bin/sh\necho one >> {tries}\nexit 255\n")
    (place / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")
    host = agent_host("other")
    assert [host.machine().cores for _ in range(3)] == [0, 0, 0]
    assert "ended with code 255" in (host.machine().no_openmpi or "")
    assert tries.read_text() == "one\n"
    assert host.unreachable() is not None
    assert tries.read_text() == "one\none\n"


RULE = "-" * 74
"""Stands above and below what OpenMPI says."""


def ssh_that_says(words: str, code: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ssh be a program that writes ``words`` to its standard error and ends."""
    (folder / "ssh").write_text(f"#!/bin/sh\ncat >&2 <<END\n{words}\nEND\nexit {code}\n")
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


IN_AN_ALLOCATION = "(in an allocation: --hosts FILE --engine slurm)"
NO_PYTHON = (
    "slurmstepd-n1: error: execve(): /x/python: No such file or directory\n"
    "srun: error: n1: task 0: Exited with exit code 2"
)
UNREACHED = (
    f"Host key verification failed.\n{RULE}\nORTE was unable to reliably start one or more daemons.\n"
    f"This usually is caused by:\n\n* lack of authority to execute on one or more specified nodes.\n{RULE}"
)
NOT_THERE = (
    f"{RULE}\nmpirun was unable to launch the application as it could not access\nor execute an executable:\n\n"
    f"Executable: /opt/there/python\nNode: other\n\nwhile attempting to start process rank 0.\n{RULE}"
)


@pytest.mark.parametrize(
    ("words", "code", "explanation"),
    [
        pytest.param(
            UNREACHED,
            255,
            "Host key verification failed.; ORTE was unable to reliably start one or more daemons.",
            id="of causes in general the first line, beside the one of this time",
        ),
        pytest.param(
            NO_PYTHON,
            2,
            "slurmstepd-n1: error: execve(): /x/python: No such file or directory",
            id="srun's own line repeats the code",
        ),
        pytest.param(
            NOT_THERE,
            132,
            "mpirun was unable to launch the application as it could not access or execute an executable: "
            "Executable: /opt/there/python Node: other",
            id="a sentence to its end, with the file that is not there",
        ),
    ],
)
def test_the_engines_message_is_reported(
    words: str, code: int, explanation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh_that_says(words, code, tmp_path, monkeypatch)
    problem = f"other: no agent could be started on it (ssh ended with code {code}: {explanation})"
    assert agent_host("other").unreachable() == f"{problem}; {remedy_of(problem)}"


def test_a_program_that_is_no_agent_is_reported(tmp_path: Path) -> None:
    host = agent_host("other", address="silent")
    assert (host.unreachable() or "").startswith(
        "other: no agent could be started on it (ssh ended with code 0);"
    )
    host = agent_host("other", python=tmp_path / "no-python")
    reported = host.unreachable() or ""
    assert reported.startswith("other: no agent could be started on it (ssh ended with code 127")
    assert "no-python" in reported
    assert reported.endswith(
        "set 'python' in the hosts file to the interpreter that has it " + IN_AN_ALLOCATION
    )


def test_an_agent_that_is_killed_fails_its_run_and_leaves_nothing_and_the_next_case_has_a_new_one(
    bench: Bench, tmp_path: Path
) -> None:
    hosts = (LocalHost("first", machine=FOUR_CORES), agent_host("second", tmp_path / "disk"))

    class Killer(Silent):
        def pulse(self, pulse: Any) -> None:
            pids = [int(word) for word in _agents_of(os.getpid()) if pulse.step is not None]
            for pid in pids if not self.done else ():
                self.done = True
                os.kill(pid, signal.SIGKILL)

        done = False

    behaviour = {"nodes": 2, "devices_per_node": 1, "options": {"behaviour": "rank-1-hangs"}}
    bench.write(behaviour, {"nodes": 2, "devices_per_node": 1}, card=MEETING, limits={"timeout_s": 100})
    results = run_campaign(replace(bench.order(), hosts=hosts), Killer()).results
    hosts[1].close()
    killed, next_one = results.cases
    assert killed.outcome is Outcome.FAILED
    assert "second: the connection to it was lost" in (killed.reason or "")
    assert next_one.outcome is Outcome.OK, next_one.runs
    assert not marked(str(bench.out))


def _agents_of(parent: int) -> list[str]:
    words = ["pgrep", "-P", str(parent), "-f", "trainmark.node.agent"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.split()


def test_nothing_is_left_on_a_host_whose_controller_was_killed(bench: Bench, tmp_path: Path) -> None:
    bench.write({"nodes": 2, "devices_per_node": 1, "options": {"behaviour": "rank-1-hangs"}}, card=MEETING)
    hosts = hosts_file(tmp_path / "hosts.yaml", "first", "second", folder=tmp_path / "disks")
    controller = subprocess.Popen(
        [sys.executable, "-m", "trainmark.cli.main", *bench.words("--hosts", str(hosts))],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    mark = str(bench.out.resolve())
    deadline = time.monotonic() + 100
    while not list((tmp_path / "disks").rglob("sum.rank1")) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert marked(mark)
    controller.kill()
    controller.communicate()
    assert gone_within(60, mark)


def test_a_host_answers_as_this_machine_does(host: RemoteHost, tmp_path: Path) -> None:
    here = LocalHost()
    assert host.machine().cores == here.machine().cores
    assert host.which("sh") == here.which("sh")
    path = tmp_path / "folder" / "file"
    host.put(path, b"\x00\xff" * 70_000)
    assert host.read(path) == b"\x00\xff" * 70_000
    assert host.read(tmp_path / "absent") is None
    assert host.has(path)
    assert host.digests(path.parent) == here.digests(path.parent)
    (path.parent / "link").symlink_to("/etc/passwd")
    (path.parent / "near").symlink_to("file")
    (path.parent / "tree").mkdir()
    (path.parent / "tree" / "leaf").write_text("leaf")
    host.get(path.parent, tmp_path / "copy", without={"tree"})
    assert sorted(found.name for found in (tmp_path / "copy").iterdir()) == ["file", "near"]
    host.remove(path.parent)
    assert not path.parent.exists()
    with host.locked(tmp_path / "lock"), host.scratch() as folder:
        assert folder.is_dir()
    assert not folder.exists()
    with pytest.raises(OSError, match="faraway:"):
        host.put(Path("/proc/nothing"), b"")
    assert host.interface == "lo"


def test_a_job_is_started_watched_and_ended(host: RemoteHost, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    pid = host.start(job(folder, "sh", "-c", "echo step 3/9; exit 5"))
    assert host.wait(pid, 60) == 5
    assert (host.job_status(pid).step, host.job_status(pid).steps) == (3, 9)
    assert host.kill(str(folder), pid) == 0
    assert host.reap(pid).code == 5
    endless = host.start(job(folder, "sleep", "600"))
    assert host.wait(endless, 0.1) is None
    assert host.kill(str(folder), endless) == 1
    assert host.reap(endless).code == -signal.SIGTERM
    missing = host.start(job(folder, str(tmp_path / "no-program")))
    assert host.wait(missing, 60) == 127
    host.kill(str(folder), missing)
    host.reap(missing)


def test_a_rank_that_somebody_has_stopped_is_named(host: RemoteHost, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    pid = host.start(
        Job((Command(3, ("sh", "-c", "kill -STOP $$"), {"RANK": "3"}),), folder, folder / "log", str(folder))
    )
    deadline = time.monotonic() + 60
    while not host.stopped(str(folder), pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert host.stopped(str(folder), pid) == LocalHost().stopped(str(folder), pid) == (3,)
    host.kill(str(folder), pid)
    host.reap(pid)


def test_letting_a_host_go_ends_what_runs_there(host: RemoteHost, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    host.start(job(folder, "sh", "-c", "setsid sleep 600 & sleep 600"))
    deadline = time.monotonic() + 60
    while len(marked(str(folder))) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    host.close()
    assert gone_within(60, str(folder))


def test_a_large_file_goes_in_parts_in_both_directions(host: RemoteHost, tmp_path: Path) -> None:
    content = os.urandom(5 * PART_BYTES + 17)
    host.put(tmp_path / "folder" / "large", content)
    assert (tmp_path / "folder" / "large").read_bytes() == content
    assert host.read(tmp_path / "folder" / "large") == content
    host.get(tmp_path / "folder", tmp_path / "copy")
    assert (tmp_path / "copy" / "large").read_bytes() == content


def test_an_agent_that_reads_no_more_is_given_up_in_the_middle_of_a_message(
    host: RemoteHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainmark.node.connection.SILENCE_LIMIT_S", 2.0)
    monkeypatch.setattr("trainmark.node.connection.HEARTBEAT_S", 0.5)
    assert host.unreachable() is None
    (agent,) = _agents_of(os.getpid())
    os.kill(int(agent), signal.SIGSTOP)
    with pytest.raises(HostGoneError, match="faraway: no message from it for"):
        host.put(tmp_path / "large", bytes(50 * PART_BYTES))


def test_an_agent_that_waits_for_a_job_without_end_is_gone_some_time_after_it_was_left(
    tmp_path: Path,
) -> None:
    mark = str(tmp_path / "job")
    program = "from trainmark.node import agent; agent.CLEANUP_LIMIT_S = 1.0; agent.main()"
    words = json.loads(TypeAdapter(Job).dump_json(job(tmp_path / "job", "sleep", "600")))
    # Asked for the end of what nobody has ended, its main thread waits for the job.
    requested = [{"call": "start", "id": 1, "job": words}, {"call": "reap", "id": 2, "pid": 0}]
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as agent:
        assert agent.stdin is not None
        assert agent.stdout is not None
        sender = Sender(agent.stdin)
        while (line := agent.stdout.readline()).rstrip() != HELLO:
            assert line, "the agent has ended before it said hello"
        sender.send(requested[0])
        answers = (message for message, _ in receive(agent.stdout, lambda: None))
        started = next(message["value"] for message in answers if message.get("id") == 1)
        sender.send({**requested[1], "pid": started})
        assert sender.close()
        assert agent.wait(30) == 1
    assert gone_within(10, mark)


def test_a_connection_that_is_lost_while_processes_are_to_be_ended_is_made_anew(
    host: RemoteHost, tmp_path: Path
) -> None:
    folder = tmp_path / "job"
    pid = host.start(job(folder, "sleep", "600"))
    (agent,) = _agents_of(os.getpid())
    # It gives no answer, so that it is ended while one is waited for.
    os.kill(int(agent), signal.SIGSTOP)
    ending = threading.Timer(0.5, os.kill, (int(agent), signal.SIGKILL))
    ending.start()
    assert host.kill(str(folder), pid) in (0, 1)
    ending.join()
    assert gone_within(60, str(folder))
    assert _agents_of(os.getpid()) != [agent]


def test_an_older_copy_of_a_program_under_the_same_path_is_not_taken_for_it(
    host: RemoteHost, tmp_path: Path
) -> None:
    for folder, word in (("here", "new"), ("there", "old")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.py").write_text(word)
        (tmp_path / folder / "run.log").write_text(folder)
    host.map_path(tmp_path / "here", tmp_path / "there")
    reported: list[str] = []
    send_program(host, tmp_path / "here", ("*.log",), tmp_path / "home", reported.append)
    assert len(reported) == 1
    assert remote_path(host.paths, tmp_path / "here" / "train.py").read_text() == "new"
    (tmp_path / "there" / "train.py").write_text("new")
    other = agent_host("other", tmp_path / "disk")
    other.map_path(tmp_path / "here", tmp_path / "there")
    send_program(other, tmp_path / "here", ("*.log",), tmp_path / "home", reported.append)
    other.close()
    assert len(reported) == 1


def test_what_a_host_cannot_do_costs_its_case_and_no_other(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    hosts = (LocalHost("first", machine=FOUR_CORES), agent_host("second", tmp_path / "file" / "runs"))
    results = run(bench, hosts, {"nodes": 2, "devices_per_node": 1}, {"nodes": 1, "devices_per_node": 2})
    hosts[1].close()
    two, one = results.cases
    assert two.outcome is Outcome.FAILED
    assert "second" in (two.reason or "")
    assert one.outcome is Outcome.OK, one.runs


@pytest.mark.parametrize(
    "output",
    [
        "x" * 300_000,
        "trainmark-agent\n" + "[" * 100_000,
        'trainmark-agent\n{"hello":1}',
        "trainmark-agent\n7",
    ],
)
def test_whatever_a_host_says_in_the_place_of_an_agent_it_is_named(
    output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "other"
    place.mkdir()
    (place / "output").write_text(output + "\n")
    (place / "ssh").write_text(f"#!/bin/sh\ncat {place}/output\nsleep 1\n")
    (place / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")
    assert (agent_host("other").unreachable() or "").startswith("other: ")


def test_a_machine_whose_name_is_the_loopback_has_the_address_that_ssh_used() -> None:
    there = {"SSH_CONNECTION": "10.0.0.9 50000 127.0.0.1 22"}
    assert find_interface("localhost", {}) is None
    assert find_interface("localhost", there) == "lo"
    assert find_interface("127.0.0.1", {}) == "lo"
    assert find_interface("no.such.name.invalid", {}) is None


def test_another_version_of_trainmark_is_refused(host: RemoteHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainmark.node.remote.__version__", "9.9")
    with pytest.raises(HostGoneError, match=r"faraway: it has trainmark \S+, this machine has 9\.9"):
        host.has(Path("/"))


def test_what_slurm_says_of_the_agents_step_reaches_nothing_that_it_starts(
    host: RemoteHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    # By the job's number mpirun takes the agent's one task for its slots, and has no place for two ranks.
    for name, value in {"PROCID": "0", "JOB_ID": "7", "JOBID": "7", "NTASKS": "1", "CONF": "/etc/s"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    reported = probe_runner(host, 60).run(Command(0, ("env",), {}))
    found = {line.split("=")[0] for line in reported.out.decode().splitlines() if line.startswith("SLURM_")}
    assert found == {"SLURM_CONF"}


def test_what_openmpi_says_of_the_agents_rank_reaches_nothing_that_it_starts(
    host: RemoteHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the rank of the agent a program would join the agents' own job."""
    of_rank = {
        "OMPI_COMM_WORLD_RANK": "1",
        "OMPI_COMM_WORLD_SIZE": "2",
        "PMIX_RANK": "1",
        "PRTE_LAUNCHED": "1",
    }
    for name, value in of_rank.items():
        monkeypatch.setenv(name, value)
    reported = probe_runner(host, 60).run(Command(0, ("env",), {}))
    assert of_rank.keys() & {line.split("=")[0] for line in reported.out.decode().splitlines()} == set()
