"""The state of suites that run or have run: read from their directories and databases, a little at each look."""

import json
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trainmark.campaign import Attempt, as_attempts, wants_another
from trainmark.errors import TrainmarkError
from trainmark.execution import read_suite
from trainmark.node import last_step, read_tail
from trainmark.schema.names import DATABASE, LOG, OUTCOME, RUNS, SUITE, TELEMETRY
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import RunResult
from trainmark.schema.suite import Suite
from trainmark.store import Store, reading_store, runs_after

MOST_DOUBTS, MOST_RECENT, MOST_LOOKS = 12, 12, 300
SILENT_S = 30.0
"""A run whose files have not changed for so long is in hand only if its suite's process lives."""


@dataclass(frozen=True, slots=True)
class DeviceState:
    """A device, or the processors, of a host at the last sample; None for what is not sampled."""

    host: str
    device: str
    clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    busy: float | None = None


@dataclass(frozen=True, slots=True)
class RunInHand:
    """A run that has no outcome yet. ``steps`` are (seconds ago, step) of the last looks, oldest first."""

    case_id: str
    repeat: int
    elapsed_s: float
    step: int | None
    steps: tuple[tuple[float, int], ...]
    devices: tuple[DeviceState, ...]


@dataclass(frozen=True, slots=True)
class SlowestRank:
    """The slowest rank of a run, its host, and by which share it is slower than the others."""

    rank: int
    host: str | None
    slower_by: float | None


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """A finished run as a list shows it; ``slowest`` is its slowest rank in words."""

    case_id: str
    repeat: int
    outcome: Outcome
    reason: str | None
    throughput: float | None
    unit: str | None
    doubts: tuple[str, ...]
    hosts: tuple[str, ...]
    slowest: SlowestRank | None


@dataclass(frozen=True, slots=True)
class SuiteState:
    """A suite: how many of its cases are done, in hand and left, its runs, and its newest runs and doubts."""

    key: str
    suite: str
    running: bool
    done: int
    left: int
    runs: int
    ok: int
    in_hand: RunInHand | None
    recent: tuple[FinishedRun, ...]


@dataclass(slots=True)
class SuiteWatch:
    """Follows one result directory; ``state`` reads what is new since the last call. It never writes."""

    key: str
    folder: Path
    _suite: tuple[float, Suite] | None = None
    _store: Store | None = None
    _last: int = 0
    _runs: dict[str, dict[int, FinishedRun]] = field(default_factory=dict)
    _attempts: dict[str, dict[int, Attempt]] = field(default_factory=dict)
    _recent: deque[FinishedRun] = field(default_factory=lambda: deque(maxlen=MOST_RECENT))
    _looks: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=MOST_LOOKS))
    _followed: Path | None = None

    def state(self, now: float) -> SuiteState | None:
        """Return the state at a time of ``time.time``; None for a directory that was not run here."""
        suite = self._read_suite()
        if suite is None or not (self.folder / RUNS).is_dir():
            return None
        self._read_runs()
        held = {
            case.id: list((self._attempts.get(case.id) or self._attempts.get(case.earlier_id) or {}).values())
            for case in suite.cases
        }
        done = sum(not wants_another(suite.protocol, attempts) for attempts in held.values())
        alive = _owner_lives(self.folder)
        in_hand = self._in_hand(now, alive)
        outcomes = Counter(run.outcome for runs in self._runs.values() for run in runs.values())
        return SuiteState(
            key=self.key,
            suite=suite.name,
            running=alive or in_hand is not None,
            done=done,
            left=len(suite.cases) - done,
            runs=sum(outcomes.values()),
            ok=outcomes[Outcome.OK],
            in_hand=in_hand,
            recent=tuple(reversed(self._recent)),
        )

    def close(self) -> None:
        """Close the suite's database."""
        if self._store is not None:
            self._store.close()

    def _read_suite(self) -> Suite | None:
        try:
            changed = (self.folder / SUITE).stat().st_mtime
            if self._suite is None or self._suite[0] != changed:
                self._suite = (changed, read_suite(self.folder))
        except (OSError, TrainmarkError):
            return None
        return self._suite[1]

    def _read_runs(self) -> None:
        try:
            if self._store is None:
                if not (self.folder / DATABASE).is_file():
                    return
                self._store = reading_store(self.folder / DATABASE)
            new = runs_after(self._store, self._last)
        except TrainmarkError:
            # It is being made, or replaced: the next look finds it.
            self._store = None
            return
        for row in new:
            self._last = row.id
            try:
                result = RunResult.model_validate(row.document)
            except ValidationError:
                continue
            run = _finished(row.case_id, result)
            self._runs.setdefault(row.case_id, {})[result.repeat] = run
            self._attempts.setdefault(row.case_id, {})[result.repeat] = as_attempts([result])[0]
            self._recent.append(run)

    def _in_hand(self, now: float, alive: bool) -> RunInHand | None:
        found = max(_unfinished(self.folder / RUNS), default=None)
        if found is None or (not alive and now - found[0] > SILENT_S):
            self._looks.clear()
            return None
        _, folder = found
        if folder != self._followed:
            self._followed = folder
            self._looks.clear()
        step = last_step(read_tail(folder / LOG))
        if step is not None and (not self._looks or self._looks[-1][1] != step):
            self._looks.append((now, step))
        return RunInHand(
            case_id=folder.parent.name,
            repeat=int(folder.name),
            elapsed_s=max(0.0, now - _began(folder, found[0])),
            step=step,
            steps=tuple((now - at, number) for at, number in self._looks),
            devices=tuple(_devices(folder)),
        )


def _finished(case_id: str, result: RunResult) -> FinishedRun:
    measured = result.measurement
    return FinishedRun(
        case_id=case_id,
        repeat=result.repeat,
        outcome=result.outcome,
        reason=result.reason,
        throughput=measured.throughput if measured else None,
        unit=measured.unit if measured else None,
        doubts=tuple(f"{doubt.sentence} ({doubt.code})" for doubt in result.suspicions[:MOST_DOUBTS]),
        hosts=result.hosts,
        slowest=_slowest(result),
    )


def _slowest(result: RunResult) -> SlowestRank | None:
    if result.ranks is not None and result.ranks.slowest is not None:
        host = next((one.host for one in result.ranks.ranks if one.rank == result.ranks.slowest), None)
        return SlowestRank(result.ranks.slowest, host, result.ranks.slower_by)
    if result.rank_logs is not None:
        timed = [one for one in result.rank_logs.ranks if one.slower_by is not None]
        if timed:
            found = max(timed, key=lambda one: one.slower_by or 0.0)
            return SlowestRank(found.rank, found.host, found.slower_by)
    return None


def _unfinished(runs: Path) -> Iterator[tuple[float, Path]]:
    """Yield the folders of runs without an outcome, each with the time of its log's last change."""
    for case in _children(runs):
        for run in _children(case):
            if run.name.isascii() and run.name.isdigit() and not (run / OUTCOME).exists():
                try:
                    yield (run / LOG).stat().st_mtime, run
                except OSError:
                    continue


def _children(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as found:
            return [folder / one.name for one in found if one.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _began(folder: Path, otherwise: float) -> float:
    """Return when a run began: its first telemetry sample, else the given time."""
    for line in _first_lines(folder / TELEMETRY):
        wall = line.get("wall_s")
        if isinstance(wall, int | float):
            return float(wall)
    return otherwise


def _first_lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open("rb") as file:
            yield from _documents(file.read(1 << 16).split(b"\n"))
    except OSError:
        return


def _documents(lines: Sequence[bytes]) -> Iterator[dict[str, Any]]:
    for line in lines:
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict):
            yield document


def _devices(folder: Path) -> Iterator[DeviceState]:
    """Yield the processors and GPUs of each host with telemetry here, as of its last sample."""
    for path in sorted(folder.glob("telemetry*.jsonl")):
        node = path.name.removeprefix("telemetry").removesuffix(".jsonl").removeprefix(".")
        host = node or "node0"
        samples = [one for one in _documents(read_tail(path).split(b"\n")) if "cpu" in one]
        if not samples:
            continue
        names = {
            gpu.get("index"): gpu.get("name")
            for header in _first_lines(path)
            if "cpu" not in header
            for gpu in header.get("gpus") or ()
            if isinstance(gpu, dict)
        }
        sample = samples[-1]
        cpu = sample["cpu"] if isinstance(sample["cpu"], dict) else {}
        yield DeviceState(host, "CPU", busy=_number(cpu.get("busy")))
        for gpu in sample.get("gpus") or ():
            if isinstance(gpu, dict):
                index = gpu.get("index")
                yield DeviceState(
                    host,
                    f"GPU {index}" + (f" ({names[index]})" if names.get(index) else ""),
                    _number(gpu.get("sm_clock_mhz")),
                    _number(gpu.get("power_w")),
                    _number(gpu.get("temperature_c")),
                    _number(gpu.get("utilisation")),
                )


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _owner_lives(folder: Path) -> bool:
    """Return whether a trainmark holds the directory's lock, without trying to take it."""
    lock = folder / ".lock"
    try:
        inode = f":{lock.stat().st_ino} "
        held = Path("/proc/locks").read_text(encoding="utf-8")
        if any(inode in line and "FLOCK" in line for line in held.splitlines()):
            return True
        # The lock of another container's process is not listed.
        name, _, pid = lock.read_text(encoding="utf-8")[:64].partition(" ")
        if name != "process" or not pid.strip().isdigit():
            return False
        return b"trainmark" in Path(f"/proc/{int(pid)}/cmdline").read_bytes()
    except (OSError, UnicodeDecodeError):
        return False


class LiveSuites:
    """The suites of a source's result directories."""

    def __init__(self, folders: Callable[[], Iterable[tuple[str, Path]]]) -> None:
        self._folders = folders
        self._watches: dict[str, SuiteWatch] = {}

    def states(self) -> list[SuiteState]:
        """Return the states of all suites, running ones first."""
        found = []
        for key, folder in self._folders():
            watch = self._watches.get(key)
            if watch is None or watch.folder != folder:
                watch = self._watches[key] = SuiteWatch(key, folder)
            if (state := watch.state(time.time())) is not None:
                found.append(state)
        return sorted(found, key=lambda state: not state.running)

    def close(self) -> None:
        """Close all databases."""
        for watch in self._watches.values():
            watch.close()
