"""Reading and writing ``results.json``: written atomically, checked on reading, with one-line errors."""

from math import isclose
from pathlib import Path
from statistics import median

from pydantic import ValidationError

from trainmark.errors import InputError, plain_message
from trainmark.files import write_atomically
from trainmark.schema.results import SCHEMA, CaseResult, Results, RunResult, pooled

LONGEST_STEPS = 1.2
"""The sum of the steps' times, as a part of the window, that a run may have: measuring accepts at most 1.15."""


def write_results(path: Path, results: Results) -> None:
    """Write ``results.json`` atomically."""
    write_atomically(path, results.model_dump_json(indent=1) + "\n")


def read_results(path: Path) -> Results:
    """Read ``results.json``; raise ``InputError`` if it is missing, not of this schema, or contradicts itself."""
    try:
        results = Results.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; is it the --out directory of a trainmark run?") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{path}: not a {SCHEMA} document: {place}: {plain_message(first['msg'])}") from None
    for case in results.cases:
        if (contradiction := _contradiction(case)) is not None:
            raise InputError(f"{path}: the number of {case.id} contradicts its runs: {contradiction}")
        for run in case.runs:
            if (contradiction := _run_contradiction(run)) is not None:
                raise InputError(
                    f"{path}: run {run.repeat} of {case.id} contradicts its own window: {contradiction}"
                )
    return results


def _run_contradiction(run: RunResult) -> str | None:
    """Return how a run's throughput differs from its work divided by its window; None if it agrees.

    Only the rule ``window`` stores both; the numbers of other programs' logs follow other rules.
    """
    found = run.measurement
    if found is None or found.window_s is None or found.samples is None:
        return None
    counter = found.unit.removesuffix("/s")
    work = found.work.get(counter, found.samples)
    if isclose(found.throughput * found.window_s, work, rel_tol=1e-6):
        took = found.step_times.mean * found.measured_steps if found.step_times else 0.0
        if took <= LONGEST_STEPS * found.window_s:
            return None
        return f"a window of {found.window_s:.6g} s cannot contain {found.measured_steps} steps that took {took:.6g} s"
    return (
        f"{work} {counter} in {found.window_s:.6g} s are {work / found.window_s:.6g} {found.unit}, "
        f"but its throughput is given as {found.throughput:.6g}"
    )


def _contradiction(case: CaseResult) -> str | None:
    """Return how a case's number differs from that of its runs; None if they agree or the case has no number.

    An older trainmark pooled all runs, including those disturbed by their machine, or all that were not found
    disturbed, including those that were not looked at: that is accepted as well.
    """
    if case.estimate is None:
        return None
    count, stored = case.estimate.n, case.estimate.median
    found = [
        (len(rates), median(rates))
        for runs in (pooled(case.runs), case.runs, [run for run in case.runs if not run.spoiled])
        if (rates := [run.measurement.throughput for run in runs if run.measurement is not None])
    ]
    if any(count == n and isclose(stored, middle, rel_tol=1e-9) for n, middle in found):
        return None
    theirs = (
        f"the median of its {found[0][0]} runs is {found[0][1]:.6g}"
        if found
        else "none of its runs has a number"
    )
    return f"it is given as {stored:.6g}, the median of {count} runs, but {theirs}"
