"""Verify an archive: its digests, and its numbers computed anew from its logs."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

from trainmark.archive.packing import extract_archive
from trainmark.campaign import collect_results
from trainmark.errors import TrainmarkError
from trainmark.execution import ResultDirectory, read_suite
from trainmark.schema.archive import ArchiveContents, Verification
from trainmark.schema.names import RESULTS, RUNS, SUITE
from trainmark.schema.results import CaseResult, Results, RunResult
from trainmark.store import read_results


def verify_archive(source: Path, into: Path) -> Verification:
    """Extract an archive into the empty folder ``into``, and compare its digests and its numbers."""
    with source.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    contents, problems = extract_archive(source, into)
    stored = read_results(into / RESULTS) if (into / RESULTS).is_file() else None
    if stored is None:
        problems.append(f"{RESULTS}: is missing, so there is no number to compare")
    reason, analysed = None, None
    if problems:
        reason = "the files differ from the list"
    else:
        analysed, reason = _analysed(into, contents)
    if stored is not None and analysed is not None:
        problems += _differences(stored, analysed)
    return Verification(
        archive=str(source),
        digest=f"sha256:{digest}",
        suite=contents.suite,
        files=len(contents.files),
        cases=len(stored.cases) if stored is not None else 0,
        analysed=0 if analysed is None else sum(len(case.runs) for case in analysed.cases),
        reason=reason,
        problems=tuple(problems),
    )


def _analysed(folder: Path, contents: ArchiveContents) -> tuple[Results | None, str | None]:
    """Return the results computed from the logs of the runs, or the reason why they cannot be."""
    if not ((folder / SUITE).is_file() and (folder / RUNS).is_dir()):
        return None, "the archive has no logs of runs"
    try:
        suite = read_suite(folder)
        cards = tuple(str(folder / path) for path in contents.cards)
        suite = suite.model_copy(update={"cards": cards})
        return collect_results(suite, ResultDirectory(folder), contents.command), None
    except TrainmarkError as error:
        return None, str(error)


def _differences(stored: Results, analysed: Results) -> Iterator[str]:
    """Yield what differs between the stored results and those computed anew, to the last digit."""
    anew = {case.id: case for case in analysed.cases}
    for case in stored.cases:
        now = anew.get(case.id)
        if now is None:
            yield f"{case.id}: has no run in the archive"
            continue
        yield from _case_differences(case, now)


def _case_differences(case: CaseResult, now: CaseResult) -> Iterator[str]:
    runs = {run.repeat: run for run in now.runs}
    for run in case.runs:
        again = runs.pop(run.repeat, None)
        if again is None:
            yield f"{case.id}: run {run.repeat} has no log in the archive"
        elif _numbers(run) != _numbers(again):
            yield f"{case.id}: run {run.repeat} is {_numbers(run)} in {RESULTS}, but {_numbers(again)} by its log"
    for repeat in runs:
        yield f"{case.id}: run {repeat} is not in {RESULTS}"
    medians = [None if one.estimate is None else (one.estimate.n, one.estimate.median) for one in (case, now)]
    if medians[0] != medians[1]:
        yield f"{case.id}: its number is {medians[0]} in {RESULTS}, but {medians[1]} by its logs"


def _numbers(run: RunResult) -> tuple[object, ...]:
    found = run.measurement
    if found is None:
        return (run.outcome.value,)
    return (run.outcome.value, found.throughput, found.unit, found.rule, found.measured_steps)
