"""The cluster that other tests stand on: its network, its folders, its faults, and that nothing of it stays."""

import contextlib
import json
import os
import re
import select
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from clusters import HOSTS, Cluster, cluster
from testcluster.layout import Layout

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group("cluster")]


def test_every_host_reaches_every_host_by_name_with_its_own_key(hosts: Cluster) -> None:
    loop = f"for h in {' '.join(HOSTS)}; do ssh -o StrictHostKeyChecking=yes $h hostname; done"
    for host in HOSTS:
        assert tuple(hosts.ssh(host, loop).stdout.split()) == HOSTS
    keys = {hosts.ssh(host, "ssh-keygen -yf /etc/ssh/ssh_host_ed25519_key").stdout for host in HOSTS}
    assert len(keys) == len(HOSTS)


def test_mpirun_starts_a_rank_on_each_host(hosts: Cluster) -> None:
    words = ("mpirun", "--bind-to", "none", "--host", ",".join(HOSTS), "-np", "4")
    done = hosts.run("control", *words, "sh", "-c", "echo $(hostname) $OMPI_COMM_WORLD_RANK")
    assert sorted(done.stdout.splitlines()) == [f"{host} {rank}" for rank, host in enumerate(HOSTS)]


def test_srun_starts_a_task_on_each_host(hosts: Cluster) -> None:
    done = hosts.run("control", "srun", "--nodes=4", "hostname")
    assert sorted(done.stdout.split()) == list(HOSTS)


def test_hosts_share_no_folder_with_each_other_or_with_this_machine(hosts: Cluster) -> None:
    mine = f"trainmark-{os.getpid()}"
    for folder in ("/tmp", "/home", "/root", "/var/tmp", "/dev/shm", str(hosts.state)):
        hosts.ssh("node01", f"mkdir -p {folder} && echo here > {folder}/{mine}")
        assert hosts.ssh("node02", f"test -e {folder}/{mine}", check=False).returncode == 1
        assert not Path(folder, mine).exists()
    assert hosts.ssh("node01", "touch /usr/mine", check=False).returncode == 1


def test_a_host_has_trainmark_elsewhere_and_sees_its_own_network_alone(hosts: Cluster) -> None:
    ask = "import trainmark, sys, pydantic; print(trainmark.__file__, sys.executable)"
    file, python = hosts.ssh("node03", f'/opt/trainmark/bin/python -c "{ask}"').stdout.split()
    assert file == "/opt/trainmark/source/trainmark/__init__.py"
    assert python == "/opt/trainmark/bin/python"
    assert hosts.ssh("node03", "ls /sys/class/net").stdout.split() == ["eth0", "lo"]


def test_a_delayed_host_answers_no_sooner(hosts: Cluster) -> None:
    with hosts.fault("delay", "node02", "300"):
        start = time.monotonic()
        socket.create_connection((_address(hosts, "node02"), 22), timeout=60).close()
        assert time.monotonic() - start >= 0.3


def test_of_what_a_host_sends_the_stated_share_is_lost(hosts: Cluster) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
        here.bind(
            (hosts.run("node02", "sh", "-c", "ip route | cut -d' ' -f1").stdout.split(".0/")[0] + ".253", 0)
        )
        here.settimeout(60)
        where = here.getsockname()
        send = "import socket; s = socket.socket(type=socket.SOCK_DGRAM); [s.sendto(b'%s', {}) for _ in range({})]"
        with hosts.fault("loss", "node02", "50"):
            hosts.run("node02", "python3", "-c", send.format(where, 400) % "lost")
            arrived = [here.recv(9)]
        hosts.run("node02", "python3", "-c", send.format(where, 1) % "end")
        while arrived[-1] != b"end":
            arrived.append(here.recv(9))
    assert 0 < len(arrived) - 1 < 300


def test_a_cut_host_is_silent_until_it_is_healed(hosts: Cluster) -> None:
    with hosts.fault("cut", "node02"):
        silent = hosts.ssh("node02", "true", "-oConnectTimeout=2", check=False)
        assert "timed out" in silent.stderr or "No route" in silent.stderr
    assert hosts.ssh("node02", "hostname").stdout == "node02\n"


def test_what_runs_on_a_slow_host_is_stopped_and_continued_and_a_stopped_process_stays_so(
    hosts: Cluster,
) -> None:
    words = [*_enter(hosts, "node02"), "setsid", "--fork", "sh", "-c", "echo $$; exec sleep 1000"]
    at = [_started(hosts, words), _started(hosts, words)]
    busy, stopped = (Path(f"/proc/{number}/stat") for number in at)
    os.kill(at[1], signal.SIGSTOP)
    _until(lambda: _state(stopped) == "T")
    with hosts.fault("slow", "node02", "3"):
        for _ in range(3):
            _until(lambda: _state(busy) == "T")
            _until(lambda: _state(busy) != "T")
            assert _state(stopped) == "T"
        assert hosts.ssh("node02", "hostname").stdout == "node02\n"
    assert _state(busy) != "T"
    for number in at:
        os.kill(number, signal.SIGKILL)


def test_processes_of_ssh_and_slurm_have_the_wrong_clock(hosts: Cluster) -> None:
    with hosts.fault("clock", "node02", "900"):
        for answer in (
            hosts.ssh("node02", "date +%s"),
            hosts.run("control", "srun", "--nodelist=node02", "date", "+%s"),
        ):
            assert int(answer.stdout) - time.time() > 600
        assert abs(int(hosts.ssh("node03", "date +%s").stdout) - time.time()) < 300
    assert abs(int(hosts.ssh("node02", "date +%s").stdout) - time.time()) < 300


def test_a_host_refuses_or_shows_another_key_or_has_no_byte_left(hosts: Cluster) -> None:
    with hosts.fault("refuse", "node02"):
        assert "Connection refused" in hosts.ssh("node02", "true", check=False).stderr
    with hosts.fault("key", "node02"):
        assert "Host key verification failed" in hosts.ssh("node02", "true", check=False).stderr
    with hosts.fault("full", "node02"):
        assert "No space left" in hosts.ssh("node02", "echo x > /tmp/x", check=False).stderr
    assert hosts.ssh("node02", "echo x > /tmp/x && cat /tmp/x").stdout == "x\n"


def test_two_clusters_run_side_by_side_and_down_leaves_nothing_and_may_be_repeated(
    hosts: Cluster,
) -> None:
    mounts = Path("/proc/self/mountinfo").read_text()
    with cluster("--hosts", "2") as other:
        kinds, cards = _namespaces(other), _cards(other)
        cards.remove(Layout(other.state).mark)
        assert other.ssh("node01", "hostname").stdout == hosts.ssh("node01", "hostname").stdout == "node01\n"
        assert other.run("control", "srun", "--nodes=2", "hostname").returncode == 0
        other.ssh("node02", "setsid --fork sleep 1000 > /dev/null 2>&1")
        other.do("down")
        assert _cards(other) == cards
        assert Path("/proc/self/mountinfo").read_text() == mounts
        assert not _in(kinds)
        assert not other.state.exists()
        other.do("down")
    assert hosts.ssh("node04", "hostname").stdout == "node04\n"


@pytest.mark.parametrize("who", ["its starter", "its keeper"])
def test_a_cluster_goes_when_signal_9_ends(who: str, hosts: Cluster) -> None:
    starter = subprocess.Popen(["sleep", "1000"])
    with cluster("--hosts", "1", while_pid=starter.pid) as other:
        record = json.loads((other.state / "cluster.json").read_text())
        kinds, cards = _namespaces(other), _cards(other)
        cards.remove(Layout(other.state).mark)
        descriptors = [os.pidfd_open(number) for number in (record["keeper"], *record["first"].values())]
        os.kill(starter.pid if who == "its starter" else record["keeper"], signal.SIGKILL)
        starter.kill()
        starter.wait()
        for descriptor in descriptors:
            assert select.select([descriptor], [], [], 60)[0]
            os.close(descriptor)
        _until(lambda: not _in(kinds))
        other.do("down")
        assert _cards(other) == cards
        assert not other.state.exists()


def _address(hosts: Cluster, host: str) -> str:
    return hosts.run("control", "getent", "hosts", host).stdout.split()[0]


def _enter(hosts: Cluster, host: str) -> list[str]:
    first = json.loads((hosts.state / "cluster.json").read_text())["first"]
    return ["nsenter", "--all", "--target", str(first[host])]


def _started(hosts: Cluster, words: list[str]) -> int:
    """Start a process that tells its number on its host; return its number here."""
    inner = _first_line(words)
    first = json.loads((hosts.state / "cluster.json").read_text())["first"]["node02"]
    space = Path(f"/proc/{first}/ns/pid").readlink()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and (entry / "ns/pid").readlink() == space:
                status = (entry / "status").read_text()
                if status.split("NSpid:")[1].splitlines()[0].split()[-1] == inner:
                    return int(entry.name)
    raise AssertionError(f"{words}: {inner} is not there")


def _first_line(words: list[str]) -> str:
    started = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    with started.stdout:
        line = started.stdout.readline().strip()
    started.wait()
    return line


def _state(stat: Path) -> str:
    return stat.read_text().rpartition(")")[2].split()[0]


def _until(holds: object) -> None:
    assert callable(holds)
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


def _cards(hosts: Cluster) -> list[str]:
    """Return this machine's network cards, less those of clusters that are not these tests'."""
    own = Layout(hosts.state).mark
    return sorted(
        name for _, name in socket.if_nameindex() if name == own or not re.fullmatch("tm[0-9a-f]{8}", name)
    )


def _namespaces(other: Cluster) -> set[str]:
    first = json.loads((other.state / "cluster.json").read_text())["first"].values()
    return {
        str(Path(f"/proc/{number}/ns/{kind}").readlink())
        for number in first
        for kind in ("pid", "net", "mnt", "uts")
    }


def _in(kinds: set[str]) -> list[str]:
    """Return the processes that are in some of these namespaces."""
    found = []
    for link in Path("/proc").glob("[0-9]*/ns/*"):
        with contextlib.suppress(OSError):
            if str(link.readlink()) in kinds:
                found.append(str(link))
    return found
