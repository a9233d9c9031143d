"""The result directory: its lock, the folders of runs, and which runs are finished."""

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trainmark.errors import InputError, TrainmarkError
from trainmark.files import write_atomically, write_run_file
from trainmark.node import Host, HostError, map_hosts
from trainmark.printable import counted
from trainmark.schema.case import MAX_BATCH, Case
from trainmark.schema.names import CHECK, COMMAND_CARD, COMMAND_SUITE, MANIFEST, OUTCOME, RUNS, SUITE
from trainmark.schema.outcome import MEMORY_LIMIT, OutcomeRecord
from trainmark.schema.suite import Limits, Suite
from trainmark.suite import dump_suite, load_suite

_LOCK = ".lock"
_REPEAT = re.compile(r"[1-9]\d*")
_HALF = re.compile(r"\.[\w.]+\.(yaml|json|csv|md|html|log)\.\d+\.tmp")


@dataclass(frozen=True, slots=True)
class ResultDirectory:
    """``--out DIR`` of a suite: ``suite.yaml`` and ``runs/<case-id>/<repeat>/``."""

    path: Path

    def run(self, case: Case, repeat: int) -> Path:
        """Return the folder of one run; repeats count from 1."""
        if not case.options:
            return self.path / f"{RUNS}/{case.id}/{repeat}"
        return self._of(case) / str(repeat)

    def _of(self, case: Case) -> Path:
        """Return the folder of a case: by its id, or by the shorter id that an older version used."""
        ours = self.path / RUNS / case.id
        if not case.options:
            return ours
        earlier = self.path / RUNS / case.earlier_id
        return earlier if not ours.exists() and earlier.exists() else ours

    def finished(self, case: Case) -> dict[int, OutcomeRecord]:
        """Return the records of the case's finished runs, by repeat.

        Raises ``InputError`` for a folder with another repeat or another case, and for two folders with the same run,
        because a copy would count twice.
        """
        folder = self._of(case)
        if not folder.is_dir():
            return {}
        repeats = sorted(int(child.name) for child in folder.iterdir() if _REPEAT.fullmatch(child.name))
        records = {repeat: read_record(folder / str(repeat)) for repeat in repeats}
        found = {repeat: record for repeat, record in records.items() if record is not None}
        for repeat, record in found.items():
            if record.repeat != repeat:
                raise InputError(
                    f"{folder / str(repeat)}: its outcome.json is of repeat {record.repeat}; a run counts only "
                    "once: remove the folder, or rename it to that number"
                )
            # Older versions had the chosen values of open axes in the run's case id.
            settled = case.left_open or case.batch_per_device == MAX_BATCH
            if not settled and record.case_id not in (case.id, case.earlier_id):
                raise InputError(
                    f"{folder / str(repeat)}: its outcome.json is of a run of {record.case_id}; remove the "
                    "folder, or move it back"
                )
        _require_different(folder, found)
        return found

    def require_cases(self, cases: Iterable[Case]) -> None:
        """Raise ``InputError`` if the directory has finished runs that belong to none of the suite's cases.

        Otherwise their numbers would silently be missing from every report.
        """
        known = {self._of(case).name for case in cases}
        found = [
            path.parent
            for path in sorted(self.path.glob(f"{RUNS}/*/*/{OUTCOME}"))
            if path.parent.parent.name not in known
            and _REPEAT.fullmatch(path.parent.name)
            and (record := read_record(path.parent)) is not None
            and record.started_at is not None
        ]
        if found:
            more = f", and {len(found) - 1} more" if len(found) > 1 else ""
            raise InputError(
                f"{self.path / SUITE}: no case matches {counted(len(found), 'finished run')} "
                f"({found[0].relative_to(self.path)}{more}): it has changed since they were measured; restore it, or "
                f"move their folders out of {self.path / RUNS}"
            )

    def probe(self, case: Case, batch_per_device: int) -> Path:
        """Return the folder of the short run that tests whether a batch fits."""
        return self._of(case) / f"probe-b{batch_per_device}"

    def trial(self, case: Case, axes: Mapping[str, str]) -> Path:
        """Return the folder of the short run that times the case with these values of its open axes."""
        return self._of(case) / "-".join(("trial", *axes.values()))

    def trials(self, case: Case) -> list[Path]:
        """Return the existing folders of such short runs."""
        return sorted(self._of(case).glob("trial-*")) if case.left_open else []

    def timing(self, case: Case) -> Path:
        """Return the folder of a first run that ended early after it had shown how long the case takes."""
        return self._of(case) / "timing"

    def profile(self, case: Case) -> Path:
        """Return the folder of the case's profiled run, which is no measurement."""
        return self._of(case) / "profile"

    def compilation(self, case: Case) -> Path:
        """Return the folder of the process that compiled the case's program ahead of its runs."""
        return self._of(case) / "compilation"

    def move_to_timing(self, case: Case, record: OutcomeRecord) -> None:
        """Store a first run that ended early as the case's timing, so that its number is free again."""
        folder = self.run(case, record.repeat)
        write_record(folder, record)
        if (earlier := self.timing(case)).exists():
            shutil.rmtree(earlier)
        folder.rename(self.timing(case))

    def begin(self, folder: Path) -> None:
        """Create the folder of a run before its start; files of an interrupted attempt are set aside."""
        record = read_record(folder)
        if record is not None:
            assert record.started_at is None, f"{folder} holds a finished run"
            # The run could not be started (an environment was missing): its folder has nothing to save.
            shutil.rmtree(folder)
        if folder.exists():
            _set_aside(folder)
        folder.mkdir(parents=True)

    def set_aside(self, folder: Path) -> None:
        """Set aside the folder of a finished short run that is to be repeated."""
        _set_aside(folder)

    def set_damaged_aside(self) -> list[str]:
        """Set aside runs with an unreadable outcome or manifest, which count as interrupted; report each.

        Without its manifest it is unknown whether a run may be pooled with others.
        """
        reported = []
        for folder in sorted({path.parent for path in self.path.glob(f"{RUNS}/*/*/{OUTCOME}")}):
            path = _damaged(folder)
            if ".interrupted-" not in folder.name and path is not None:
                aside = _set_aside(path.parent)
                reported.append(
                    f"{path}: damaged; its run counts as interrupted and is repeated (kept as {aside.name})"
                )
        return reported

    def set_failed_aside(self, cases: Iterable[Case]) -> list[str]:
        """Set aside the failed runs of these cases, so that they are repeated; report each.

        So are the failed short runs of a case that has no other run: they chose its batch or its open axes.
        """
        reported = []
        for case in cases:
            finished = self.finished(case)
            if all(_may_end_differently(record) for record in finished.values()):
                for folder in (*self._of(case).glob("probe-b*"), *self.trials(case)):
                    tried = None if ".interrupted-" in folder.name else read_record(folder)
                    if tried is not None and _may_end_differently(tried):
                        _set_aside(folder)
            for repeat, record in finished.items():
                if _may_end_differently(record):
                    aside = _set_aside(self.run(case, repeat))
                    reported.append(
                        f"run {repeat} of {case.id} is repeated: {record.outcome}, {record.reason} "
                        f"(kept as {aside.name})"
                    )
        return reported


@contextmanager
def open_results(path: Path, suite: Suite, resume: bool, hosts: Sequence[Host]) -> Iterator[ResultDirectory]:
    """Lock ``path`` as the suite's result directory for the duration of the context.

    Processes on the hosts that a killed call left behind are ended.

    Raises ``InputError`` if another trainmark is using the directory, if it belongs to another suite, if it has
    finished runs and ``resume`` is false, or if it is not empty and not a result directory.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be made a result directory: {error.strerror}") from None
    # Checked before the lock file is created, so that a foreign folder stays unchanged.
    refuse_foreign(path)
    with _locked(path):
        for left in _halves(path):
            left.unlink()
        document = dump_suite(suite)
        if (path / SUITE).exists():
            _check_owner(path, suite, document, resume)
            ResultDirectory(path).require_cases(suite.cases)
            if read_suite(path) != suite:
                write_atomically(path / SUITE, document)
        else:
            write_atomically(path / SUITE, document)
        map_hosts(hosts, lambda host: _end_left(host, path))
        yield ResultDirectory(path)


def _end_left(host: Host, path: Path) -> None:
    # An unreachable host is tried again when a case needs it.
    with suppress(HostError):
        host.kill(str(path.resolve()))


def read_suite(path: Path) -> Suite:
    """Return the suite that a result directory belongs to."""
    return load_suite(path / SUITE)


def refuse_foreign(path: Path) -> None:
    """Raise ``InputError`` if an existing folder is neither empty nor a result directory."""
    ours = {path / _LOCK, path / CHECK, path / COMMAND_SUITE, path / COMMAND_CARD, *_halves(path)}
    if not (path / SUITE).exists() and any(child not in ours for child in path.iterdir()):
        raise InputError(f"{path}: is neither empty nor a result directory; give another --out")


def require_empty(path: Path) -> None:
    """Raise ``InputError`` if ``path`` exists and is no empty folder."""
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise InputError(f"{path}: is not empty; give another --out")


def _halves(path: Path) -> list[Path]:
    """Return the temporary files of a killed ``write_atomically`` in the directory."""
    return [child for child in path.glob(".*.tmp") if _HALF.fullmatch(child.name)]


def _check_owner(path: Path, suite: Suite, document: str, resume: bool) -> None:
    there = path / SUITE
    # Another version of trainmark may write the same suite differently.
    other = suite if there.read_bytes() == document.encode() else _suite_of(there)
    if other.model_copy(update=_without_effect(suite, other)) != suite:
        raise InputError(
            f"{path}: belongs to another suite ('{other.name}', {there}), or to this one before it was changed; "
            "give another --out, or run that file itself to continue it"
        )
    if (lowered := _lowered_limit(other.limits, suite.limits)) is not None:
        raise InputError(
            f"{path}: {lowered}; its runs may have needed more: a limit can be raised later, not lowered"
        )
    before, now = other.protocol, suite.protocol
    if now.min_repeats < before.min_repeats or now.max_repeats < before.max_repeats:
        raise InputError(
            f"{path}: was started with {before.min_repeats} to {before.max_repeats} runs per case; their number can "
            "be raised later, not lowered"
        )
    if not resume and any(path.glob(f"{RUNS}/*/*/{OUTCOME}")):
        raise InputError(
            f"{path}: holds finished runs of this suite; add --resume to continue, or give another --out"
        )


def _without_effect(suite: Suite, before: Suite) -> dict[str, Any]:
    """Return the parts of a suite that affect no measured run, so that they may change from those of ``before``."""
    repeats = {"min_repeats": suite.protocol.min_repeats, "max_repeats": suite.protocol.max_repeats}
    return {
        "protocol": before.protocol.model_copy(update=repeats),
        "gates": suite.gates,
        "budget": suite.budget,
        "profile": suite.profile,
        # They are not lower than they were: what ended within the earlier ones ends within these.
        "limits": suite.limits,
    }


def _lowered_limit(before: Limits, now: Limits) -> str | None:
    """Return which limit is lower than it was, and both values; None if none is. No limit is the highest."""
    for name in Limits.model_fields:
        old, new = getattr(before, name), getattr(now, name)
        if new is not None and (old is None or new < old):
            was = "none" if old is None else f"{old:.15g}"
            return f"limits.{name} is {new:.15g}, and was {was}"
    return None


def _suite_of(there: Path) -> Suite:
    try:
        return load_suite(there)
    except InputError as error:
        raise InputError(
            f"{error} (it shows which suite the directory belongs to; restore it, or give another --out)"
        ) from None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    try:
        file = (path / _LOCK).open("a+")
    except OSError as error:
        raise TrainmarkError(f"{path / _LOCK}: cannot be written: {error.strerror}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read().strip() or "another process"
            raise InputError(f"{path}: is in use by {owner}; wait for it, or give another --out") from None
        file.truncate(0)
        file.write(f"process {os.getpid()}")
        file.flush()
        yield


def _require_different(folder: Path, records: Mapping[int, OutcomeRecord]) -> None:
    """Raise ``InputError`` if two runs of a case have the same start and duration: one is a copy."""
    began: dict[tuple[datetime, float | None], int] = {}
    for repeat, record in records.items():
        if record.started_at is None:
            continue
        first = began.setdefault((record.started_at, record.duration_s), repeat)
        if first != repeat:
            raise InputError(
                f"{folder / str(repeat)}: is a copy of run {first} ({folder / str(first)}): both started at "
                f"{record.started_at.isoformat()}; a run counts only once: remove the folder"
            )


def _damaged(folder: Path) -> Path | None:
    """Return the file of a finished run that exists but cannot be read, or None."""
    if read_record(folder) is None:
        return folder / OUTCOME
    manifest = folder / MANIFEST
    try:
        json.loads(manifest.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        return manifest
    return None


def _may_end_differently(record: OutcomeRecord) -> bool:
    """Return whether another run may have another outcome, if only because the suite's limit of memory was raised."""
    return record.outcome.is_retried or MEMORY_LIMIT in (record.reason or "")


def _set_aside(folder: Path) -> Path:
    number = 1
    while (aside := folder.with_name(f"{folder.name}.interrupted-{number}")).exists():
        number += 1
    return folder.rename(aside)


def name_on(file: str, node: int) -> str:
    """Return the name of a run's file for a node: ``train.log``, and for node 1 ``train.node1.log``."""
    stem, dot, end = file.partition(".")
    return f"{stem}.node{node}{dot}{end}" if node else file


def write_record(directory: Path, record: OutcomeRecord) -> None:
    """Write the record into a run's folder atomically; from then on the run is finished."""
    write_run_file(directory / OUTCOME, record.to_json())


def read_record(directory: Path) -> OutcomeRecord | None:
    """Read a run's record; None if the run is not finished or its record is damaged."""
    path = directory / OUTCOME
    try:
        return OutcomeRecord.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
    except OSError as error:
        raise TrainmarkError(f"{path}: cannot be read: {error.strerror}") from None
