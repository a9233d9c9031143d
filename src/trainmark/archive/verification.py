"""Verify an archive: its digests, and its numbers computed anew from its logs."""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel

from trainmark.archive.packing import extract_archive
from trainmark.campaign import collect_results
from trainmark.errors import InputError, TrainmarkError
from trainmark.execution import ResultDirectory, read_suite
from trainmark.schema.archive import ArchiveContents, Verification
from trainmark.schema.measurement import Interval
from trainmark.schema.names import RESULTS, RUNS, SUITE
from trainmark.schema.results import CaseResult, RequirementFinding, Results
from trainmark.store import read_results


def verify_archive(source: Path, into: Path) -> Verification:
    """Extract an archive into the empty folder ``into``, and compare its digests and its numbers."""
    with source.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    contents, problems = extract_archive(source, into)
    reason, analysed, stored = None, None, None
    if problems:
        reason = "the files differ from the list"
    try:
        if (into / RESULTS).is_file():
            stored = read_results(into / RESULTS)
        else:
            problems.append(f"{RESULTS}: is missing, so there is no number to compare")
    except InputError as error:
        # The folder may be a temporary one; a document that was edited by hand is what this verb looks for.
        problems.append(str(error).removeprefix(f"{into}/"))
        reason = reason or f"{RESULTS} has no numbers to compare"
    if not problems:
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
    verdicts = {(one.case, one.quantity, one.required): one.verdict for one in _required(analysed)}
    for one in _required(stored):
        again = verdicts.get((one.case, one.quantity, one.required))
        if again is not one.verdict:
            by_logs = "not required by its suite" if again is None else f"{again} by its logs"
            yield f"{one.case}: its required {one.in_words} is {one.verdict} in {RESULTS}, but {by_logs}"


def _required(results: Results) -> tuple[RequirementFinding, ...]:
    return () if results.findings is None else results.findings.requirements


_OF_RUN = (
    *("throughput", "unit", "rule", "samples", "window_s", "measured_steps", "warmup_steps"),
    *("first_step_s", "compile_s", "step_times", "data_wait", "peak_memory_bytes", "final_loss"),
)
_OF_CASE = ("n", "median", "mean", "minimum", "maximum", "std", "interval")
"""The figures that are compared; others depend on the version of trainmark that analyses."""


def _case_differences(case: CaseResult, now: CaseResult) -> Iterator[str]:
    runs = {run.repeat: run for run in now.runs}
    for run in case.runs:
        again = runs.pop(run.repeat, None)
        if again is None:
            yield f"{case.id}: run {run.repeat} has no log in the archive"
        elif run.outcome is not again.outcome:
            outcomes = f"{run.outcome.value} in {RESULTS}, but {again.outcome.value} by its log"
            yield f"{case.id}: run {run.repeat} is {outcomes}"
        else:
            yield from _figures(
                f"{case.id}: run {run.repeat}", run.measurement, again.measurement, _OF_RUN, "log"
            )
    for repeat in runs:
        yield f"{case.id}: run {repeat} is not in {RESULTS}"
    yield from _figures(case.id, case.estimate, now.estimate, _OF_CASE, "logs")
    yield from _figures(case.id, case, now, ("compiled_ahead_s",), "logs")


def _figures(
    owner: str, stored: BaseModel | None, anew: BaseModel | None, names: Sequence[str], source: str
) -> Iterator[str]:
    """Yield each figure of ``owner`` that differs between its stored numbers and those computed anew."""
    if stored is None or anew is None:
        if stored is not anew:
            yield f"{owner}: has {_known(stored)} in {RESULTS}, but {_known(anew)} by its {source}"
        return
    for name in names:
        before, now = getattr(stored, name), getattr(anew, name)
        if before != now:
            yield f"{owner}: its {name} is {_text(before)} in {RESULTS}, but {_text(now)} by its {source}"


def _text(figure: object) -> str:
    return (
        f"[{figure.low}, {figure.high}] ({figure.method.value})"
        if isinstance(figure, Interval)
        else f"{figure}"
    )


def _known(found: BaseModel | None) -> str:
    return "no number" if found is None else "a number"
