"""One trial of something that goes wrong on two hosts: a campaign with a case that suffers, and one that must not.

The program trains nothing: two ranks exchange a number at every step, by sockets, or by torch.distributed over gloo.
"""

import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY / "scripts")]

from clusters import Cluster  # noqa: E402
from fakes import CARD, SUITE, Silent  # noqa: E402
from trainmark.campaign import Order, run_campaign  # noqa: E402
from trainmark.node import connect_hosts  # noqa: E402
from trainmark.schema.outcome import Outcome  # noqa: E402
from trainmark.schema.results import CaseResult, RunResult  # noqa: E402
from trainmark.suite import load_hosts, load_suite  # noqa: E402

PROGRAMS = REPOSITORY / "tests" / "programs"
ENVIRONMENT = Path.home() / ".local/share/trainmark/envs/pytorch"
TORCH = ENVIRONMENT / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
PATIENCE_S = 300.0
OK = Outcome.OK


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
            if "stepping.py" in line and "exec_wrapper.py" not in line and "ranks.py" not in line
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
        """True if the rank fails without outside action, at a step."""
        return self.behaviour.count("-") == 2

    @property
    def at_once(self) -> int:
        """The number of trials in one campaign."""
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
    hosts_file = yaml.safe_load((lane.cluster.state / "hosts.yaml").read_text())
    (every,) = hosts_file["hosts"]
    hosts_file["hosts"] = [{**every, "name": name} for name in lane.hosts]
    hosts_file["ssh"] = {"config": str(lane.cluster.state / "ssh_config")}
    path = lane.folder / "hosts.yaml"
    path.write_text(yaml.safe_dump(hosts_file))
    return path


class Watcher(Silent):
    """Strikes in each trial when it is time, and looks after it at what is left."""

    def __init__(self, lane: Lane, kind: Kind, before: set[str]) -> None:
        self._lane, self._kind, self._before = lane, kind, before
        self._struck_at: float | None = None
        self._started_at = 0.0
        self.took: list[tuple[float, float, list[str]]] = []
        """Of each trial: since when it went wrong, when it had its outcome, and what was left."""

    def run_begins(self, *_words: Any) -> None:
        self._started_at, self._struck_at = time.time(), None

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
        self.took.append((self._struck_at or self._started_at, now, left))


def by_campaign(lane: Lane, kind: Kind, count: int) -> list[dict[str, Any]]:
    """Run trials from this process, each with a case that is to be measured all the same."""
    path, chosen = suite(lane, kind, count), load_hosts(str(hosts_file(lane)), os.environ)
    if kind.before and not kind.fresh:
        kind.before(lane)
    watcher = Watcher(lane, kind, standing(lane))
    if kind.before and kind.fresh:
        kind.before(lane)
    try:
        there = connect_hosts(chosen)
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
        timing = {"seconds": ended - (at or began), "other_measured": other.outcome is OK, "left": left}
        found.append({**judged(lane, kind, wrong), **timing})
    return found


def judged(lane: Lane, kind: Kind, case: CaseResult) -> dict[str, Any]:
    """Return the report of a case, and whether it is the expected one."""
    reason = case.reason or ""
    parts = [part.format(bad=lane.bad, good=lane.hosts[0]) for part in kind.named]
    named = case.outcome is kind.outcome and all(re.search(part, reason) for part in parts)
    return {"outcome": case.outcome.value, "reason": case.reason, "named": named}


def went_wrong_at(folder: Path) -> float:
    """Return when the program said that it goes wrong now; 0 where it did not."""
    logs = [log.read_text(errors="replace") for log in folder.glob("train*.log")]
    return max([0.0, *(float(at) for log in logs for at in re.findall(r"goes wrong at ([\d.]+)", log))])


def heals(lane: Lane) -> None:
    """End what goes wrong on the host."""
    lane.cluster.break_("heal", lane.bad)


def tried(lane: Lane, kind: Kind, count: int) -> list[dict[str, Any]]:
    """Inject one fault many times; return the record of each trial."""
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
        first = lane.cluster._entrance.first[host]
        for line in Path(f"/proc/{first}/net/tcp").read_text().splitlines()[1:]:
            _, here, _, state, *_ = line.split()
            found |= {f"{host} listens at {here}"} if state == "0A" else set()
    return found


def wait_for(holds: Callable[[], object]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError("timed out: the condition did not become true")
        time.sleep(0.05)


def wait_for_nothing(lane: Lane, before: set[str], but: tuple[str, ...] = ()) -> list[str]:
    """Wait until a lane's hosts have nothing more than before; return what they have at the end of patience."""
    end = time.monotonic() + 60
    while True:
        left = sorted(one for one in standing(lane) - before if not any(part in one for part in but))
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.2)
