"""Campaigns of a training program that trains nothing: suites, runs in and out of process, what is left of them."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import yaml
from sqlalchemy import Engine

from in_process import InProcessHost, git_read_once, installed_once, probed_once
from preloading import Copy, call_trainmark, start_trainmark
from trainmark.campaign import Order, Progress, run_campaign
from trainmark.campaign.data_sets import DataSets
from trainmark.execution import Heartbeat
from trainmark.node import LocalHost
from trainmark.schema.case import Case
from trainmark.schema.results import Results, RunResult
from trainmark.schema.suite import Dataset, Suite
from trainmark.store import Store, sqlite_url
from trainmark.store.database import _migrate
from trainmark.suite import load_suite

PROGRAMS = Path(__file__).with_name("programs")

CARD: dict[str, Any] = {
    "name": "fake",
    "description": "a program of the tests that trains nothing",
    "framework": "fake",
    "environment": "system",
    "source": {"kind": "folder", "path": str(PROGRAMS)},
    "launcher": "process",
    "log_format": "trainmark",
    "command": [
        "{source}/fake_training.py",
        "--steps={steps}",
        "--warmup-steps={warmup_steps}",
        "--seed={seed}",
        "--events={events}",
    ],
    "axes": {
        "model": {"values": {"good": ["--model=good"], "other": ["--model=other"]}},
        "precision": {"values": {"fp32": ["--precision=fp32"], "bf16": ["--precision=bf16"]}},
        "batch_per_device": {"flags": ["--batch-per-device={value}"]},
        "nodes": {},
        "devices_per_node": {"flags": ["--devices={value}"]},
        "data": {},
        "image_size": {},
        "device": {},
    },
    "options": {"behaviour": ["--behaviour={value}"], "word": ["--model={value}"]},
    "task": "image-classification",
}

SUITE: dict[str, Any] = {
    "name": "fakes",
    "environment": "system",
    "protocol": {"name": "adaptive", "steps": 12, "warmup_steps": 2, "repeats": 1},
    "cards": ["card.yaml"],
    # Tests run beside others, which take the cores: what that does to a run is in doubt only where a test asks for it.
    "gates": {"off": ["cpu-shared"]},
}


class Silent:
    """An audience that does not listen."""

    def preparing(self, what: str, done: int, total: int) -> None: ...
    def readying(self, what: str) -> None: ...
    def probing(self, batch: int) -> None: ...
    def trying(self, candidate: Case, axes: Mapping[str, str]) -> None: ...
    def run_begins(self, case: Case, repeat: int, standing: Progress) -> None: ...
    def pulse(self, pulse: Heartbeat) -> None: ...
    def run_ended(self, result: RunResult, standing: Progress) -> None: ...


@dataclass
class Listener(Silent):
    """A listener that remembers which runs began and ended."""

    started: list[tuple[str, int]] = field(default_factory=list)
    ended: list[RunResult] = field(default_factory=list)
    standings: list[Progress] = field(default_factory=list)
    probed: list[int] = field(default_factory=list)
    tried: list[dict[str, str]] = field(default_factory=list)

    def probing(self, batch: int) -> None:
        self.probed.append(batch)

    def trying(self, candidate: Case, axes: Mapping[str, str]) -> None:
        self.tried.append(dict(axes))

    def run_begins(self, case: Case, repeat: int, standing: Progress) -> None:
        self.started.append((case.id, repeat))
        self.standings.append(standing)

    def run_ended(self, result: RunResult, standing: Progress) -> None:
        self.ended.append(result)


@dataclass(frozen=True)
class Bench:
    """A folder with a suite of fake programs, its results in the folder ``place`` of it."""

    folder: Path
    place: str = "out"
    processes: bool = False
    """Whether all that it runs is a process of its own, as for a user."""

    @property
    def out(self) -> Path:
        return self.folder / self.place

    @property
    def suite(self) -> Path:
        return self.folder / "suite.yaml"

    def write(
        self, *cases: Mapping[str, Any], card: Mapping[str, Any] | None = None, **settings: Any
    ) -> Suite:
        """Write a suite of these cases; the axes that a case leaves out are those of a fake program."""
        text = yaml.safe_dump({**CARD, **(card or {})}, sort_keys=False)
        (self.folder / "card.yaml").write_text(text, encoding="utf-8")
        plain = {
            "workload": "fake",
            "framework": "fake",
            "model": "good",
            "batch_per_device": 4,
            "device": "cpu",
        }
        document = {**SUITE, **settings, "cases": [plain | dict(case) for case in cases or ({},)]}
        # In the suite's order: tests wait for what comes after something else.
        document["protocol"] = {"order_seed": None, **document["protocol"]}
        self.suite.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
        return load_suite(self.suite)

    def order(
        self, resume: bool = False, cases: tuple[Case, ...] | None = None, retry_failed: bool = False
    ) -> Order:
        suite = load_suite(self.suite)
        chosen = suite.cases if cases is None else cases
        return Order(
            suite,
            chosen,
            self.out,
            resume,
            self.folder / "home",
            ("trainmark", "run", str(self.suite)),
            (LocalHost() if self.processes else InProcessHost(),),
            retry_failed=retry_failed,
        )

    def run(
        self,
        listener: Any = None,
        resume: bool = False,
        cases: tuple[Case, ...] | None = None,
        retry_failed: bool = False,
    ) -> Results:
        with _in_this_process():
            return run_campaign(self.order(resume, cases, retry_failed), listener or Silent()).results

    def words(self, *more: str) -> list[str]:
        return ["run", str(self.suite), "--out", str(self.out), *more]

    def start(self, *more: str) -> Copy:
        """Start ``trainmark run`` as a process of its own, in a session of its own."""
        return start_trainmark(*self.words(*more), variables=self.environment())

    def call(self, *more: str) -> "subprocess.CompletedProcess[str]":
        """Run ``trainmark run`` to its end, in this process."""
        return call_in_this_process(*self.words(*more), variables=self.environment())

    def environment(self) -> dict[str, str]:
        return {"TRAINMARK_HOME": str(self.folder / "home")}

    def pids(self) -> list[int]:
        """Return the processes of all runs' programs, the first to start first; none of those that ran in this one."""
        files = sorted(self.out.glob("runs/*/*/pids"), key=lambda file: file.stat().st_ctime_ns)
        found = [int(line) for file in files for line in file.read_text().splitlines() if line.strip()]
        return [pid for pid in found if pid != os.getpid()]


def call_in_this_process(
    *words: str | Path, variables: Mapping[str, str]
) -> "subprocess.CompletedProcess[str]":
    """Run ``trainmark WORDS`` to its end; small programs run in this process, workers in copies of preloaded ones."""
    with _in_this_process(), patch("trainmark.node.LocalHost", InProcessHost):
        return call_trainmark(*words, variables=variables)


@contextmanager
def _in_this_process() -> Iterator[None]:
    """Start no interpreter that would say what another has said, and no process for a few pictures."""
    with machine_read_once(), patch("trainmark.campaign.run_environment.DataSets", _data_sets):
        yield


@contextmanager
def machine_read_once() -> Iterator[None]:
    """Have campaigns share what each would ask of the same interpreter and checkout, and of a new database.

    What they measure are processes as for a user.
    """
    with (
        patch("trainmark.campaign.identity.installed_packages", installed_once),
        patch("trainmark.campaign.run_environment.probe_environment", probed_once),
        patch("trainmark.node.local.read_git", git_read_once),
        patch("trainmark.store.database._migrate", _migrate_a_copy),
    ):
        yield


def _migrate_a_copy(engine: Engine) -> None:
    """Bring a database to the newest schema: a new one, by a copy of one that was migrated before."""
    path = Path(engine.url.database or "")
    if engine.dialect.name == "sqlite" and path.parent.is_dir() and not path.exists():
        path.write_bytes(_migrated())
    else:
        _migrate(engine)


@cache
def _migrated() -> bytes:
    with TemporaryDirectory() as folder, patch("trainmark.store.database._migrate", _migrate):
        path = Path(folder) / "new.sqlite"
        Store(sqlite_url(path)).close()
        return path.read_bytes()


def _data_sets(datasets: Mapping[str, Dataset], home: Path, jobs: int) -> DataSets:
    """Return the data sets of a suite, of a few pictures, which are made faster here than in processes of their own."""
    return DataSets(datasets, home, 1)


def behaving(behaviour: str, **axes: Any) -> dict[str, Any]:
    """Return a case whose program behaves so."""
    return {"options": {"behaviour": behaviour}, **axes}


def alive(pid: int) -> bool:
    """Tell whether a process is there and not a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


SAMPLES = 20
"""The samples that ``disturb`` writes over a window."""


def disturb(folders: list[Path], other: float = 0.6) -> None:
    """Have other processes take this share of the cores in the windows of these runs, by samples of all of it."""
    for folder in folders:
        lines = folder.joinpath("telemetry.jsonl").read_text().splitlines()
        sample = json.loads(lines[-1])
        events = [json.loads(line[5:]) for line in (folder / "events.jsonl").read_text().splitlines()]
        ended = next(event["data"] for event in events if event["step"] == [])
        period_s = ended["window_s"] / SAMPLES
        written = [lines[0]]
        for number in range(SAMPLES + 1):
            at = number * period_s
            sample |= {"wall_s": ended["window_at"] + at, "interval_s": period_s, "monotonic_s": at}
            sample["cpu"] = {"busy": 1.0, "tree": 1.0 - other, "own": 0.0, "other": other}
            counters = {"busy_s": 2 * at, "total_s": 2 * at, "tree_s": 2 * at * (1 - other), "own_s": 0.0}
            sample["counters"] = counters
            written.append(json.dumps(sample))
        (folder / "telemetry.jsonl").write_text("\n".join(written) + "\n")


def forget_telemetry(folders: list[Path]) -> None:
    """Leave the header of the telemetry of these runs: nobody looked at their windows."""
    for folder in folders:
        path = folder / "telemetry.jsonl"
        path.write_text(path.read_text().splitlines()[0] + "\n")


def set_waits(folder: Path, share: float) -> None:
    """Have a run wait for its data in this share of each measured step."""
    path, lines = folder / "events.jsonl", []
    for line in path.read_text().splitlines():
        event = json.loads(line[5:])
        data = event.get("data", {})
        if data.get("phase") == "measured":
            data["data_wait_s"] = share * data["step_time_s"]
        lines.append(f"DLLL {json.dumps(event)}")
    path.write_text("\n".join(lines) + "\n")


def set_rate(folder: Path, images_per_s: float) -> None:
    """Rewrite a run's window, and its steps, so that its throughput is this."""
    path, lines = folder / "events.jsonl", []
    events = [json.loads(line[5:]) for line in path.read_text().splitlines()]
    ended = next(event["data"] for event in events if event["step"] == [])
    factor = ended["samples"] / images_per_s / ended["window_s"]
    for event in events:
        data = event.get("data", {})
        if "step_time_s" in data:
            data["step_time_s"] *= factor
        if event["step"] == []:
            data["window_s"] = data["samples"] / images_per_s
            data["throughput"] = images_per_s
            data["rank_windows_s"] = [data["window_s"]]
        lines.append(f"DLLL {json.dumps(event)}")
    path.write_text("\n".join(lines) + "\n")
