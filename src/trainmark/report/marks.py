"""The signs that a number can carry in a table, and the footnotes that say what they mean."""

from collections.abc import Iterable
from enum import StrEnum

from trainmark.measure.statistics import LEAST_RUNS
from trainmark.report.context import Context
from trainmark.report.language import Catalogue
from trainmark.store import CaseResult
from trainmark.suite import Outcome
from trainmark.words.findings import RatioFinding


class Mark(StrEnum):
    """A sign behind a number, in the order in which they are written; the name is the footnote's key."""

    DOUBT = "†"
    SOME_RUNS_NOT_OK = "‡"


def marks(context: Context, result: CaseResult) -> tuple[Mark, ...]:
    """Return the signs of a case that has a number."""
    found = []
    if result.id in context.doubted:
        found.append(Mark.DOUBT)
    if any(run.outcome is not Outcome.OK for run in result.runs):
        found.append(Mark.SOME_RUNS_NOT_OK)
    return tuple(found)


def marks_of_ratio(found: RatioFinding) -> tuple[Mark, ...]:
    """Return the signs of a ratio: a doubt of either side is one of the ratio."""
    return (Mark.DOUBT,) if found.doubtful else ()


def shown(result: CaseResult, say: Catalogue) -> str | None:
    """Return what stands in a table where ``result`` has no number: its outcome, ``-`` for no run at all."""
    if result.estimate is not None:
        return None
    return say.outcome(result.outcome) if result.runs else "-"


def footnotes(
    context: Context, results: list[CaseResult], blanks: bool, ratios: Iterable[RatioFinding] = ()
) -> list[str]:
    """Return the footnotes that a table of ``results`` and ``ratios`` needs.

    ``blanks`` says that it has cells without a case.
    """
    say, notes = context.say, []
    numbers = [result for result in results if result.estimate is not None]
    few = [result for result in numbers if result.estimate and result.estimate.n < LEAST_RUNS]
    if few:
        notes.append(
            say("no_interval_any" if len(few) == len(numbers) else "no_interval_some", least=LEAST_RUNS)
        )
    signs = {mark for result in numbers for mark in marks(context, result)}
    signs |= {mark for found in ratios for mark in marks_of_ratio(found)}
    notes += [f"{mark.value} {say(f'mark_{mark.name.lower()}')}" for mark in Mark if mark in signs]
    if blanks or any(not result.runs for result in results):
        notes.append(say("blank_cell"))
    return notes
