"""Everything that goes wrong on a cluster, many times: who is named, how soon, what is left, and the other cases.

    python benchmarks/faults.py --out FILE.jsonl [--times 20] [--only KIND,KIND] [--lanes 3]
    python benchmarks/faults.py --out FILE.jsonl --table

As root, on a cluster of its own as `scripts/cluster` makes it, two hosts a lane. A trial is two cases of a campaign:
one on two hosts of which the second (or the controller) goes wrong, and one that is to be measured all the same. The
program trains nothing: two ranks exchange a number at every step, by sockets, or by torch.distributed over gloo where
it says so. FILE gains a line a trial, and what stands in it is not done again. The kernel counts what it ends for want
of memory for all hosts of this machine together: `memory` is to be tried by itself.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Manager
from pathlib import Path
from statistics import median
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY / "scripts")]

from clusters import SCRIPT, Cluster  # noqa: E402
from fakes import CARD, SUITE, Silent  # noqa: E402
from trainmark.campaign import Order, run_campaign  # noqa: E402
from trainmark.check import CheckOrder, check_hosts  # noqa: E402
from trainmark.node import hosts_of  # noqa: E402
from trainmark.suite import load_hosts, load_suite  # noqa: E402
from trainmark.words.check import Level  # noqa: E402
from trainmark.words.outcome import Outcome  # noqa: E402
from trainmark.words.results import CaseResult, RunResult  # noqa: E402

PROGRAMS = REPOSITORY / "tests" / "programs"
ENVIRONMENT = Path.home() / ".local/share/trainmark/envs/pytorch"
TORCH = ENVIRONMENT / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
PATIENCE_S = 300.0
STEP = Callable[[], object]
MEMORY_CONTROL = Path("/sys/fs/cgroup/memory")


@dataclass(frozen=True)
class Lane:
    """Two hosts of the cluster, of which the second goes wrong, and a folder here."""

    cluster: Cluster
    hosts: tuple[str, str]
    folder: Path

    @property
    def bad(self) -> str:
        return self.hosts[1]

    def ranks(self, host: str) -> list[int]:
        """Return the ranks that run on a host, by their numbers here."""
        lines = self.cluster.processes(host).items()
        return [
            number
            for number, line in lines
            if "stepping.py" in line and "stub.py" not in line and "ranks.py" not in line
        ]

    def rank(self, host: str) -> int:
        return self.ranks(host)[0]


@dataclass(frozen=True)
class Kind:
    """One thing that goes wrong: what the program does, who does what when, and what is to be said of it.

    ``named`` is what the reason holds; ``{bad}`` in it is the host's name. ``before`` and ``after`` are done around a
    campaign; with ``fresh`` that is one of a single trial, because it goes wrong when hosts are reached. ``strike`` is
    done in each trial once the ranks step (``early``: as soon as they are there), ``mend`` when it has its outcome.
    ``trial`` is how it is tried where not by a campaign in this process.
    """

    name: str
    says: str
    outcome: Outcome = Outcome.FAILED
    named: tuple[str, ...] = ()
    behaviour: str = "well"
    gloo: bool = False
    limits: Mapping[str, Any] = field(default_factory=dict)
    before: Callable[[Lane], object] | None = None
    strike: Callable[[Lane], object] | None = None
    early: bool = False
    mend: Callable[[Lane], object] | None = None
    after: Callable[[Lane], object] | None = None
    fresh: bool = False
    trial: "Callable[[Lane, Kind], dict[str, Any]] | None" = None

    @property
    def own_doing(self) -> bool:
        """Whether a rank goes wrong by itself, at a step."""
        return self.behaviour.count("-") == 2

    @property
    def at_once(self) -> int:
        """How many trials one campaign has."""
        return 1 if self.fresh or self.trial else 5


def suite(lane: Lane, kind: Kind, count: int = 1) -> Path:
    """Write so many times the two cases and their program's card."""
    words = ["{source}/stepping.py", *CARD["command"][1:], *([f"--torch={TORCH}"] if kind.gloo else [])]
    card = {
        **CARD,
        "launcher": "ranks",
        "command": words,
        "axes": {**CARD["axes"], "devices_per_node": {}},
    }
    (lane.folder / "card.yaml").write_text(yaml.safe_dump(card, sort_keys=False))
    plain = {"workload": "fake", "framework": "fake", "model": "good", "batch_per_device": 4, "device": "cpu"}
    cases: list[Any] = []
    for number in range(count):
        wrong = {"options": {"behaviour": kind.behaviour, "word": f"good{number}"}}
        cases += [{**plain, "nodes": 2, "devices_per_node": 1, **wrong}]
        cases += [{**plain, "nodes": 1, "devices_per_node": 1, "options": {"word": f"good{number}"}}]
    made = {
        **SUITE,
        "protocol": {"order_seed": None, **SUITE["protocol"]},
        "limits": {"timeout_s": 100, **kind.limits},
        "cases": cases,
    }
    path = lane.folder / "suite.yaml"
    path.write_text(yaml.safe_dump(made, sort_keys=False))
    return path


def hosts_file(lane: Lane) -> Path:
    """Write a hosts file of the lane's two."""
    told = yaml.safe_load((lane.cluster.state / "hosts.yaml").read_text())
    (every,) = told["hosts"]
    told["hosts"] = [{**every, "name": name} for name in lane.hosts]
    told["ssh"] = {"config": str(lane.cluster.state / "ssh_config")}
    path = lane.folder / "hosts.yaml"
    path.write_text(yaml.safe_dump(told))
    return path


class Watcher(Silent):
    """Strikes in each trial when it is time, and looks after it at what is left."""

    def __init__(self, lane: Lane, kind: Kind, before: set[str]) -> None:
        self._lane, self._kind, self._before = lane, kind, before
        self._struck_at: float | None = None
        self._begun_at = 0.0
        self.took: list[tuple[float, float, list[str]]] = []
        """Of each trial: since when it went wrong, when it had its outcome, and what was left."""

    def run_begins(self, *_words: Any) -> None:
        self._begun_at, self._struck_at = time.time(), None

    def pulse(self, pulse: Any) -> None:
        if self._struck_at or not self._kind.strike or not self._lane.ranks(self._lane.bad):
            return
        if self._kind.early or pulse.step is not None:
            self._kind.strike(self._lane)
            self._struck_at = time.time()

    def run_ended(self, result: RunResult, *_words: Any) -> None:
        if "-2n1g-" not in result.directory:
            return
        now = time.time()
        if self._kind.mend:
            self._kind.mend(self._lane)
        left = wait_for_nothing(self._lane, self._before, but=("trainmark.node.agent", "'sshd: root@notty'"))
        self.took.append((self._struck_at or self._begun_at, now, left))


def by_campaign(lane: Lane, kind: Kind, count: int) -> list[dict[str, Any]]:
    """Run trials from this process, each with a case that is to be measured all the same."""
    path, chosen = suite(lane, kind, count), load_hosts(str(hosts_file(lane)), os.environ)
    if kind.before and not kind.fresh:
        kind.before(lane)
    watcher = Watcher(lane, kind, standing(lane))
    if kind.before and kind.fresh:
        kind.before(lane)
    try:
        there = hosts_of(chosen)
        loaded, out = load_suite(path), lane.folder / "out"
        order = Order(loaded, loaded.cases, out, False, lane.folder / "home", ("trainmark",), there)
        try:
            cases = run_campaign(order, watcher).results.cases
        finally:
            for host in there:
                host.close()  # type: ignore[attr-defined]
    finally:
        if kind.after:
            kind.after(lane)
    found = []
    for wrong, other, (began, ended, left) in zip(cases[::2], cases[1::2], watcher.took, strict=True):
        at = max([0.0, *(went_wrong_at(out / run.directory) for run in wrong.runs)])
        if kind.own_doing and not at:
            # A limit passed before the program came so far: this was no trial.
            continue
        said = {"seconds": ended - (at or began), "other_measured": other.outcome is OK, "left": left}
        found.append({**judged(lane, kind, wrong), **said})
    return found


def judged(lane: Lane, kind: Kind, case: CaseResult) -> dict[str, Any]:
    """Return what is said of a case, and whether that is what is to be said."""
    reason = case.reason or ""
    parts = [part.format(bad=lane.bad, good=lane.hosts[0]) for part in kind.named]
    named = case.outcome is kind.outcome and all(re.search(part, reason) for part in parts)
    return {"outcome": case.outcome.value, "reason": case.reason, "named": named}


def went_wrong_at(folder: Path) -> float:
    """Return when the program said that it goes wrong now; 0 where it did not."""
    logs = [log.read_text(errors="replace") for log in folder.glob("train*.log")]
    return max([0.0, *(float(at) for log in logs for at in re.findall(r"goes wrong at ([\d.]+)", log))])


# What goes wrong.


def breaks(fault: str, *amount: str) -> Callable[[Lane], object]:
    return lambda lane: lane.cluster.break_(fault, lane.bad, *amount)


def heals(lane: Lane) -> None:
    lane.cluster.break_("heal", lane.bad)


def heals_folder(lane: Lane) -> None:
    """Heal the host, and remove the run's folder there, which nobody could fetch."""
    heals(lane)
    end = time.monotonic() + PATIENCE_S
    while lane.cluster.processes(lane.bad) and time.monotonic() < end:
        time.sleep(0.2)
    lane.cluster.ssh(lane.bad, f"rm -rf {lane.folder}")


def later(seconds: float, do: STEP) -> None:
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
    said = Path(f"/proc/{rank}/environ").read_bytes().decode()
    port = re.search(r"MASTER_PORT=(\d+)", said)
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
    """Give the rank 400 MB by a control group of its own."""
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
    """Let the host's sshd answer nobody for 8 s."""
    (number,) = [int(line) for line in [lane.cluster.run(lane.bad, "cat", "/run/sshd.pid").stdout]]
    words = ["sh", "-c", f"kill -STOP {number}; sleep 8; kill -CONT {number}"]
    subprocess.Popen(
        [sys.executable, str(SCRIPT), "--state", str(lane.cluster.state), "run", lane.bad, *words]
    )


# The controller itself.


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
        said = lane.folder / "said.txt"
        with said.open("w") as file:
            controller = subprocess.Popen(
                [*words, *command(lane, "ssh")],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=file,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
            )
        wait_for(lambda: lane.ranks(lane.bad) or controller.poll() is not None)
        if controller.poll() is not None:
            raise RuntimeError(said.read_text()[-600:])
        for pid, line in lane.cluster.processes("control").items():
            if "-m trainmark.cli.main" in line and str(lane.folder) in line and not line.startswith("env"):
                os.kill(pid, number)
        struck = time.time()
        controller.wait()
        left = wait_for_nothing(lane, before, but=files_of(number, lane))
        seconds = time.time() - struck
        there = hosts_of(chosen)
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
        there = hosts_of(chosen)
        try:
            report = check_hosts(CheckOrder(there, lane.folder / "home", lane.folder / "out"))
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
        said = ", ".join(sorted(named)) or "nobody named"
        right = lane.bad in named if slow else not named
        return {
            "outcome": said, "reason": None, "named": right, "seconds": time.time() - began,
            "other_measured": lane.hosts[0] not in named, "left": [],
        }  # fmt: skip

    return found


def wait_for(holds: Callable[[], object]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError("nothing happened")
        time.sleep(0.05)


def wait_for_nothing(lane: Lane, before: set[str], but: tuple[str, ...] = ()) -> list[str]:
    """Wait until a lane's hosts have nothing more than before; return what they have at the end of patience."""
    end = time.monotonic() + 60
    while True:
        left = sorted(one for one in standing(lane) - before if not any(part in one for part in but))
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.2)


OK = Outcome.OK
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
        "trainmark is not there",
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
        "the port where ranks meet is taken",
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
        "its rank ends at step 7 without a word (gloo)",
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
    Kind("check-slow", "`check`, one 1.3 times slower", OK, trial=checked(slow=True)),
    Kind("check-well", "`check`, all well", OK, trial=checked(slow=False)),
]


def tried(lane: Lane, kind: Kind, count: int) -> list[dict[str, Any]]:
    """Have one thing go wrong so many times; return what is written of each."""
    lane.folder.mkdir(parents=True)
    before = standing(lane)
    try:
        found = [kind.trial(lane, kind)] if kind.trial else by_campaign(lane, kind, count)
    except Exception as error:
        for undo in (kind.after, kind.mend, heals):
            with suppress(Exception):
                if undo:
                    undo(lane)
        why = {
            "outcome": "none",
            "reason": f"{type(error).__name__}: {error}",
            "named": False,
            "seconds": None,
        }
        found = [{**why, "other_measured": False, "left": []}] * count
    for last in found[-1:]:
        last["left"] += wait_for_nothing(lane, before)
    shutil.rmtree(lane.folder)
    return [{"kind": kind.name, **one, "at": time.time()} for one in found]


def standing(lane: Lane) -> set[str]:
    """Return the processes, files and listeners of the lane's hosts."""
    found: set[str] = set()
    for host in lane.hosts:
        found |= {f"{host} process {number} {line}" for number, line in lane.cluster.processes(host).items()}
        # The clock's library keeps two of its own while it is wrong.
        found |= {f"{host} file {path}" for path in lane.cluster.files(host) if "faketime" not in path}
        first = lane.cluster._inside.first[host]
        for line in Path(f"/proc/{first}/net/tcp").read_text().splitlines()[1:]:
            _, here, _, state, *_ = line.split()
            found |= {f"{host} listens at {here}"} if state == "0A" else set()
    return found


def table(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of docs/clusters.md."""
    rows = [
        "| what happens to the second host | times | outcome | culprit named | seconds to outcome: median, most "
        "| other case measured | left behind |"
    ]
    rows.append("| --- | ---: | --- | ---: | ---: | ---: | ---: |")
    for kind in KINDS:
        of = [line for line in lines if line["kind"] == kind.name]
        if not of:
            continue
        times = [line["seconds"] for line in of if line["seconds"] is not None] or [float("nan")]
        outcomes = ", ".join(sorted({line["outcome"] for line in of}))
        named = f"{sum(line['named'] for line in of)}" if kind.named else "nobody to name"
        others = sum(bool(line.get("other_measured")) for line in of)
        left = sum(bool(line["left"]) for line in of)
        took = f"{median(times):.1f}, {max(times):.1f}" if kind.outcome is not OK or kind.trial else "-"
        rows.append(f"| {kind.says} | {len(of)} | `{outcomes}` | {named} | {took} | {others} | {left} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--only", default="")
    parser.add_argument("--lanes", type=int, default=3)
    parser.add_argument("--state", type=Path, help="a cluster that is up, with the shares; else one is made")
    parser.add_argument("--table", action="store_true", help="print the table of what stands in FILE")
    words = parser.parse_args()
    done = [json.loads(line) for line in words.out.read_text().splitlines()] if words.out.exists() else []
    if words.table:
        print(table(done))
        return
    only = words.only.split(",") if words.only else [kind.name for kind in KINDS]
    wanted = []
    for name in only:
        (kind,) = [kind for kind in KINDS if kind.name == name]
        missing = words.times - sum(line["kind"] == name for line in done)
        wanted += [
            (number, name, min(kind.at_once, missing - number)) for number in range(0, missing, kind.at_once)
        ]
    # All kinds as often as each other, however soon this is ended.
    wanted.sort(key=lambda one: one[0])
    state = words.state or Path(tempfile.mkdtemp(prefix="tmf"))
    if words.state is None:
        shares = [f"{PROGRAMS}:/opt/programs", f"{ENVIRONMENT}:{ENVIRONMENT}"]
        Cluster(state).do(
            *("up", "--while", str(os.getpid()), "--python", sys.executable, "--hosts", str(2 * words.lanes)),
            *(word for share in shares for word in ("--share", share)),
        )
    try:
        with Manager() as manager, ProcessPoolExecutor(words.lanes, max_tasks_per_child=None) as pool:
            lanes = manager.Queue()
            for number in range(words.lanes):
                lanes.put(number)
            for made in [pool.submit(one, state, lanes, name, count, words.out) for _, name, count in wanted]:
                made.result()
    finally:
        if words.state is None:
            Cluster(state).do("down")


def one(state: Path, lanes: Any, name: str, count: int, out: Path) -> None:
    """Try one kind on a lane that is free, and keep what became of it."""
    number = lanes.get()
    try:
        cluster = Cluster(state)
        hosts = (f"node{2 * number + 1:02d}", f"node{2 * number + 2:02d}")
        lane = Lane(cluster, hosts, Path(tempfile.mkdtemp(prefix="tmft")) / "trial")
        (kind,) = [kind for kind in KINDS if kind.name == name]
        lines = tried(lane, kind, count)
        lane.folder.parent.rmdir()
        with out.open("a", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(line)}\n" for line in lines)
        for line in lines:
            print(json.dumps(line)[:600], flush=True)
    finally:
        lanes.put(number)


if __name__ == "__main__":
    main()
