"""The signs that a number can carry in a table, and the footnotes that say what they mean."""

from enum import StrEnum

from trainmark.measure.statistics import LEAST_RUNS
from trainmark.report.language import Catalogue
from trainmark.store import CaseResult, RunResult
from trainmark.suite import Outcome


class Mark(StrEnum):
    """A sign behind a number, in the order in which they are written; the name is the footnote's key."""

    DOUBT = "†"
    SOME_RUNS_NOT_OK = "‡"


def doubtful(result: CaseResult) -> bool:
    """Say whether a successful run of the case is suspect, or was not steady in its measured window."""
    return any(run.outcome is Outcome.OK and (run.suspicions or unsteady(run)) for run in result.runs)


def unsteady(run: RunResult) -> bool:
    """Say whether the warm-up test found that the run's window began too early."""
    return run.measurement is not None and run.measurement.steadiness.steady is False


def marks(result: CaseResult) -> tuple[Mark, ...]:
    """Return the signs of a case that has a number."""
    found = []
    if doubtful(result):
        found.append(Mark.DOUBT)
    if any(run.outcome is not Outcome.OK for run in result.runs):
        found.append(Mark.SOME_RUNS_NOT_OK)
    return tuple(found)


def shown(result: CaseResult, say: Catalogue) -> str | None:
    """Return what stands in a table where ``result`` has no number: its outcome, ``-`` for no run at all."""
    if result.estimate is not None:
        return None
    return say.outcome(result.outcome) if result.runs else "-"


def footnotes(results: list[CaseResult], say: Catalogue, blanks: bool) -> list[str]:
    """Return the footnotes that a table of ``results`` needs; ``blanks``: it has cells without a case."""
    notes = []
    numbers = [result for result in results if result.estimate is not None]
    few = [result for result in numbers if result.estimate and result.estimate.n < LEAST_RUNS]
    if few:
        notes.append(
            say("no_interval_any" if len(few) == len(numbers) else "no_interval_some", least=LEAST_RUNS)
        )
    signs = {mark for result in numbers for mark in marks(result)}
    notes += [f"{mark.value} {say(f'mark_{mark.name.lower()}')}" for mark in Mark if mark in signs]
    if blanks or any(not result.runs for result in results):
        notes.append(say("blank_cell"))
    return notes
