"""Results into findings: what is doubted, what a ratio of two cases is, which frameworks did equal work."""

from collections.abc import Iterable, Iterator, Sequence

from trainmark.insight.equality import judge_equality
from trainmark.measure import ratio
from trainmark.words.case import SYNTHETIC
from trainmark.words.findings import Doubt, Findings, RatioFinding, RatioKind
from trainmark.words.measurement import About, Ratio, Steadiness
from trainmark.words.outcome import Outcome
from trainmark.words.results import CaseResult, Results, RunResult, pooled, sound

NOT_STEADY = "not-steady"
"""The code of a doubt that the warm-up test raised."""


def find(results: Results) -> Findings:
    """Return all that can be judged of the results."""
    doubts = tuple(_doubts(results.cases))
    counted = {(case.id, run.repeat) for case in results.cases for run in pooled(case.runs)}
    doubted = dict.fromkeys(
        doubt.case for doubt in doubts if not doubt.repeat or (doubt.case, doubt.repeat) in counted
    )
    return Findings(
        doubts=doubts,
        doubtful=tuple(doubted),
        ratios=tuple(
            RatioFinding(
                kind=kind,
                case=case,
                against=other,
                ratio=quotient,
                doubtful=tuple(side for side in (case, other) if side in doubted),
            )
            for kind, case, other, quotient in (*_speedups(results.cases), *_data(results.cases))
        ),
        equality=judge_equality(results.cases, results.certificates),
    )


def judged(results: Results) -> Results:
    """Return the results with their findings; those of an older trainmark have none yet."""
    if results.findings is not None:
        return results
    return results.model_copy(update={"findings": find(results)})


def _doubts(cases: Iterable[CaseResult]) -> Iterator[Doubt]:
    for case in cases:
        for run in case.runs:
            if run.outcome is Outcome.OK:
                yield from _doubts_of(case, run)
        for suspicion in case.suspicions:
            yield Doubt(case=case.id, repeat=0, **suspicion.model_dump())


def _doubts_of(case: CaseResult, run: RunResult) -> Iterator[Doubt]:
    for suspicion in run.suspicions:
        yield Doubt(case=case.id, repeat=run.repeat, **suspicion.model_dump())
    if run.measurement is not None and run.measurement.steadiness.steady is False:
        sentence = _unsteady(run.measurement.steadiness)
        yield Doubt(case=case.id, repeat=run.repeat, code=NOT_STEADY, sentence=sentence, about=About.WINDOW)


def _unsteady(found: Steadiness) -> str:
    if found.settled_after is None:
        return "the steps did not become steady in the measured window"
    off = f", and the mean step is {found.bias * 100:.1f} % off" if found.bias is not None else ""
    return f"the steps became steady {found.settled_after} steps after the measured window began{off}"


_Quotient = tuple[RatioKind, str, str, Ratio]


def _speedups(cases: Iterable[CaseResult]) -> Iterator[_Quotient]:
    for case in cases:
        found = case.speedup
        if found is not None and found.baseline != case.id:
            yield RatioKind.SPEEDUP, case.id, found.baseline, found.speedup
            yield RatioKind.EFFICIENCY, case.id, found.baseline, found.efficiency


def _data(cases: Iterable[CaseResult]) -> Iterator[_Quotient]:
    """Yield the ratio of each two measured cases that differ in their data (and its loader) alone."""
    measured = [case for case in cases if case.estimate is not None]
    synthetic = {_but_for_data(case): case for case in measured if case.case.data == SYNTHETIC}
    for case in measured:
        other = synthetic.get(_but_for_data(case))
        if case.case.data == SYNTHETIC or other is None:
            continue
        quotient = ratio(throughputs(case.runs), throughputs(other.runs))
        if quotient is not None:
            yield RatioKind.REAL_TO_SYNTHETIC, case.id, other.id, quotient


def _but_for_data(case: CaseResult) -> str:
    return case.case.model_copy(update={"data": SYNTHETIC, "loader": "native"}).model_dump_json()


def throughputs(runs: Sequence[RunResult]) -> list[float]:
    """Return the throughputs of the runs that no machine spoiled: no ratio is made of others."""
    return [run.measurement.throughput for run in sound(runs) if run.measurement is not None]
