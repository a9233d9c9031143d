"""The faults of the second of two hosts or of the controller: their injection and repair, and the expected report."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faults_slurm import slurm_ends
from faults_trial import (
    OK,
    PATIENCE_S,
    Kind,
    Lane,
    heals,
    hosts_file,
    judged,
    standing,
    suite,
    wait_for,
    wait_for_nothing,
)

from clusters import SCRIPT
from fakes import Silent
from trainmark.campaign import Order, run_campaign
from trainmark.check import CheckOptions, check_hosts
from trainmark.node import connect_hosts
from trainmark.schema.check import Level
from trainmark.schema.outcome import Outcome
from trainmark.suite import load_hosts, load_suite

MEMORY_CONTROL = Path("/sys/fs/cgroup/memory")


def breaks(fault: str, *amount: str) -> Callable[[Lane], object]:
    return lambda lane: lane.cluster.break_(fault, lane.bad, *amount)


def heals_folder(lane: Lane) -> None:
    """Heal the host, and remove the run's folder there, which nobody could fetch."""
    heals(lane)
    end = time.monotonic() + PATIENCE_S
    while lane.cluster.processes(lane.bad) and time.monotonic() < end:
        time.sleep(0.2)
    lane.cluster.ssh(lane.bad, f"rm -rf {lane.folder}")


def later(seconds: float, do: Callable[[], object]) -> None:
    threading.Timer(seconds, do).start()


def cut_for(seconds: float) -> Callable[[Lane], object]:
    def strike(lane: Lane) -> None:
        lane.cluster.break_("cut", lane.bad)
        later(seconds, lambda: heals(lane))

    return strike


def kill(number: int) -> Callable[[Lane], object]:
    return lambda lane: os.kill(lane.rank(lane.bad), number)


def stop_for(seconds: float) -> Callable[[Lane], object]:
    def strike(lane: Lane) -> None:
        rank = lane.rank(lane.bad)
        os.kill(rank, signal.SIGSTOP)
        later(seconds, lambda: os.kill(rank, signal.SIGCONT))

    return strike


TRAINMARK = "/opt/trainmark/lib/python3*/site-packages/trainmark.pth"


def hide_trainmark(lane: Lane) -> None:
    lane.cluster.ssh(lane.bad, f"mv {TRAINMARK} /opt/trainmark/away")


def show_trainmark(lane: Lane) -> None:
    lane.cluster.ssh(lane.bad, f"mv /opt/trainmark/away $(echo {TRAINMARK.rpartition('/')[0]})/trainmark.pth")


def take_port(lane: Lane) -> None:
    """Listen on the port where the ranks are about to meet, on the first host."""
    rank = lane.rank(lane.hosts[0])
    output = Path(f"/proc/{rank}/environ").read_bytes().decode()
    port = re.search(r"MASTER_PORT=(\d+)", output)
    assert port
    words = [sys.executable, str(SCRIPT), "--state", str(lane.cluster.state), "run", lane.hosts[0]]
    squatter = subprocess.Popen(
        [*words, "/opt/trainmark/bin/python", "-c", SQUATTER, port[1]], stdout=subprocess.PIPE, text=True
    )
    assert squatter.stdout is not None
    assert squatter.stdout.readline() == "listening\n"
    SQUATTERS.append(squatter)


SQUATTER = """\
import socket, sys, time
s = socket.create_server(("", int(sys.argv[1])))
print("listening", flush=True)
time.sleep(600)
"""
SQUATTERS: list["subprocess.Popen[str]"] = []


def leave_port(lane: Lane) -> None:
    for number, line in lane.cluster.processes(lane.hosts[0]).items():
        if "create_server" in line:
            os.kill(number, signal.SIGKILL)
    while SQUATTERS:
        SQUATTERS.pop().wait()


def bound_memory(lane: Lane) -> None:
    """Limit the rank to 400 MB with a control group."""
    group = MEMORY_CONTROL / f"trainmark-{lane.bad}-{os.getpid()}"
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(400 << 20))
    (group / "cgroup.procs").write_text(str(lane.rank(lane.bad)))


def unbound_memory(lane: Lane) -> None:
    group = MEMORY_CONTROL / f"trainmark-{lane.bad}-{os.getpid()}"
    end = time.monotonic() + PATIENCE_S
    while group.exists() and time.monotonic() < end:
        try:
            group.rmdir()
        except OSError:
            time.sleep(0.05)


def sshd_late(lane: Lane) -> None:
    """Stop the host's sshd from answering for 8 s."""
    (number,) = [int(line) for line in [lane.cluster.run(lane.bad, "cat", "/run/sshd.pid").stdout]]
    words = ["sh", "-c", f"kill -STOP {number}; sleep 8; kill -CONT {number}"]
    subprocess.Popen(
        [sys.executable, str(SCRIPT), "--state", str(lane.cluster.state), "run", lane.bad, *words]
    )


def command(lane: Lane, engine: str, *more: str) -> list[str]:
    words = ["run", str(lane.folder / "suite.yaml"), "--out", str(lane.folder / "out")]
    return [
        *("env", f"TRAINMARK_HOME={lane.folder / 'home'}"),
        *(sys.executable, "-m", "trainmark.cli.main", *words),
        *("--hosts", str(lane.folder / "hosts.yaml"), "--engine", engine, *more),
    ]


def controller_ends(number: int) -> Callable[[Lane, Kind], dict[str, Any]]:
    """Return how the controller is ended by a signal; from this process the suite then goes on as by ``--resume``."""

    def ended(lane: Lane, kind: Kind) -> dict[str, Any]:
        path, chosen, before = (
            suite(lane, kind),
            load_hosts(str(hosts_file(lane)), os.environ),
            standing(lane),
        )
        words = [sys.executable, str(SCRIPT), "--state", str(lane.cluster.state), "run", "control"]
        # A shell that starts us in the background has SIGINT ignored, and that is inherited.
        output = lane.folder / "output.txt"
        with output.open("w") as file:
            controller = subprocess.Popen(
                [*words, *command(lane, "ssh")],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=file,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
            )
        wait_for(lambda: lane.ranks(lane.bad) or controller.poll() is not None)
        if controller.poll() is not None:
            raise RuntimeError(output.read_text()[-600:])
        for pid, line in lane.cluster.processes("control").items():
            if "-m trainmark.cli.main" in line and str(lane.folder) in line and not line.startswith("env"):
                os.kill(pid, number)
        struck = time.time()
        controller.wait()
        left = wait_for_nothing(lane, before, but=files_of(number, lane))
        seconds = time.time() - struck
        there = connect_hosts(chosen)
        loaded = load_suite(path)
        order = Order(
            loaded, loaded.cases, lane.folder / "out", True, lane.folder / "home", ("trainmark",), there
        )
        try:
            first, second = run_campaign(order, Silent()).results.cases
        finally:
            for host in there:
                host.close()  # type: ignore[attr-defined]
        left += wait_for_nothing(lane, before)
        found = {"seconds": seconds, "other_measured": second.outcome is OK, "left": left}
        return {**judged(lane, kind, first), **found}

    return ended


def files_of(number: int, lane: Lane) -> tuple[str, ...]:
    """Return what may lie on the hosts until ``--resume``: nobody was there to fetch the run's files."""
    return (str(lane.folder).lstrip("/"),) if number == signal.SIGKILL else ()


def checked(slow: bool) -> Callable[[Lane, Kind], dict[str, Any]]:
    """Return how `trainmark check` measures two hosts, of which the second is 1.3 times slower or well."""

    def found(lane: Lane, _kind: Kind) -> dict[str, Any]:
        chosen, began = load_hosts(str(hosts_file(lane)), os.environ), time.time()
        if slow:
            lane.cluster.break_("slow", lane.bad, "1.3")
        there = connect_hosts(chosen)
        try:
            report = check_hosts(CheckOptions(there, lane.folder / "home", lane.folder / "out"))
        finally:
            for host in there:
                host.close()  # type: ignore[attr-defined]
            heals(lane)
        speeds = ("matrix-product", "memory-copy", "link")
        named = {
            host
            for finding in report.findings
            if finding.check in speeds and finding.level is Level.WARNING
            for host in finding.hosts
        }
        output = ", ".join(sorted(named)) or "no host named"
        right = lane.bad in named if slow else not named
        return {
            "outcome": output, "reason": None, "named": right, "seconds": time.time() - began,
            "other_measured": lane.hosts[0] not in named, "left": [],
        }  # fmt: skip

    return found


RANK = (r"rank 1\b", "{bad}")
HOST = ("^{bad}: ",)
KINDS = [
    Kind(
        "refuses",
        "it refuses connections",
        named=(*HOST, "refused"),
        before=breaks("refuse"),
        mend=heals,
        fresh=True,
    ),
    Kind("late-answer", "its sshd answers 8 s late", OK, before=sshd_late, fresh=True),
    Kind(
        "host-key",
        "it has another host key",
        named=(*HOST, "Host key"),
        before=breaks("key"),
        mend=heals,
        fresh=True,
    ),
    Kind(
        "no-trainmark",
        "trainmark is missing",
        named=HOST,
        before=hide_trainmark,
        mend=show_trainmark,
        fresh=True,
    ),
    Kind(
        "disk-full",
        "its disk is full",
        named=(*HOST, "disk full"),
        before=breaks("full"),
        mend=heals,
        fresh=True,
    ),
    Kind(
        "port-taken",
        "the rendezvous port is in use",
        named=("rank 0", "{good}", "Address already in use"),
        behaviour="late-15",
        early=True,
        strike=take_port,
        mend=leave_port,
    ),
    Kind(
        "raises",
        "its rank raises at step 7 (gloo)",
        named=(*RANK, "this is why"),
        behaviour="raises-1-7",
        gloo=True,
    ),
    Kind(
        "exits",
        "its rank ends at step 7 without a message (gloo)",
        named=(*RANK, "exit code 3"),
        behaviour="exits-1-7",
        gloo=True,
    ),
    Kind(
        "killed",
        "its rank is killed by signal 9 (gloo)",
        named=(*RANK, "SIGKILL"),
        behaviour="lasts-60",
        gloo=True,
        strike=kill(signal.SIGKILL),
    ),
    Kind(
        "memory",
        "its rank is killed by the kernel for memory (gloo)",
        Outcome.OOM,
        (*RANK, "want of memory"),
        behaviour="grows-1-200",
        gloo=True,
        strike=bound_memory,
        mend=unbound_memory,
    ),
    Kind(
        "hangs",
        "its rank never joins the all-reduce of step 7 (gloo)",
        Outcome.TIMEOUT,
        RANK,
        behaviour="hangs-1-7",
        gloo=True,
        limits={"stall_timeout_s": 20},
    ),
    Kind(
        "stopped",
        "its rank is stopped",
        Outcome.TIMEOUT,
        (*RANK, "stopped"),
        behaviour="lasts-300",
        strike=kill(signal.SIGSTOP),
        limits={"stall_timeout_s": 20},
    ),
    Kind("stopped-3s", "its rank is stopped for 3 s", OK, behaviour="lasts-5", strike=stop_for(3)),
    Kind("slow-1.3", "it is 1.3 times slower", OK, before=breaks("slow", "1.3"), after=heals),
    Kind("slow-3", "it is 3 times slower", OK, before=breaks("slow", "3"), after=heals),
    Kind("cut-5s", "its cable is out for 5 s", OK, behaviour="lasts-5", strike=cut_for(5), mend=heals),
    Kind(
        "cut",
        "its cable stays out",
        named=HOST,
        behaviour="lasts-300",
        strike=breaks("cut"),
        mend=heals_folder,
    ),
    Kind("delay", "50 ms of delay", OK, before=breaks("delay", "50"), after=heals),
    Kind("loss", "1 % of loss", OK, before=breaks("loss", "1"), after=heals),
    Kind("clock", "its clock is 90 s off", OK, before=breaks("clock", "90"), after=heals),
    Kind(
        "controller-killed",
        "the controller is killed by signal 9",
        OK,
        behaviour="lasts-8",
        trial=controller_ends(signal.SIGKILL),
    ),
    Kind("ctrl-c", "Ctrl-C", OK, behaviour="lasts-8", trial=controller_ends(signal.SIGINT)),
    *(
        Kind(f"slurm-{how}", says, OK, behaviour=f"lasts-{lasts}", trial=slurm_ends(how))
        for how, says, lasts in (
            ("cancelled", "Slurm cancels the job", 10),
            ("requeued", "Slurm queues the job again", 10),
            ("out-of-time", "the job's time is over", 70),
        )
    ),
    Kind("check-slow", "`check`, one 1.3 times slower", OK, trial=checked(slow=True)),
    Kind("check-well", "`check`, all well", OK, trial=checked(slow=False)),
]
