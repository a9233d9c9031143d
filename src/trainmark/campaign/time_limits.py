"""Cases that cannot end within a suite's limit of time, by the earlier runs in a result directory."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from trainmark.errors import TrainmarkError
from trainmark.schema.names import RESULTS
from trainmark.schema.outcome import Outcome
from trainmark.schema.suite import Suite

if TYPE_CHECKING:
    from trainmark.schema.results import CaseResult, RunResult

_AT_LIMIT = 0.98
"""The share of the limit from which a run that was ended for its time had reached it."""


def cases_over_limit(suite: Suite, directory: Path) -> dict[str, str]:
    """Return why cases of ``suite`` cannot end within its limit, by their ids; only cases with an earlier run."""
    if not (directory / RESULTS).exists():
        # Most plans are of suites without results, whose models take a while to import.
        return {}
    from trainmark.store.document import read_results

    try:
        results = read_results(directory / RESULTS)
    except (OSError, TrainmarkError):
        return {}
    ids = {case.id for case in suite.cases}
    return {
        case.id: reason
        for case in results.cases
        if case.id in ids and (reason := next(_reasons(suite, case), None)) is not None
    }


def _reasons(suite: Suite, case: "CaseResult") -> Iterator[str]:
    limit_s = suite.limits.timeout_s
    for run in case.runs:
        if run.duration_s is None:
            continue
        if run.outcome is Outcome.OK:
            expected_s = run.duration_s + _more_s(run, suite.protocol.steps)
            if expected_s <= limit_s:
                # One run that ends in time shows that the case can.
                return
            yield f"an earlier run shows that it takes about {expected_s:.0f} s; limits.timeout_s is {limit_s:g}"
        elif run.outcome is Outcome.TIMEOUT and run.duration_s >= _AT_LIMIT * limit_s:
            yield (
                f"an earlier run had not ended after {run.duration_s:.0f} s; limits.timeout_s is {limit_s:g}: "
                "raise it, or give the program fewer steps (a card's stop_after ends it on purpose)"
            )


def _more_s(run: "RunResult", steps: int) -> float:
    """Return the seconds by which a run of ``steps`` takes longer; 0 for programs that choose their own steps."""
    found = run.measurement
    if found is None or found.samples is None or found.step_times is None:
        return 0.0
    return found.step_times.mean * (steps - found.measured_steps - found.warmup_steps)
