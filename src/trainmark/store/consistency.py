"""Contradictions inside a results document: what trainmark writes twice agrees, and what was edited by hand does not.

Each number is in the document in several ways: a throughput with its window and its steps, an estimate with its runs, a
case with its id, its folders and what the program reported. A document that was edited in all of them is not
recognised: its numbers can be computed again from the logs (``trainmark verify``).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from math import isclose
from pathlib import PurePosixPath
from statistics import fmean, median, stdev

from pydantic import TypeAdapter, ValidationError

from trainmark.errors import plain_message
from trainmark.schema.case import BUILT_IN, Word
from trainmark.schema.measurement import Answer, Estimate, GateName, Interval, Sampling
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import CaseResult, RatioKind, Results, RunResult, pooled

LONGEST_STEPS = 1.2
"""The sum of the steps' times, as a part of the window, that a run may have: measuring accepts at most 1.15."""

SHORTEST_STEPS = 0.75
"""The least such sum of a built-in worker, whose steps follow each other; 395 stored runs have at least 0.92."""


_NAME: TypeAdapter[str] = TypeAdapter(Word)


def contradiction(results: Results) -> str | None:
    """Return the first contradiction in a document as a sentence; None if there is none."""
    try:
        _NAME.validate_python(results.suite)
    except ValidationError:
        return f"{results.suite!r} is not the name of a suite"
    ids = Counter(case.id for case in results.cases)
    if (twice := next((name for name, count in ids.items() if count > 1), None)) is not None:
        return f"{twice} is in it {ids[twice]} times"
    models = {case.case.model for case in results.cases}
    if (
        other := next((one.model for one in results.certificates if one.model not in models), None)
    ) is not None:
        return f"it has a certificate of {other}, which no case trains"
    return next((found for case in results.cases for found in _of_case(results, case)), None)


def _of_case(results: Results, case: CaseResult) -> Iterator[str]:
    if case.id not in (case.case.id, case.case.earlier_id):
        yield f"the case {case.id} has the axes of {case.case.id}"
    yield from _of_trials(case)
    for run in case.runs:
        name = f"run {run.repeat} of {case.id}"
        yield from (f"{name} contradicts its own window: {found}" for found in _found(_OF_WINDOW, run))
        yield from (f"{name}: {found}" for found in _of_run(results, case, run))
    yield from (f"the runs of {case.id}: {found}" for found in _of_repeats(case.runs))
    yield from _of_findings(results, case)
    yield from (f"the number of {case.id} contradicts its runs: {found}" for found in _of_estimate(case))


def _of_trials(case: CaseResult) -> Iterator[str]:
    try:
        _ = case.settled
    except ValidationError as error:
        first = error.errors()[0]
        yield f"the fastest trial of {case.id} has no such value: {first['input']!r}: {plain_message(first['msg'])}"


def _of_findings(results: Results, case: CaseResult) -> Iterator[str]:
    """Yield which doubt of a gate the findings have about a run that does not have it itself."""
    if results.findings is None:
        return
    recorded = {(run.repeat, doubt.code) for run in case.runs for doubt in run.suspicions}
    for found in results.findings.doubts:
        of_run = found.case == case.id and found.repeat and found.code in set(GateName)
        if of_run and (found.repeat, found.code) not in recorded:
            yield f"run {found.repeat} of {case.id}: its doubt {found.code} is in the findings alone"
    medians = {one.id: one.estimate.median for one in results.cases if one.estimate is not None}
    for quotient in results.findings.ratios:
        if quotient.case != case.id or not {quotient.case, quotient.against} <= medians.keys():
            continue
        value = medians[quotient.case] / medians[quotient.against]
        value /= case.case.world_size if quotient.kind is RatioKind.EFFICIENCY else 1
        if not _close(value, quotient.ratio.value):
            yield (
                f"the finding {quotient.kind.value} of {case.id} is {quotient.ratio.value:.6g}, but the medians give "
                f"{value:.6g}"
            )


def _found(checks: Iterable[Callable[[RunResult], str | None]], run: RunResult) -> Iterator[str]:
    yield from (found for check in checks if (found := check(run)) is not None)


def _rate(run: RunResult) -> str | None:
    """Return how a run's throughput differs from its work divided by its window.

    Only the rule ``window`` stores both; the numbers of other programs' logs follow other rules.
    """
    found = run.measurement
    if found is None or found.window_s is None or found.samples is None:
        return None
    counter = found.unit.removesuffix("/s")
    work = found.work.get(counter, found.samples)
    if isclose(found.throughput * found.window_s, work, rel_tol=1e-6):
        return None
    return (
        f"{work} {counter} in {found.window_s:.6g} s are {work / found.window_s:.6g} {found.unit}, "
        f"but its throughput is given as {found.throughput:.6g}"
    )


def _steps(run: RunResult) -> str | None:
    """Return how the steps' times differ from the window."""
    found = run.measurement
    if found is None or found.window_s is None or found.samples is None or found.step_times is None:
        return None
    took = found.step_times.mean * found.measured_steps
    if took > LONGEST_STEPS * found.window_s:
        return f"a window of {found.window_s:.6g} s cannot contain {found.measured_steps} steps that took {took:.6g} s"
    if took < SHORTEST_STEPS * found.window_s:
        return f"its {found.measured_steps} steps took {took:.6g} s of a window of {found.window_s:.6g} s"
    return None


_OF_WINDOW = (_rate, _steps)


def _of_run(results: Results, case: CaseResult, run: RunResult) -> Iterator[str]:
    found = run.measurement
    if run.manifest is not None and run.manifest not in results.manifests:
        yield f"its manifest {run.manifest[:20]}… is not in the document"
    folder = PurePosixPath(run.directory)
    if folder.name != str(run.repeat) or folder.parent.name not in (case.id, case.case.earlier_id):
        yield f"its folder is {run.directory}"
    if found is None:
        return
    if run.outcome is not Outcome.OK:
        yield f"its outcome is {run.outcome.value}, but it has a throughput"
    missing = {doubt.code for doubt in found.suspicions} - {doubt.code for doubt in run.suspicions}
    missing |= {check.gate for check in run.gates or () if check.answer is Answer.DOUBT} - {
        doubt.code for doubt in run.suspicions
    }
    if hidden := sorted(missing - set(results.gates_off)):
        yield f"the doubt {hidden[0]} of its measurement is missing"
    yield from _of_reported(case, run)


def _of_reported(case: CaseResult, run: RunResult) -> Iterator[str]:
    """Yield how a case differs from what its program reported, unless a doubt says so already."""
    found, reported, batch = run.measurement, run.parameters, case.case.batch_per_device
    if found is None or any("differs" in doubt.code for doubt in run.suspicions):
        return
    for name, value, ours in (
        ("batch per device", reported.batch_per_device, batch),
        ("number of devices", reported.world_size, case.case.world_size),
        ("model", reported.model, case.case.model),
    ):
        if value is not None and type(value) is type(ours) and value != ours:
            yield f"its program reported {value} as its {name}, the case has {ours}"
    worked = found.measured_steps * batch * case.case.world_size if isinstance(batch, int) else None
    if case.case.workload == BUILT_IN and found.samples is not None and worked not in (None, found.samples):
        yield f"its {found.measured_steps} steps are {worked} samples, it has {found.samples}"
    if reported.unit is not None and reported.unit.removesuffix("/s") != found.unit.removesuffix("/s"):
        yield f"its program counts {reported.unit}, its throughput is in {found.unit}"
    use = run.energy
    if use is not None and not isclose(use.per_unit_j * found.throughput, use.watts, rel_tol=1e-6):
        yield f"{use.watts:.6g} W at {found.throughput:.6g} {found.unit} are not {use.per_unit_j:.6g} J a {use.unit}"


def _of_repeats(runs: Sequence[RunResult]) -> Iterator[str]:
    repeats = Counter(run.repeat for run in runs)
    if (twice := next((repeat for repeat, count in repeats.items() if count > 1), None)) is not None:
        yield f"run {twice} counts {repeats[twice]} times"
    started: dict[datetime, int] = {}
    for run in runs:
        if run.measurement is None or run.started_at is None:
            continue
        if (other := started.setdefault(run.started_at, run.repeat)) != run.repeat:
            yield f"runs {other} and {run.repeat} started at the same moment: one is a copy"


def _of_estimate(case: CaseResult) -> Iterator[str]:
    """Yield how a case's number differs from that of its runs.

    An older trainmark pooled all runs, including those disturbed by their machine, or all that were not found
    disturbed, including those that were not looked at: that is accepted as well.
    """
    choices = (pooled(case.runs), list(case.runs), [run for run in case.runs if not run.spoiled])
    found = [known for runs in choices if (known := _rates(runs))]
    stored = case.estimate
    if stored is None:
        return
    rates = next(
        (one for one in found if len(one) == stored.n and isclose(stored.median, median(one), rel_tol=1e-9)),
        None,
    )
    if rates is None:
        theirs = (
            f"the median of its {len(found[0])} runs is {median(found[0]):.6g}"
            if found
            else "none of its runs has a number"
        )
        yield f"it is given as {stored.median:.6g}, the median of {stored.n} runs, but {theirs}"
        return
    yield from _of_spread(stored, rates)


def _rates(runs: Iterable[RunResult]) -> list[float]:
    return [run.measurement.throughput for run in runs if run.measurement is not None]


def _of_spread(stored: Estimate, rates: Sequence[float]) -> Iterator[str]:
    """Yield how an estimate's mean, extremes, deviation and interval differ from those of its runs."""
    values: list[tuple[str, float, float | None]] = [
        ("mean", fmean(rates), stored.mean),
        ("minimum", min(rates), stored.minimum),
        ("maximum", max(rates), stored.maximum),
        ("standard deviation", stdev(rates) if len(rates) > 1 else 0.0, stored.std),
    ]
    for name, ours, theirs in values:
        if theirs is not None and not isclose(ours, theirs, rel_tol=1e-6, abs_tol=1e-9 * stored.median):
            yield f"its {name} is given as {theirs:.6g}, but that of its runs is {ours:.6g}"
    if stored.interval is not None:
        yield from _of_interval(stored.interval, rates)


def _of_interval(interval: Interval, rates: Sequence[float]) -> Iterator[str]:
    try:
        from trainmark.measure.statistics import estimate

        estimates = [estimate(rates, sampling) for sampling in Sampling]
    except ModuleNotFoundError:
        return  # The light installation reads results, and has no statistics.
    computed = [again.interval for again in estimates if again is not None and again.interval]
    ends = [
        (one.low, one.high)
        for one in computed
        if one.method is interval.method and one.computed_at == interval.computed_at
    ]
    if not computed:
        yield f"it has an interval, which {len(rates)} such runs do not give"
    elif ends and not any(_close(interval.low, low) and _close(interval.high, high) for low, high in ends):
        yield (
            f"its interval is given as {interval.low:.6g} to {interval.high:.6g}, but its runs give "
            f"{ends[0][0]:.6g} to {ends[0][1]:.6g}"
        )


def _close(one: float, other: float) -> bool:
    return isclose(one, other, rel_tol=1e-6)
