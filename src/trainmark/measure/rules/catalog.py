"""The fixed catalogue of rules: each with its name, formula, parameters and publishers.

The programs' folders list which publisher uses which rule. A parameter is listed because a publisher uses it, never
because it makes a value fit: an audit tries only the rules listed for the log's format, and then a fixed list of
conventional rules. ``docs/how-to/add-a-rule.md`` explains how to add one.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial

import numpy as np

from trainmark.errors import InputError, nearest
from trainmark.logs.format import Format
from trainmark.logs.model import ParsedLog, Problem, Severity, Status
from trainmark.measure.rules.model import Rule, RuleKind, RuleResult
from trainmark.measure.rules.row import utilisation_problems
from trainmark.measure.rules.series import (
    NoNumberError,
    count,
    harmonic_mean,
    mean,
    median,
    not_finite,
    scope_problems,
    series,
    trimmed_mean,
    weight_of,
)
from trainmark.measure.rules.window import window
from trainmark.measure.rules.witnesses import disagreement, find_witnesses
from trainmark.programs import formats

_Outcome = tuple[float, int, list[Problem]]
DEFAULT_SKIP = 10
_SUMMARY_TOLERANCE = 0.03


def _mean(log: ParsedLog, skip: int) -> _Outcome:
    found = series(log)
    _enough(len(found), skip)
    return mean(lambda: found.rates(skip)), skip, not_finite(found, skip) + scope_problems(log)


def _last(log: ParsedLog, last: int) -> _Outcome:
    found = series(log)
    if len(found) < last:
        raise NoNumberError("too-short", f"the rule needs the last {last} records; the log has {len(found)}")
    return _mean(log, len(found) - last)


def _trimmed(log: ParsedLog, skip: int) -> _Outcome:
    found = series(log)
    _enough(len(found), skip)
    size = count(lambda: found.rates(skip))
    drop = max(5, int(0.05 * size))
    if size <= 2 * drop:
        raise NoNumberError(
            "too-short", f"the rule drops {drop} records at each end; {size} are left after {skip}"
        )
    value = trimmed_mean(lambda: found.rates(skip), drop)
    return value, skip, not_finite(found, skip) + scope_problems(log)


def _median(log: ParsedLog, skip: int) -> _Outcome:
    found = series(log)
    _enough(len(found), skip)
    return median(lambda: found.rates(skip)), skip, not_finite(found, skip) + scope_problems(log)


def _harmonic(log: ParsedLog, skip: int) -> _Outcome:
    found = series(log)
    _enough(len(found), skip)
    value = harmonic_mean(lambda: found.rates(skip), lambda: found.weights(skip))
    return value, skip, not_finite(found, skip) + scope_problems(log)


def _figure(log: ParsedLog, name: str) -> _Outcome:
    if name not in log.figures:
        raise NoNumberError(f"no-{name}", f"the log does not contain the program's own {name}")
    return log.figures[name], 0, []


def _dlperf(log: ParsedLog, kind: RuleKind) -> _Outcome:
    from trainmark.measure.rules.dlperf import dlperf_speed, dlperf_time

    value, skipped = (dlperf_speed if kind is RuleKind.DLPERF_SPEED else dlperf_time)(log)
    return value, skipped, scope_problems(log)


def _enough(count: int, skip: int) -> None:
    if count <= skip:
        raise NoNumberError(
            "only-warm-up", f"the log has {count} records, but the rule skips the first {skip}"
        )


def _compute(name: str, formula: Callable[[ParsedLog], _Outcome], log: ParsedLog) -> RuleResult:
    if log.status is not Status.OK:
        return RuleResult(name, None, log.status)
    try:
        with np.errstate(all="ignore"):
            value, skipped, problems = formula(log)
    except (OverflowError, ValueError):
        problem = Problem("no-rates", "the log's numbers are too large or too small to compute with")
        return RuleResult(name, None, Status.INCOMPLETE, problems=(problem,))
    except NoNumberError as refused:
        contested = refused.problem.code.startswith(("contested", "contradicted"))
        status = Status.INVALID if contested else Status.INCOMPLETE
        return RuleResult(name, None, status, problems=(refused.problem,), needs=refused.needs)
    if not 0 < value < float("inf"):
        problem = Problem("no-rates", "the rule gives no positive number")
        return RuleResult(name, None, Status.INCOMPLETE, problems=(problem,))
    return RuleResult(name, value, Status.OK, skipped, log.records.count - skipped, tuple(problems))


def _rule(
    name: str,
    kind: RuleKind,
    formula: str,
    compute: Callable[[ParsedLog], _Outcome],
    skip: int | None = None,
) -> Rule:
    return Rule(name, kind, formula, partial(_compute, name, compute), skip=skip)


def _records(count: int) -> str:
    return "record" if count == 1 else f"{count} records"


def _rates_after(skip: int) -> str:
    return f"the printed rates after the first {_records(skip)}" if skip else "all printed rates"


def mean_rule(skip: int) -> Rule:
    """Return the arithmetic mean of the printed rates after ``skip`` records."""
    name = f"mean-skip-{skip}" if skip else "mean-all"
    text = f"mean of {_rates_after(skip)}"
    return _rule(name, RuleKind.MEAN, text, partial(_mean, skip=skip), skip)


def last_rule(last: int) -> Rule:
    """Return the arithmetic mean of the last ``last`` printed rates."""
    text = f"mean of the last {last} printed rates"
    return _rule(f"mean-last-{last}", RuleKind.LAST, text, partial(_last, last=last))


def trimmed_rule(skip: int) -> Rule:
    """Return the mean after ``skip`` records without the max(5, 5 %) smallest and largest."""
    out = f"leave out {_records(skip)}, " if skip else ""
    text = f"{out}sort, drop max(5, 5 %) at each end, mean"
    return _rule(f"trimmed-skip-{skip}", RuleKind.TRIMMED, text, partial(_trimmed, skip=skip), skip)


def median_rule(skip: int) -> Rule:
    """Return the median of the printed rates after ``skip`` records."""
    text = f"median of {_rates_after(skip)}"
    return _rule(f"median-skip-{skip}", RuleKind.MEDIAN, text, partial(_median, skip=skip), skip)


def harmonic_rule(skip: int) -> Rule:
    """Return samples over time of the records after ``skip`` (their harmonic mean, weighed by samples)."""
    where = f"after the first {_records(skip)}" if skip else "of all records"
    text = f"samples over time (harmonic mean of the rates) {where}"
    return _rule(f"harmonic-skip-{skip}", RuleKind.HARMONIC, text, partial(_harmonic, skip=skip), skip)


def window_rule(skip: int | None = None) -> Rule:
    """Return trainmark's own rule; ``skip`` records are left out instead of the format's warm-up."""
    text = "samples over time in the window after the warm-up (docs/reference/logs.md)"
    rule = _rule("window", RuleKind.WINDOW, text, partial(window, skip=skip), skip)
    return replace(rule, published_by="trainmark (the default)")


_TOOLS: Mapping[str, str] = {
    "table": "the table that the program's benchmark.py prints at its end",
    "summary": "the result that the program itself prints at its end",
    "progress-bar": "the batch of all devices over the time of a step by the program's progress bar",
    "resumed-part": "the samples of the steps that a resumed run trained itself over their time",
}
_NOT_PRINTED: Mapping[str, Problem] = {
    "progress-bar": Problem(
        "by-progress-bar",
        "the log has no rate: the value is the batch over the time of a step by the progress bar",
        Severity.NOTE,
    ),
    "resumed-part": Problem(
        "by-resumed-part",
        "the log has no rate of the resumed part: the value is its own samples over its own time",
        Severity.NOTE,
    ),
}
_DLPERF: Mapping[str, str] = {
    "dlperf-speed": "mean of the printed speeds of iterations 21 to 120",
    "dlperf-time": "samples of iterations 21 to 120 over the time between their stamps",
}
_BASES: Mapping[RuleKind, Callable[[int], Rule]] = {
    RuleKind.MEAN: mean_rule,
    RuleKind.TRIMMED: trimmed_rule,
    RuleKind.MEDIAN: median_rule,
    RuleKind.HARMONIC: harmonic_rule,
}


@cache
def catalogue() -> tuple[Rule, ...]:
    """Return the publishers' rules from the programs' folders, the conventional ones, and trainmark's own."""
    used: dict[str, list[tuple[str, Format]]] = {}
    for known in formats():
        for published in known.published:
            used.setdefault(published.rule, []).append((published.by, known))
    found = []
    for name, users in used.items():
        titles: dict[str, list[str]] = {}
        for by, known in users:
            titles.setdefault(by, []).append(known.title)
        publishers = "; ".join(f"{by}: {', '.join(programs)}" for by, programs in titles.items())
        found.append(
            replace(_named(name), published_by=publishers, formats=frozenset(f.name for _, f in users))
        )
    conventional = (rule for rule in conventional_rules() if rule.name not in used)
    return (*found, *conventional, window_rule())


def rules_for(format_name: str | None) -> tuple[Rule, ...]:
    """Return the rules of this format's publishers in their order, then trainmark's own rule."""
    published = next((known.published for known in formats() if known.name == format_name), ())
    return (*(find_rule(entry.rule) for entry in published), window_rule())


CONVENTIONAL = (
    *("mean-all", "mean-skip-1", "mean-skip-2", "mean-skip-5", "mean-skip-10", "mean-skip-20"),
    *("mean-last-10", "mean-last-20", "mean-last-50", "mean-last-100"),
    *("median-skip-0", "median-skip-10", "median-skip-20"),
    *("harmonic-skip-0", "harmonic-skip-10", "harmonic-skip-20"),
    *("trimmed-skip-0", "trimmed-skip-5", "trimmed-skip-10"),
    *("summary", "table"),
)
"""Rules that publishers commonly use without documenting them, with round parameters. Each further rule makes matches
by chance more likely: ``benchmarks/audit_chance.py`` keeps them below 1 % for figures of five digits."""


@cache
def conventional_rules() -> tuple[Rule, ...]:
    """Return the rules that an audit tries for every format after those of its publishers."""
    return tuple(replace(_named(name), published_by="conventional") for name in CONVENTIONAL)


def find_rule(name: str, skip: int | None = None) -> Rule:
    """Return the rule with a name: one of the catalogue, a formula, or a formula with a parameter (``mean-skip-7``).

    A formula such as ``mean`` leaves out ``skip`` records, 10 by default. Raises ``InputError`` with the nearest name.
    """
    if name == RuleKind.WINDOW:
        return window_rule(skip)
    if name in set(RuleKind) and RuleKind(name) in _BASES:
        return _BASES[RuleKind(name)](DEFAULT_SKIP if skip is None else skip)
    stem, _, number = name.rpartition("-")
    if skip is not None and number.isdecimal():
        raise InputError(f"rule '{name}' already has a number of records: drop --skip or use --rule {stem}")
    listed = next((rule for rule in catalogue() if rule.name == name), None)
    rule = listed or _named(name)
    if skip is not None:
        raise InputError(f"rule '{name}' has a fixed number of records to skip: drop --skip")
    return rule


def _named(name: str) -> Rule:
    stem, _, number = name.rpartition("-")
    if number.isdecimal():
        base = stem.removesuffix("-skip")
        if stem == "mean-last":
            return last_rule(int(number))
        if base in set(RuleKind) and RuleKind(base) in _BASES and stem.endswith("-skip"):
            return _BASES[RuleKind(base)](int(number))
    if name == mean_rule(0).name:
        return mean_rule(0)
    if name in _TOOLS:
        return _rule(name, RuleKind(name), _TOOLS[name], partial(_figure, name=name))
    if name in _DLPERF:
        kind = RuleKind(name)
        return _rule(name, kind, _DLPERF[name], partial(_dlperf, kind=kind))
    known = [rule.name for rule in catalogue()] + [kind.value for kind in _BASES]
    raise InputError(f"no rule '{name}'{nearest(name, known)} (trainmark parse --list-rules)")


def measure_log(log: ParsedLog, rule: Rule | None = None) -> RuleResult:
    """Apply ``rule`` to ``log``; by default trainmark's window, or the program's own summary if there is no window."""
    if log.status is Status.GUESSED:
        result = measure_log(replace(log, status=Status.OK), rule)
        return result if result.value is None else replace(result, status=Status.GUESSED)
    result = (rule or window_rule()).compute(log)
    if rule is not None or log.status is not Status.OK or result.status is Status.INVALID or log.own_run:
        return result
    if result.value is not None:
        return _compared(log, result, result.value)
    summary = _named("summary").compute(log)
    if summary.value is None:
        return _without_own_rate(log) or result
    reasons = " ".join(problem.message for problem in result.problems)
    # If the whole run is warm-up, the program's summary describes the warm-up.
    only_warm_up = log.records.rate is not None and any(p.code == "only-warm-up" for p in result.problems)
    severity = Severity.DOUBT if only_warm_up else Severity.NOTE
    note = Problem("by-summary", f"no window ({reasons}): the value is the program's own summary", severity)
    return replace(summary, problems=(note,))


def _without_own_rate(log: ParsedLog) -> RuleResult | None:
    """Return the number of a log by a figure that the program does not print itself; ``None`` without one."""
    for name, note in _NOT_PRINTED.items():
        result = _named(name).compute(log)
        if result.value is not None:
            return replace(result, problems=(note,))
    return None


def _compared(log: ParsedLog, result: RuleResult, value: float) -> RuleResult:
    """Return ``result`` with the log's witnesses and the problems that they show."""
    of_figures = (
        (*_against_summary(log, value, result.skipped), *utilisation_problems(log)) if log.figures else ()
    )
    problems = (*result.problems, *of_figures)
    witnesses = find_witnesses(log, result.skipped, value)
    reported = frozenset(problem.code for problem in (*log.problems_after(result.skipped), *problems))
    return replace(
        result, problems=(*problems, *disagreement(log, value, witnesses, reported)), witnesses=witnesses
    )


def _against_summary(log: ParsedLog, value: float, skipped: int) -> list[Problem]:
    """Return a problem if the program's own summary is far from the window, as when it includes the warm-up."""
    summary = log.figures.get("summary")
    if summary is None or abs(summary / value - 1) <= _SUMMARY_TOLERANCE:
        return []
    off = summary / value - 1
    sentence = f"the program's own summary is {summary:.6g}, {off:+.1%} from the window's value"
    return [Problem("summary-differs", sentence, weight_of(log, off, skipped))]
