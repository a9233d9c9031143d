"""Experiments that close a gap: one factor at a time added to one case and left out of the other.

For factors f1 … fk between the cases A and B, the experiment measures A, B, A with B's value of each factor, and B with
A's value of each. The effect of an added factor is (A with it) / A; that of one that is left out is B / (B without it).
The added effects multiply to B / A up to the interaction: what the factors do jointly beyond what each does alone.
Where one factor cannot be added to A alone, as a compiler that needs another factor, its effect is that of leaving it
out of B, and the interaction is that of the others.

The runs take turns pass by pass, so that the runs of one pass meet the same machine. An effect is computed within each
pass; its interval is Student's t over the passes, on the logarithm. Only if fewer than 3 passes are whole, effects are
those of the cases' medians.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from pydantic import ValidationError

from trainmark.errors import InputError, plain_message
from trainmark.measure.statistics import MIN_RUNS, product, student_t
from trainmark.schema.case import Case, value_text
from trainmark.schema.decomposition import CLOSES_WITHIN, Decomposition, TestedFactor
from trainmark.schema.measurement import Estimate, Interval, IntervalMethod, Ratio
from trainmark.schema.results import CaseResult, Results, measured_runs, sound
from trainmark.tasks import own_axes, recipe_axis

MOST_FACTORS = 12
"""More differing factors need too many runs; the two cases have little in common."""

_SAME = ("workload", "framework", "model", "task")
"""Axes on which the cases of an experiment are equal: no value of them can be added to another program."""

_JOINT = {"loader": "data"}
"""Axes that have no value of their own: synthetic data has no loader."""


@dataclass(frozen=True, slots=True)
class ExperimentFactor:
    """One difference: its name and recipe axes, both values as text, and the two cases that test it."""

    name: str
    axes: frozenset[str]
    here: str
    there: str
    added: Case
    left_out: Case


@dataclass(frozen=True, slots=True)
class Experiment:
    """The cases of an experiment. ``a`` and ``b`` are its ends."""

    a: Case
    b: Case
    factors: tuple[ExperimentFactor, ...]

    @property
    def cases(self) -> tuple[Case, ...]:
        """All cases, each once: with two factors, A with one is B without the other."""
        found = [self.a, self.b, *(case for one in self.factors for case in (one.added, one.left_out))]
        return tuple({case.id: case for case in found}.values())


def plan_experiment(a: Case, b: Case) -> Experiment:
    """Return the experiment between two cases of one program.

    Raises ``InputError`` if the cases are equal, are of different programs or models, or differ in too much.
    """
    for axis in _SAME:
        if a.value(axis) != b.value(axis):
            raise InputError(
                f"--test needs two cases of one program and model: {axis} is {value_text(a.value(axis))} in A and "
                f"{value_text(b.value(axis))} in B"
            )
    for side, case in (("A", a), ("B", b)):
        if case.left_open:
            raise InputError(
                f"--test: {side} leaves {case.left_open[0]} open ('best'); name a case with a value"
            )
    changes = _changes(a, b)
    if not changes:
        raise InputError("--test: A and B are the same case: no axis or option differs")
    if len(changes) > MOST_FACTORS:
        raise InputError(
            f"--test: A and B differ in {len(changes)} axes and options ({', '.join(changes)}); at most {MOST_FACTORS} "
            "can be tested"
        )
    return Experiment(a, b, tuple(_factor(name, axes, a, b) for name, axes in changes.items()))


def _changes(a: Case, b: Case) -> dict[str, tuple[str, ...]]:
    """Return the differing axes and options by the name of their factor; an option is ``options.NAME``."""
    axes = [axis for axis in a.axes if axis not in (*_SAME, "options") and a.value(axis) != b.value(axis)]
    found: dict[str, tuple[str, ...]] = {}
    for axis in axes:
        name = _JOINT.get(axis, axis) if _JOINT.get(axis) in axes else axis
        found[name] = (*found.get(name, ()), axis)
    for option in dict.fromkeys((*a.options, *b.options)):
        if a.options.get(option) != b.options.get(option):
            found[option] = (f"options.{option}",)
    return found


def _factor(name: str, axes: tuple[str, ...], a: Case, b: Case) -> ExperimentFactor:
    own = {axis.removeprefix("options.") for axis in axes}
    return ExperimentFactor(
        name,
        frozenset(own | {recipe_axis(axis) for axis in own if axis in own_axes()}),
        _text(a, axes),
        _text(b, axes),
        _varied(a, b, axes, name),
        _varied(b, a, axes, name),
    )


def _varied(case: Case, other: Case, axes: tuple[str, ...], name: str) -> Case:
    """Return a case with another case's values on some axes and options."""
    changed: dict[str, Any] = {}
    options = dict(case.options)
    for axis in axes:
        option = axis.removeprefix("options.")
        if option == axis:
            changed[axis] = other.value(axis)
        elif option in other.options:
            options[option] = other.options[option]
        else:
            options.pop(option, None)
    try:
        return case.varied(**changed, options=options)
    except ValidationError as error:
        problem = plain_message(error.errors()[0]["msg"])
        raise InputError(f"--test: {name} cannot be changed alone in {case.id}: {problem}") from None


def _text(case: Case, axes: Iterable[str]) -> str:
    values = (
        case.options.get(axis.removeprefix("options."), "not set")
        if axis.startswith("options.")
        else case.value(axis)
        for axis in axes
    )
    return ", ".join(map(value_text, values))


@dataclass(frozen=True, slots=True)
class _Rates:
    """The rates of the cases of an experiment: their estimates, and the rates of whole passes by case id."""

    estimates: Mapping[str, Estimate]
    passes: tuple[Mapping[str, float], ...]

    @classmethod
    def of(cls, cases: Iterable[CaseResult]) -> "_Rates":
        """Return the rates of all cases that have a number, of undisturbed passes alone if there are enough."""
        measured = {case.id: case for case in cases if case.estimate is not None}
        for choose in (sound, measured_runs):
            runs = {
                name: {run.repeat: run.measurement.throughput for run in choose(case.runs) if run.measurement}
                for name, case in measured.items()
            }
            common = set.intersection(*(set(rates) for rates in runs.values())) if runs else set()
            if len(common) >= MIN_RUNS:
                break
        passes = tuple({name: rates[repeat] for name, rates in runs.items()} for repeat in sorted(common))
        estimates = {name: case.estimate for name, case in measured.items() if case.estimate is not None}
        return cls(estimates, passes if len(passes) >= MIN_RUNS else ())

    def rate(self, case: str) -> float | None:
        """Return the rate of a case: the geometric mean over whole passes, else its median."""
        found = self.product({case: 1})
        return None if found is None else found.value

    def product(self, powers: Mapping[str, int]) -> Ratio | None:
        """Return the product of rates to integer powers, with its interval; None if a case has no number."""
        if any(case not in self.estimates for case in powers):
            return None
        if not self.passes:
            return product([(self.estimates[case], power) for case, power in powers.items()])
        logs = [
            math.fsum(power * math.log(rates[case]) for case, power in powers.items())
            for rates in self.passes
        ]
        middle, n = fmean(logs), len(logs)
        half = student_t(n - 1) * stdev(logs, middle) / math.sqrt(n)
        interval = Interval(
            low=math.exp(middle - half), high=math.exp(middle + half), method=IntervalMethod.STUDENT_T_LOG
        )
        return Ratio(value=math.exp(middle), interval=interval)


def decompose(
    experiment: Experiment,
    results: Results,
    names: tuple[str, str],
    gap: Ratio | None,
    not_tested: Sequence[str] = (),
) -> Decomposition:
    """Return the decomposition that the results of an experiment show; ``gap`` is what was recorded before."""
    ids = {case.id for case in experiment.cases}
    by_id = {case.id: case for case in results.cases if case.id in ids}
    rates = _Rates.of(by_id.values())
    a, b = experiment.a.id, experiment.b.id
    factors = tuple(_tested(factor, a, b, by_id, rates) for factor in experiment.factors)
    measured = rates.product({b: 1, a: -1})
    within = None
    if measured is not None and _multiply(factors):
        within = abs(measured.value / (gap or measured).value - 1)
    return Decomposition(
        a=names[0],
        b=names[1],
        case_a=a,
        case_b=b,
        unit=next((case.unit for case in results.cases if case.unit), None),
        rates=(rates.rate(a), rates.rate(b)),
        gap=gap,
        measured=measured,
        factors=factors,
        interaction=None if within is None else _interaction(experiment, rates),
        open=None if gap is None or measured is None else _quotient(gap, measured),
        not_tested=tuple(not_tested),
        closes_within=within,
        closes=within is not None and within <= CLOSES_WITHIN,
        # No run is to come if the budget is used up, but an interval still needs some.
        complete=results.complete and all(len(by_id[name].runs) >= MIN_RUNS for name in rates.estimates),
    )


def _tested(
    factor: ExperimentFactor, a: str, b: str, by_id: Mapping[str, CaseResult], rates: _Rates
) -> TestedFactor:
    pairs = [by_id.get(case.id) for case in (factor.added, factor.left_out)]
    reasons = [
        f"{case.id}: {case.outcome.label}{f', {case.reason}' if case.reason else ''}"
        for case in pairs
        if case is not None and case.estimate is None
    ]
    return TestedFactor(
        name=factor.name,
        here=factor.here,
        there=factor.there,
        added_case=factor.added.id,
        left_out_case=factor.left_out.id,
        added=rates.product({factor.added.id: 1, a: -1}),
        left_out=rates.product({b: 1, factor.left_out.id: -1}),
        reason="; ".join(reasons) or None,
    )


def _multiply(factors: Sequence[TestedFactor]) -> bool:
    """Return True if the effects multiply to B / A: each has one, and at most one could not be added to A alone."""
    return sum(one.added is None for one in factors) < 2 and all(one.effect is not None for one in factors)


def _interaction(experiment: Experiment, rates: _Rates) -> Ratio | None:
    """Return B / A over the product of the factors' effects; None if fewer than two could be added to A alone."""
    end, added = experiment.b.id, []
    for factor in experiment.factors:
        if rates.rate(factor.added.id) is not None:
            added.append(factor.added.id)
        else:
            end = factor.left_out.id
    if len(added) < 2:
        return None
    return rates.product(Counter({end: 1, experiment.a.id: len(added) - 1, **dict.fromkeys(added, -1)}))


def _quotient(gap: Ratio, measured: Ratio) -> Ratio:
    """Return one ratio over another with the interval of independent ones."""
    value = gap.value / measured.value
    if gap.interval is None or measured.interval is None:
        return Ratio(value=value, interval=None, no_interval=gap.no_interval or measured.no_interval)
    up = ((gap.interval.high / gap.value - 1) ** 2 + (measured.value / measured.interval.low - 1) ** 2) ** 0.5
    down = (
        (gap.value / gap.interval.low - 1) ** 2 + (measured.interval.high / measured.value - 1) ** 2
    ) ** 0.5
    interval = Interval(low=value / (1 + down), high=value * (1 + up), method=IntervalMethod.MOVER_LOG)
    return Ratio(value=value, interval=interval)


def closing_sentence(found: Decomposition) -> str:
    """Return in one sentence whether the tested factors close the gap, or what is open."""
    if not found.complete:
        return "Runs are missing: continue with --resume, and with a larger --budget if the given one is used up."
    if found.measured is None:
        return "A or B has no number in the experiment, so that nothing can be said about the gap."
    recorded = found.gap.value if found.gap is not None else found.measured.value
    if found.closes_within is None:
        lacking = ", ".join(one.name for one in found.factors if one.added is None)
        return f"The effect of {lacking} could not be measured alone; its part of x{recorded:.3f} is open."
    dependent = next((one for one in found.factors if one.added is None), None)
    product_of = "The factor comes" if len(found.factors) == 1 else "The factors multiply"
    if found.interaction is not None:
        product_of = "The factors and their interaction multiply"
    tested = f"{product_of} to x{found.measured.value:.3f} of the recorded x{recorded:.3f}"
    if dependent is not None:
        tested = (
            f"A with {dependent.name} {dependent.there} alone has no number, so its effect is that of leaving it out "
            f"of B. {tested}"
        )
    if found.closes:
        return f"{tested}: this closes the gap within {max(found.closes_within, 0.0005):.1%}."
    rest = recorded / found.measured.value
    may_be = f"; not tested: {', '.join(found.not_tested)}" if found.not_tested else ""
    interval = found.measured.interval
    if interval is not None and interval.low <= recorded <= interval.high:
        may_be += (
            f"; it may be chance: this experiment's interval is {interval.low:.3f} to {interval.high:.3f}"
        )
    return f"{tested}; x{rest:.3f} is open{may_be}."
