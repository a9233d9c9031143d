"""The fixed catalogue of rules, and the witnesses that their number is compared with.

A rule has a name, a formula, parameters and publishers. The programs' folders list which publisher uses which rule. A
parameter is listed because a publisher uses it, never because it makes a value fit: an audit tries only the rules
listed for the log's format, and then a fixed list of conventional rules. ``docs/how-to/add-a-rule.md`` explains how to
add one.

Witnesses are all ways to the throughput that one log allows. A number is confirmed if two independent ones agree. If
they differ by more than 5 %, the number has a doubt that names both, and an explanation if one fits. Time stamps are
compared by the median interval, because evaluations and checkpoints between two records are not a contradiction.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from trainmark.errors import InputError, nearest
from trainmark.logs.facts import is_of_sequences
from trainmark.logs.format import Format
from trainmark.logs.intervals import Intervals, first_interval, intervals, measure_timing
from trainmark.logs.model import (
    Floats,
    Meaning,
    ParsedLog,
    Problem,
    Scope,
    Severity,
    Status,
    Witness,
    differences,
    median,
)
from trainmark.measure.rules.model import Rule, RuleKind, RuleResult
from trainmark.measure.rules.row import utilisation_problems
from trainmark.measure.rules.series import (
    NoNumberError,
    Series,
    block_median,
    count,
    global_batch,
    harmonic_mean,
    mean,
    not_finite,
    scope_problems,
    series,
    trimmed_mean,
    weight_of,
)
from trainmark.measure.rules.window import by_averages, has_averages, window
from trainmark.programs import formats

TOLERANCE = 0.05
"""Two witnesses agree if they differ by at most this share of the number."""
_EXPLAINED = 0.03
"""A factor explains a disagreement if it fits within this share."""
_COMPARED = frozenset(
    {
        "witnesses-disagree",
        "rates-contradict-batch",
        "rates-contradict-clock",
        "average-differs",
        "totals-disagree",
        "summary-differs",
        "batch-changes",
    }
)
"""Problems that compare the same witnesses more closely."""
COUNTER = "consumed counter"
"""Name of the witness of consumed samples or tokens."""
_OF_TOKENS = frozenset({"step time", "time stamps", COUNTER})
_MOST_ROUNDING = 0.02
"""Largest uncertainty of the units by the counter's last digit: ``5.24M`` is known to 10 000."""
_NEAR_END = 8
_MOST_DIGITS = 12
_Outcome = tuple[float, int, list[Problem]]
DEFAULT_SKIP = 10
_SUMMARY_TOLERANCE = 0.03


def find_witnesses(log: ParsedLog, skipped: int, value: float) -> tuple[Witness, ...]:
    """Return every way to the throughput after the first ``skipped`` records, in the log's unit over all devices.

    ``value`` is the number by the rule ``window``, which is itself computed by one of the ways.
    """
    if log.own_run is not None or log.records.count <= skipped:
        return log.witnesses
    with np.errstate(all="ignore"):
        found = (*_of_records(log, skipped, value), *log.witnesses, *_of_summary(log))
    return tuple(witness for witness in found if 0 < witness.value < float("inf"))


def _of_records(log: ParsedLog, skipped: int, value: float) -> Iterator[Witness]:
    records = log.records
    batch = _batch(log)
    rate = _by_rates(log, skipped, value)
    if rate is not None:
        yield rate
    by_times = None
    is_comparable = log.meaning is not Meaning.RUNNING and not has_averages(log) and not log.counts_samples
    if records.step_time_s is not None and batch is not None and is_comparable:
        times = records.step_time_s
        # A longer interval has more steps of its time.
        weights = Series(log, 1.0, batch).weights
        steps_per_s = harmonic_mean(
            lambda: (1 / block for block in times.blocks(skipped, records.count)), lambda: weights(skipped)
        )
        if 0 < steps_per_s < math.inf:  # a step of no time, or of endless time, is a mistake of the log
            how = f"{batch} {_units(log)} a step / {1 / steps_per_s:.6g} s"
            by_times = Witness("step time", batch * steps_per_s, how)
        # A sampled step's time is compared with that step's rate; without one, it is the number itself.
        if by_times is not None and (log.meaning is Meaning.INTERVAL or rate is not None):
            yield by_times
    if records.clock_s is not None:
        yield from _of_stamps(log, skipped, rate or by_times, batch)
    if (counter := count_consumed(log, skipped)) is not None:
        value = counter.units / counter.seconds
        how = f"{counter.units:.6g} {_units(log)} by the counter / {counter.seconds:.6g} s"
        yield Witness(COUNTER, value, how)


def _by_rates(log: ParsedLog, skipped: int, value: float) -> Witness | None:
    """Return the witness of the printed rates, or of the averages of lines whose other figures cover one step."""
    if has_averages(log):
        if log.records.clock_s is not None:
            # The number may be that of the clock, if the averages have few digits.
            value = by_averages(log, skipped)[0]
        return Witness("running average", value, "the difference of two averages since the epoch's start")
    if log.records.rate is None or log.meaning is Meaning.RUNNING:
        return None
    if log.meaning is Meaning.SAMPLED or log.records.step_time_s is not None:
        # The number may use the clock while the scope of the rates is unknown, or the times if the rates are coarse.
        try:
            found = series(log)
        except NoNumberError:
            return None
        if any((block == 0).any() for block in log.records.rate.blocks(skipped)):
            # The time of a step whose rate is cut to zero is unknown.
            return None
        value = harmonic_mean(lambda: found.rates(skipped), lambda: found.weights(skipped))
    return Witness("printed rate", value, "samples over time of the printed rates")


def _of_stamps(log: ParsedLog, skipped: int, printed: Witness | None, batch: int | None) -> Iterator[Witness]:
    """Yield the witness of the time stamps: by the records' own rates or times (``printed``), or by their steps."""
    pace = measure_timing(log)
    if printed is not None and pace.ratios:
        ratio = median(pace.ratios)
        if not ratio > 0 or 2 * log.clock_resolution_s > TOLERANCE * pace.clock_s:
            return
        name = "printed rate" if printed.name == "running average" else printed.name
        how = f"the {name} / {ratio:.4g}, the clock's time over the records'"
        yield Witness("time stamps", printed.value / ratio, how)
    elif (
        printed is None
        and batch is not None
        and pace.by_clock
        and pace.window_s > 0
        and not log.counts_samples
        # A short log may have another warm-up than its timing.
        and max(skipped, 1) == first_interval(log)
    ):
        steps = sum(chunk.work for chunk in pace.chunks)
        if log.records.samples is None and steps > 0:
            value = steps * batch / pace.window_s
            yield Witness(
                "time stamps", value, f"{steps:.0f} steps of {batch} {_units(log)} / {pace.window_s:.6g} s"
            )


def _of_summary(log: ParsedLog) -> Iterator[Witness]:
    summary = log.figures.get("summary")
    if summary is not None:
        yield Witness("program's summary", summary, "the result that the program prints at its end")


def _batch(log: ParsedLog) -> int | None:
    if (log.unit or "").startswith("tokens/") and is_of_sequences(log.facts):
        return None  # its tokens are unknown
    try:
        return global_batch(log)
    except NoNumberError:
        return None


def _units(log: ParsedLog) -> str:
    return (log.unit or "samples/s").removesuffix("/s")


def disagreement(
    log: ParsedLog, value: float, witnesses: tuple[Witness, ...], reported: frozenset[str]
) -> list[Problem]:
    """Return the doubt about witnesses that differ from ``value``, unless one in ``reported`` is about it."""
    off = [one for one in witnesses if abs(one.value / value - 1) > TOLERANCE]
    if not off:
        return []
    worst = max(off, key=lambda one: abs(np.log(one.value / value)))
    reason = explain_factor(log, worst.value / value) or _explain_tokens(log, worst, value)
    if reported & _COMPARED and not (reason and reported & _COMPARED == {"rates-contradict-clock"}):
        return []
    sentence = (
        f"the number is {value:.6g}, but by the {worst.name} it is {worst.value:.6g} ({worst.how})"
        f"{': ' + reason if reason else ''}"
    )
    return [Problem("witnesses-disagree", sentence)]


def explain_factor(log: ParsedLog, ratio: float) -> str | None:
    """Return the usual mistake by which one witness is ``ratio`` times another; None if none fits."""
    facts = log.facts
    batch = facts.global_batch or log.global_batch
    factors = (
        (facts.gpus, f"one of them counts a single device of {facts.gpus}"),
        (facts.nodes, f"one of them counts a single node of {facts.nodes}"),
        (facts.accumulation, f"one of them counts one micro-batch of {facts.accumulation} in a step"),
        (batch, f"one of them counts steps, the other {_units(log)}"),
        (facts.sequence_length, f"one of them counts samples of {facts.sequence_length} tokens"),
    )
    for factor, sentence in factors:
        if factor is not None and factor > 1 and _fits(ratio, float(factor)):
            return sentence
    devices = _other_devices(log, ratio)
    if devices is not None:
        return (
            f"the printed rate is of one device: by the other the run has {devices} devices, not {facts.gpus}"
        )
    if log.step_interval > 1 and _fits(ratio, float(log.step_interval)):
        return f"one of them counts one step of the {log.step_interval} that a record covers"
    return None


def _other_devices(log: ParsedLog, ratio: float) -> int | None:
    """Return the number of devices for which a device's rate gives the other witness; None if it is no plain factor."""
    gpus = log.facts.gpus
    factor = round(max(ratio, 1 / ratio))
    if log.scope is not Scope.DEVICE or gpus is None or factor < 2 or not _fits(ratio, float(factor)):
        return None
    if ratio > 1:
        return gpus * factor
    return gpus // factor if gpus % factor == 0 else None


def _explain_tokens(log: ParsedLog, witness: Witness, value: float) -> str | None:
    """Return why ``witness``, by the tokens of a full batch or of a counter, may differ from a printed rate."""
    if _units(log) != "tokens" or log.records.rate is None or witness.name not in _OF_TOKENS:
        return None
    counted = "the counter" if witness.name == COUNTER else "batch x sequence length"
    if witness.value > value:
        return f"the printed rate may leave out padding, or {counted} may have micro-batches or devices twice"
    if witness.name == COUNTER:
        return (
            "the counter may leave out padding, or the printed rate may have micro-batches or devices twice"
        )
    return "the printed rate counts more tokens than a batch has: packed samples, or micro-batches that it leaves out"


def _fits(ratio: float, factor: float) -> bool:
    return abs(ratio / factor - 1) < _EXPLAINED or abs(ratio * factor - 1) < _EXPLAINED


class Consumed(NamedTuple):
    """The rise of the counter over the seconds of the same steps, by the records or else by the clock."""

    units: float
    seconds: float


def count_consumed(log: ParsedLog, skipped: int) -> Consumed | None:
    """Return the rise of the counter after the first ``skipped`` records.

    None without a counter, without the time of its steps, and if its digits are too few.
    """
    consumed = log.records.consumed
    if consumed is None or log.records.step is None or log.counts_samples:
        return None
    units = seconds = rounding = 0.0
    for block in intervals(log):
        counts = np.round(consumed.array(block.first - 1, block.first + len(block.own)))
        rises, took = differences(counts), _seconds(log, block)
        if took is None:
            return None
        # Time and samples of missing lines are unknown, and a counter may be reset.
        good = (rises > 0) & (took > 0) & np.isfinite(rises) & np.isfinite(took)
        good &= (block.steps <= log.step_interval) & (block.records > skipped)
        parts = int(np.count_nonzero(np.diff(good.astype(np.int8), prepend=0) > 0))
        units += float(rises[good].sum())
        seconds += float(took[good].sum())
        rounding += parts * max(_last_digit(counts[:_NEAR_END]), _last_digit(counts[-_NEAR_END:]))
    return Consumed(units, seconds) if units > 0 and rounding <= _MOST_ROUNDING * units else None


def _seconds(log: ParsedLog, block: Intervals) -> Floats | None:
    """Return the seconds of each interval by its record; by the clock if these have no absolute time."""
    if block.absolute:
        return block.own
    clock = block.clock_s[np.isfinite(block.clock_s)]
    is_fine = len(clock) and log.clock_resolution_s <= _MOST_ROUNDING * median(clock)
    return block.clock_s if is_fine else None


def _last_digit(counts: Floats) -> float:
    """Return the unit of the last digit that is not 0 in any of ``counts``."""
    known = counts[np.isfinite(counts) & (counts > 0)]
    for digits in range(_MOST_DIGITS):
        if len(known) and (known % 10.0 ** (digits + 1) != 0).any():
            return float(10.0**digits)
    return 0.0


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
    return block_median(lambda: found.rates(skip)), skip, not_finite(found, skip) + scope_problems(log)


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
