"""Verdicts on what a suite requires: met, missed, or not decided by these runs.

A requirement is met only if the whole 95 % interval is at least the required value and the number is not in doubt:
runs that do not show it do not show the opposite either.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from trainmark.errors import InputError
from trainmark.insight.bound import devices_of
from trainmark.measure import ratio, scaled
from trainmark.measure.pooling import same_hardware
from trainmark.printable import significant
from trainmark.schema.case import Case
from trainmark.schema.measurement import Interval, NoInterval
from trainmark.schema.names import STEPS_UNIT
from trainmark.schema.results import CaseResult, RequirementFinding, RequirementVerdict, Results
from trainmark.schema.suite import parse_rate
from trainmark.suite import select


@dataclass(frozen=True, slots=True)
class _Measured:
    """A measured quantity, which ``cases`` give; ``problem`` says why it has no value."""

    value: float | None = None
    interval: Interval | None = None
    no_interval: NoInterval | None = None
    cases: tuple[str, ...] = ()
    problem: str = ""


def judge_requirements(results: Results, doubted: Collection[str]) -> Iterator[RequirementFinding]:
    """Yield the verdict on each required quantity of each selected case; ``doubted`` are the cases in doubt."""
    for required in results.require:
        rates = (("throughput", required.throughput), ("per_device", required.per_device))
        for case in _selected(results, required.only):
            for quantity, rate in rates:
                if rate is not None:
                    least, unit = parse_rate(rate)
                    found = _rate(case, unit, per_device=quantity == "per_device")
                    yield _finding(case.id, quantity, least, unit, found, doubted)
            share = None if required.efficiency is None else _efficiency(case, results)
            if share is not None and required.efficiency is not None:
                yield _finding(case.id, "efficiency", required.efficiency, None, share, doubted)


def _selected(results: Results, only: str | None) -> Sequence[CaseResult]:
    """Return the selected cases; none if these results are a part of the suite's, without them."""
    if only is None:
        return results.cases
    try:
        chosen = {case.id for case in select([case.case for case in results.cases], only)}
    except InputError:
        return ()
    return [case for case in results.cases if case.id in chosen]


_COUNTS_STEPS = (
    "its log counts steps, whose work may grow with the devices: give the work of a step of all devices "
    "(--work-per-step '{world_size} * 32' --unit samples/s)"
)


def _rate(case: CaseResult, unit: str, *, per_device: bool) -> _Measured:
    """Return the throughput of a case, or that of one device."""
    if case.estimate is None:
        return _Measured(problem=_no_number(case))
    if per_device and case.unit == STEPS_UNIT:
        return _Measured(problem=_COUNTS_STEPS)
    if case.unit != unit:
        return _Measured(problem=f"it is measured in {case.unit}: require that unit")
    measured = next(run.measurement for run in case.runs if run.measurement is not None)
    devices = devices_of(case.case, measured) if per_device else 1
    found = case.estimate.interval
    within = (
        None
        if found is None
        else found.model_copy(update={"low": found.low / devices, "high": found.high / devices})
    )
    return _Measured(case.estimate.median / devices, within, case.estimate.no_interval, (case.id,))


def _efficiency(case: CaseResult, results: Results) -> _Measured | None:
    """Return the share of linear scaling from the case's smallest scale; None if it is that itself."""
    scales = sorted(
        (one for one in results.cases if _but_for_scale(one.case) == _but_for_scale(case.case)),
        key=lambda one: one.case.world_size,
    )
    base = scales[0]
    if base.case.world_size == case.case.world_size:
        if scales[-1].case.world_size > case.case.world_size:
            return None
        return _Measured(problem="the suite has no other scale of this case")
    for one in (case, base):
        if one.estimate is None:
            return _Measured(problem=f"{_named(one, case)}{_no_number(one)}")
    if STEPS_UNIT in (case.unit, base.unit):
        return _Measured(problem=_COUNTS_STEPS)
    if not same_hardware(case.runs, base.runs, results.manifests):
        return _Measured(problem=f"{base.id} was measured on other hardware")
    quotient = ratio(case.estimate, base.estimate)
    assert quotient is not None
    share = scaled(quotient, base.case.world_size / case.case.world_size)
    return _Measured(share.value, share.interval, share.no_interval, (case.id, base.id))


def _but_for_scale(case: Case) -> str:
    return case.varied(nodes=1, devices_per_node=1).id


def _named(one: CaseResult, case: CaseResult) -> str:
    return "" if one is case else f"{one.id}: "


def _no_number(case: CaseResult) -> str:
    """Return why a case has no number; its reason, which may be long, is with the case."""
    if not case.runs and case.reason is None:
        return "it was not run"
    return f"it has no number ({case.outcome.label})"


def _finding(
    case: str,
    quantity: str,
    required: float,
    unit: str | None,
    found: _Measured,
    doubted: Collection[str],
) -> RequirementFinding:
    verdict, reason = _verdict(required, found, doubted)
    per = " per device" if quantity == "per_device" else ""
    after = f" {unit}{per}" if unit else " of linear scaling"
    least = f"{significant(required)}{after}"
    digits = 4 if unit is None else 5
    measured = "" if found.value is None else significant(found.value, digits)
    if found.interval is not None:
        low, high = (significant(end, digits) for end in (found.interval.low, found.interval.high))
        measured += f" [{low}, {high}]"
    sentence = f"{measured or 'no number'}, and at least {least} is required"
    return RequirementFinding(
        case=case,
        quantity=quantity,
        required=required,
        unit=unit,
        value=found.value,
        interval=found.interval,
        against=found.cases[1] if len(found.cases) > 1 else None,
        verdict=verdict,
        sentence=f"{sentence}: {reason}" if reason else sentence,
    )


def _verdict(required: float, found: _Measured, doubted: Collection[str]) -> tuple[RequirementVerdict, str]:
    """Return the verdict, and why it is not met."""
    undecided = RequirementVerdict.UNDECIDED
    if found.value is None:
        return undecided, found.problem
    if found.interval is None:
        whose = "the case" if len(found.cases) == 1 else "one of the cases"
        why = "" if found.no_interval is None else f", as {whose} {found.no_interval.in_words}"
        return undecided, f"there is no interval{why}"
    if found.interval.high < required:
        return RequirementVerdict.MISSED, ""
    if found.interval.low < required:
        return undecided, "the interval has both sides of it: more repeats make it narrower"
    doubtful = [case for case in found.cases if case in doubted]
    if doubtful:
        of = "" if doubtful[0] == found.cases[0] else f" of {doubtful[0]}"
        return undecided, f"the number{of} is in doubt"
    return RequirementVerdict.MET, ""
