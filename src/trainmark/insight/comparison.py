"""Comparison of results case by case: faster, slower or not distinguishable, and the other differences."""

import math
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import SequenceMatcher
from statistics import fmean
from typing import Any

from trainmark.errors import InputError
from trainmark.insight.findings import judged
from trainmark.measure import estimate, ratio
from trainmark.measure.campaigns import (
    TABLE_LEVEL,
    Contrast,
    campaign_variation,
    contrast,
    judge_table,
    largest_unchanged_difference,
    ratio_between_campaigns,
)
from trainmark.measure.energy import energy_finding
from trainmark.measure.pooling import differences as manifest_differences
from trainmark.measure.pooling import pooling_differences, same_hardware
from trainmark.measure.run_correlation import run_correlation
from trainmark.schema.case import Case, value_text
from trainmark.schema.comparison import (
    CampaignVariation,
    Change,
    ComparedCase,
    Comparison,
    Difference,
    History,
    Origin,
    Scope,
    Side,
)
from trainmark.schema.energy import EnergyRatio
from trainmark.schema.manifest import Manifest
from trainmark.schema.measurement import Estimate, Ratio
from trainmark.schema.names import RUNS
from trainmark.schema.outcome import Part, PartName
from trainmark.schema.results import CaseResult, Results, RunResult, pooled

_POOLABLE = ("os.", "virtualisation.", "container", "variables.", "trainmark", "git.commit", "git.dirty")
"""Facts of a node that may differ between pooled runs but may still explain a difference."""

_OF_VARIABLES = (PartName.COMMANDS, PartName.VARIABLES)
"""Parts of an identity whose variables are listed by name."""
_OF_THE_CALL = (f"/{RUNS}/", "/compile-caches/")
"""Parts of words that name a folder of the run or a cache."""
_PORT = re.compile(r"((?i:port)[= ]|:)(?:2\d|3[01])\d{3}\b")
"""A free port, from 20 000 to 32 000, which is another in each run."""
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)

_Axes = tuple[tuple[str, str], ...]
_Pair = tuple[str | None, str | None]
_Known = tuple[str, str | None, str | None]
"""The name of a difference and its values on both sides."""


_LEAST_HISTORY = 3
"""The least number of earlier campaigns whose variation sets ``within``."""


@dataclass(frozen=True, slots=True)
class Row:
    """A case of the candidate with the same case of each baseline; None where a baseline lacks it."""

    baselines: tuple[CaseResult | None, ...]
    candidate: CaseResult

    @property
    def present(self) -> tuple[CaseResult, ...]:
        """The case of each baseline that has it."""
        return tuple(case for case in self.baselines if case is not None)

    @property
    def baseline(self) -> CaseResult:
        """The case of the first baseline that has a number for it, else of the first that has the case."""
        numbered = [case for case in self.present if case.estimate is not None]
        return (numbered or list(self.present))[0]

    @property
    def comparable(self) -> tuple[Estimate, ...]:
        """The baselines' estimates with an interval; empty if the candidate has none."""
        if _interval_of(self.candidate) is None:
            return ()
        return tuple(found for case in self.present if (found := _interval_of(case)) is not None)


def compare(
    baselines: Sequence[Results],
    candidate: Results,
    paths: Sequence[str] = (),
    within: float | None = None,
    ignoring: Collection[str] = (),
    history: History | None = None,
) -> Comparison:
    """Return the comparison of a candidate with its baselines.

    Cases match if all axes and options that are not in ``ignoring`` are equal. ``paths`` are those of the baselines and
    of the candidate. Several baselines are campaigns of the same thing: their variation is included in the intervals.
    Changes are judged at the level of the whole table and must exceed the share ``within`` (default: that of
    ``history``, else 0).
    Raises ``InputError`` if no case is in both results, if ``ignoring`` makes two cases of one result equal, or if two
    baselines ran different things or on different hardware, and if with several baselines two sides have a run in
    common: a copy of a campaign shows nothing of how campaigns differ.
    """
    paths = [*paths, *[""] * (len(baselines) + 1 - len(paths))]
    if len(baselines) > 1:
        _require_different_runs([*baselines, candidate], paths)
    befores, now = [judged(baseline) for baseline in baselines], judged(candidate)
    by_axes, cases = [_by_axes(side, ignoring) for side in befores], _by_axes(now, ignoring)
    known: dict[_Axes, CaseResult] = {}
    for axes, case in (pair for side in by_axes for pair in side.items()):
        known.setdefault(axes, case)
    rows = [Row(tuple(side.get(axes) for side in by_axes), cases[axes]) for axes in known if axes in cases]
    if not rows:
        raise InputError(
            f"{' and '.join(paths[:-1])} ({_few(known.values())}) and {paths[-1]} ({_few(cases.values())}) have no "
            f"case in common; {_what_to_ignore(known, cases)}"
        )
    for row in rows:
        _require_one_baseline(row, befores, paths)
    complete = [row.comparable for row in rows if len(row.comparable) == len(befores)]
    variation = campaign_variation(complete)
    limit = (
        within if within is not None else 0.0 if history is None or variation is not None else history.within
    )
    origins = [origin_of(side, path) for side, path in zip((*befores, now), paths, strict=True)]
    # Several baselines show the error of a campaign's runs themselves.
    correlation = 0.0 if variation is not None else correlation_of_runs(rows)
    doubted = [*map(doubted_cases, befores), doubted_cases(now)]
    compared = compared_rows(rows, variation, limit, doubted, correlation)
    return Comparison(
        baseline=origins[0],
        baselines=tuple(origins[:-1]),
        candidate=origins[-1],
        level=TABLE_LEVEL,
        judged=sum(case.significance is not None for case in compared),
        scope=Scope.ONE_CAMPAIGN if variation is None else Scope.CAMPAIGNS,
        variation=variation,
        run_correlation=correlation,
        within=limit,
        history=history if within is None and variation is None else None,
        cases=compared,
        differences=all_differences(rows, befores, now, ignoring),
        only={
            Side.BASELINE: tuple(case.id for axes, case in known.items() if axes not in cases),
            Side.CANDIDATE: tuple(case.id for axes, case in cases.items() if axes not in known),
        },
    )


def history_of(
    baseline: Results, candidate: Results, earlier: Iterable[Results], store: str
) -> History | None:
    """Return what earlier campaigns show of the variation between campaigns of the baseline; None if too few do.

    Of a campaign those cases count in which the baseline's program ran on the baseline's kind of machine. The campaign
    of the candidate does not count.
    """
    campaigns: list[Mapping[str, Estimate]] = []
    for results in earlier:
        if results.measured == candidate.measured:
            continue
        manifests = {**baseline.manifests, **results.manifests}
        before = {case.id: case for case in baseline.cases}
        found = {
            case.id: estimate
            for case in results.cases
            if case.id in before
            and (estimate := _interval_of(case)) is not None
            and _same_program(before[case.id], case)
            and same_hardware(before[case.id].runs, case.runs, manifests)
        }
        if found:
            campaigns.append(found)
    shared = [case.id for case in baseline.cases if all(case.id in found for found in campaigns)]
    variation = campaign_variation([[found[case] for found in campaigns] for case in shared])
    if variation is None or variation.campaigns < _LEAST_HISTORY:
        return None
    return History(
        store=store,
        variation=variation,
        within=largest_unchanged_difference(variation, max(1, len(baseline.cases))),
    )


def _interval_of(case: CaseResult) -> Estimate | None:
    """Return the estimate of a case if it has an interval."""
    return case.estimate if case.estimate is not None and case.estimate.interval is not None else None


def _same_program(one: CaseResult, other: CaseResult) -> bool:
    first, second = _first(one), _first(other)
    return first is not None and second is not None and first.identity == second.identity


def _require_one_baseline(row: Row, baselines: Sequence[Results], paths: Sequence[str]) -> None:
    """Raise ``InputError`` if two baselines of a case are not campaigns of the same program, machine and unit."""
    there = [(i, case) for i, case in enumerate(row.baselines) if case is not None and pooled(case.runs)]
    for i, case in there[1:]:
        first, other = there[0][1], case
        both = f"{paths[there[0][0]]} and {paths[i]} cannot both be the baseline of {other.id}"
        for what in ("unit", "rule"):
            if _counted_by(first, what) != _counted_by(other, what):
                raise InputError(f"{both}: their numbers have different {what}s")
        was, now = _first(first), _first(other)
        if changes := _program_changes(was, now):
            raise InputError(f"{both}: they ran different things ({changes})")
        manifests = {**baselines[there[0][0]].manifests, **baselines[i].manifests}
        if not same_hardware(first.runs, other.runs, manifests):
            raise InputError(f"{both}: they ran on different hardware")


def _require_different_runs(sides: Sequence[Results], paths: Sequence[str]) -> None:
    """Raise ``InputError`` if a run of one side is also one of another: both are one campaign, or one is its copy."""
    first: dict[tuple[str, datetime, float | None], int] = {}
    for number, side in enumerate(sides):
        runs = [(case.id, run) for case in side.cases for run in case.runs]
        keys = {(case, run.started_at, run.duration_s) for case, run in runs if run.started_at is not None}
        if common := keys & first.keys():
            shared = min(common, key=str)
            raise InputError(
                f"{paths[first[shared]]} and {paths[number]} have the same run of {shared[0]}, started at "
                f"{shared[1].isoformat()}: one campaign, or a copy of it; give each campaign once"
            )
        first |= dict.fromkeys(keys, number)


def _program_changes(was: RunResult | None, now: RunResult | None) -> str:
    """Return how the programs of two runs differ, as one clause; empty if they do not, or it is unknown."""
    if was is None or now is None or was.identity is None or now.identity is None:
        return ""
    return was.identity.describe_changes(now.identity)


def doubted_cases(results: Results) -> Collection[str]:
    """Return the ids of the cases whose number is in doubt."""
    return set(results.findings.doubtful) if results.findings else set()


def all_differences(
    rows: Sequence[Row], befores: Sequence[Results], now: Results, ignoring: Collection[str]
) -> tuple[Difference, ...]:
    """Return the differences between the baselines and the candidate, each once."""
    whole = dict.fromkeys(found for before in befores for found in _of_the_whole(before, now))
    between = _collected(
        (row.baseline.id, _between(before, now, case, row.candidate, ignoring))
        for row in rows
        for before, case in zip(befores, row.baselines, strict=True)
        if case is not None
    )
    return (*whole, *between)


def _by_axes(results: Results, ignoring: Collection[str]) -> dict[_Axes, CaseResult]:
    found: dict[_Axes, CaseResult] = {}
    for case in results.cases:
        options = {name: value for name, value in case.case.options.items() if name not in ignoring}
        values = {axis: case.case.value(axis) for axis in case.case.axes} | {"options": options}
        axes = tuple((axis, str(value)) for axis, value in values.items() if axis not in ignoring)
        if axes in found:
            raise InputError(
                f"{found[axes].id} and {case.id} are the same case when {', '.join(ignoring)} is ignored: "
                "choose one of them with --only"
            )
        found[axes] = case
    return found


def compared_rows(
    rows: Sequence[Row],
    variation: CampaignVariation | None,
    within: float,
    doubted: Sequence[Collection[str]],
    correlation: float = 0.0,
) -> tuple[ComparedCase, ...]:
    """Return the compared cases: each with its ratio, and its change at the level of the whole table.

    ``correlation`` is ``correlation_of_runs``.
    """
    reasons = [_no_ratio(row) for row in rows]
    contrasts = {
        number: contrast(row.candidate.estimate, found, correlation)
        for number, (row, reason) in enumerate(zip(rows, reasons, strict=True))
        if reason is None and (found := row.comparable) and row.candidate.estimate is not None
    }
    values = dict(zip(contrasts, judge_table([*contrasts.values()], variation, within), strict=True))
    return tuple(
        _compared(row, reason, contrasts.get(number), variation, values.get(number), doubted)
        for number, (row, reason) in enumerate(zip(rows, reasons, strict=True))
    )


def correlation_of_runs(rows: Sequence[Row]) -> float:
    """Return how much a run resembles the run before it, over all cases of both sides; 0 if they do not show it."""
    # A case of one result may be the baseline of several others.
    cases = {id(case): case for row in rows for case in (*row.present, row.candidate)}
    return run_correlation(
        [
            [math.log(run.measurement.throughput) for run in pooled(case.runs) if run.measurement is not None]
            for case in cases.values()
            if _interval_of(case) is not None
        ]
    )


def _compared(
    row: Row,
    no_ratio: str | None,
    found: Contrast | None,
    variation: CampaignVariation | None,
    significance: float | None,
    doubted: Sequence[Collection[str]],
) -> ComparedCase:
    baseline, candidate = row.baseline, row.candidate
    quotient: Ratio | None
    reason: str | None
    before = _joined([case.estimate for case in row.present if case.estimate is not None], row.comparable)
    if no_ratio is not None:
        quotient, reason = None, no_ratio
    elif found is None:
        quotient, reason = ratio(candidate.estimate, before), _without_interval(row)
    else:
        quotient, reason = ratio_between_campaigns(found, variation), _left_out(row)
    in_doubt = {
        Side.BASELINE: any(
            case is not None and case.id in ids for case, ids in zip(row.baselines, doubted[:-1], strict=True)
        ),
        Side.CANDIDATE: candidate.id in doubted[-1],
    }
    return ComparedCase(
        case=baseline.id,
        against=candidate.id,
        unit=baseline.unit or candidate.unit,
        outcomes=(baseline.outcome, candidate.outcome),
        estimates=(before, candidate.estimate),
        baselines=tuple(None if case is None else case.estimate for case in row.baselines),
        ratio=quotient,
        change=_change(quotient, significance),
        significance=significance,
        reason=reason,
        doubtful=tuple(side for side, doubtful in in_doubt.items() if doubtful),
        energy=_energy(baseline, candidate),
    )


def _energy(baseline: CaseResult, candidate: CaseResult) -> EnergyRatio | None:
    """Return the ratio of the joules of a unit of work; None if a run of either side has none."""
    uses = [[run.energy for run in pooled(case.runs)] for case in (baseline, candidate)]
    found = [energy_finding("", one) for one in uses]
    before, now = found
    if before is None or now is None or (before.source, before.unit) != (now.source, now.unit):
        return None
    estimates = [estimate([use.per_unit_j for use in one if use is not None]) for one in uses]
    quotient = ratio(estimates[1], estimates[0])
    if quotient is None:
        return None
    joules = (before.per_unit_j, now.per_unit_j)
    return EnergyRatio(unit=now.unit, source=now.source, joules=joules, ratio=quotient)


def _joined(estimates: Sequence[Estimate], comparable: Sequence[Estimate]) -> Estimate | None:
    """Return the estimate over several baselines: of those that are compared, or of all if none is."""
    used = comparable or estimates
    if len(used) < 2:
        return used[0] if used else None
    runs = sum(one.n for one in used)
    return Estimate(
        n=runs,
        median=math.exp(fmean(math.log(one.median) for one in used)),
        mean=math.fsum(one.n * one.mean for one in used) / runs,
        minimum=min(one.minimum for one in used),
        maximum=max(one.maximum for one in used),
        std=None,
        interval=None,
        no_interval=None if comparable else used[0].no_interval,
    )


def _change(found: Ratio | None, significance: float | None) -> Change:
    if found is None or significance is None:
        return Change.CANNOT_SAY
    if significance > TABLE_LEVEL:
        return Change.NOT_DISTINGUISHABLE
    return Change.FASTER if found.value > 1 else Change.SLOWER


def _no_ratio(row: Row) -> str | None:
    """Return the reason why the two numbers have no ratio; None if they have one."""
    sides = {Side.BASELINE: row.baseline, Side.CANDIDATE: row.candidate}
    for side, case in sides.items():
        if case.estimate is None:
            return f"the {side} has no number: {case.outcome}{f', {case.reason}' if case.reason else ''}"
    for what in ("unit", "rule"):
        values = [_counted_by(case, what) for case in sides.values()]
        if values[0] != values[1]:
            both = " and ".join(" or ".join(sorted(value)) for value in values)
            return f"the numbers have different {what}s: {both}"
    return None


def _counted_by(case: CaseResult, what: str) -> set[str]:
    return {str(getattr(run.measurement, what)) for run in pooled(case.runs)}


def _without_interval(row: Row) -> str:
    sides: dict[str, list[str]] = {}
    for side, case in zip(Side, (row.baseline, row.candidate), strict=True):
        if case.estimate is not None and case.estimate.no_interval is not None:
            sides.setdefault(case.estimate.no_interval.in_words, []).append(f"the {side}")
    reasons = (f"{'each side' if len(names) > 1 else names[0]} {reason}" for reason, names in sides.items())
    return "; ".join(reasons) or "a side has no interval"


def _left_out(row: Row) -> str | None:
    """Return which baselines of a case are left out and why; None if all are compared."""
    reasons = []
    for number, case in enumerate(row.baselines, start=1):
        if case is None:
            reasons.append(f"baseline {number} does not have the case")
        elif case.estimate is None:
            reasons.append(f"baseline {number} has no number: {case.outcome}")
        elif case.estimate.interval is None and case.estimate.no_interval is not None:
            reasons.append(f"baseline {number} {case.estimate.no_interval.in_words}")
    return f"not all baselines are compared: {'; '.join(reasons)}" if reasons else None


def origin_of(results: Results, path: str) -> Origin:
    """Return the description of the results of a side, read from ``path``."""
    return Origin(
        path=path,
        suite=results.suite,
        generated_at=results.generated_at,
        measured=results.measured,
        trainmark=results.trainmark_version,
        complete=results.complete,
    )


def _of_the_whole(baseline: Results, candidate: Results) -> Iterator[Difference]:
    sides = baseline, candidate
    facts: Iterable[tuple[str, list[Any]]] = [
        ("trainmark", [side.trainmark_version for side in sides]),
        *(
            (f"protocol {name}", [getattr(side.protocol, name) for side in sides])
            for name in type(baseline.protocol).model_fields
        ),
        ("gates turned off", [", ".join(side.gates_off) or None for side in sides]),
    ]
    for what, (was, is_) in facts:
        if was != is_:
            yield Difference(what=what, baseline=_word(was), candidate=_word(is_))


def _between(
    baseline: Results, candidate: Results, was: CaseResult, is_: CaseResult, ignoring: Collection[str]
) -> Iterator[_Known]:
    """Yield the differences between the first runs of two cases, except for their numbers."""
    for axis in was.case.axes:
        if axis == "options":
            continue
        found = _word(was.settled.value(axis)), _word(is_.settled.value(axis))
        if found[0] != found[1]:
            yield axis if axis in ignoring else f"{axis} (chosen as best)", *found
    for option in dict.fromkeys((*was.case.options, *is_.case.options)):
        found = _option(was.settled, option), _option(is_.settled, option)
        if found[0] != found[1]:
            yield option, *found
    one, other = _first(was), _first(is_)
    if one is not None and other is not None:
        yield from _of_runs(baseline, candidate, one, other)


def _of_runs(baseline: Results, candidate: Results, one: RunResult, other: RunResult) -> Iterator[_Known]:
    """Yield the differences between what two runs ran and the environments in which they ran it."""
    before, now = _manifest(baseline, one), _manifest(candidate, other)
    given, words = _changed_command(one, other)
    variables = {f"variables.{name}": pair for name, pair in given.items()}
    facts = {} if before is None or now is None else dict(_facts(before, now))
    # What a command sets is what its program gets, whatever the node has.
    both = {name: pair for name, pair in {**facts, **variables}.items() if pair[0] != pair[1]}
    if one.identity is None or other.identity is None:
        if one.identity is not other.identity:
            yield "identity of the program", _is_known(one), _is_known(other)
    else:
        for part, now_part in one.identity.changes(other.identity):
            known = part or now_part
            assert known is not None
            if known.name is PartName.COMMANDS and words is not None:
                yield known.name.value, *words
            elif known.name not in _OF_VARIABLES or not any("variables." in name for name in both):
                yield known.name.value, _part(part), _part(now_part)
    for name, pair in both.items():
        yield name, *pair


def _facts(before: Manifest, now: Manifest) -> Iterator[tuple[str, _Pair]]:
    """Yield the differences of the environments by name; one that all nodes have is one, without their numbers."""
    found: dict[tuple[str, _Pair], list[str]] = {}
    for path, fact, other_fact in environment_differences(before, now):
        node, _, name = path.partition(".")
        found.setdefault((name, (_word(fact), _word(other_fact))), []).append(node.strip("nodes[]"))
    every = max(len(before.nodes), len(now.nodes))
    for (name, pair), nodes in found.items():
        yield name if len(nodes) == every else f"nodes[{','.join(nodes)}].{name}", pair


def _changed_command(one: RunResult, other: RunResult) -> tuple[dict[str, _Pair], tuple[str, str] | None]:
    """Return the differences of two runs' first commands: of the variables that both set, and of the words.

    A variable that one side sets has None on the other. Of the words these are the ones that only one side has, each
    with the flag before it; None if the commands are unknown, or differ in nothing but the call: the folders of their
    runs, their ports, their caches.
    """
    try:
        (set_before, was), (set_now, now) = (_started(run) for run in (one, other))
    except ValueError:
        return {}, None
    variables = {
        name: (set_before.get(name), set_now.get(name)) for name in dict.fromkeys((*set_before, *set_now))
    }
    removed: list[str] = []
    added: list[str] = []
    for kind, *at in SequenceMatcher(None, was, now, autojunk=False).get_opcodes():
        if kind != "equal":
            removed += _with_flag(was, at[0], at[1])
            added += _with_flag(now, at[2], at[3])
    if not removed and not added:
        return variables, None
    return variables, (shlex.join(removed) or "not given", shlex.join(added) or "not given")


def _started(run: RunResult) -> tuple[dict[str, str], list[str]]:
    """Return the variables and the words of a run's first command, without those of the call."""
    text = _PORT.sub(r"\1PORT", run.commands[0]) if run.commands else ""
    words = [word for word in shlex.split(text) if not any(folder in word for folder in _OF_THE_CALL)]
    if words[:1] == ["cd"] and words[2:3] == ["&&"]:
        words = words[3:]
    variables: dict[str, str] = {}
    for position, word in enumerate(words):
        found = _ASSIGNMENT.match(word)
        if found is not None:
            variables[found[1]] = found[2]
        elif word not in {"env", "-u"} and words[position - 1 : position] != ["-u"]:
            return variables, words[position:]
    return variables, []


def _with_flag(words: Sequence[str], start: int, stop: int) -> Sequence[str]:
    """Return the words from ``start`` to ``stop``, with the flag whose value the first one is."""
    is_value = start < stop and start > 0 and words[start - 1].startswith("-") and "=" not in words[start - 1]
    return words[start - 1 if is_value and not words[start].startswith("-") else start : stop]


def environment_differences(before: Manifest, now: Manifest) -> Iterator[tuple[str, Any, Any]]:
    """Yield the differences in hardware and software that forbid pooling, and those of ``_POOLABLE`` facts."""
    yield from pooling_differences(before, now)
    for found in manifest_differences(before, now):
        if found[0].partition(".")[2].startswith(_POOLABLE):
            yield found


def _first(case: CaseResult) -> RunResult | None:
    return next(iter(pooled(case.runs)), None)


def _manifest(results: Results, run: RunResult) -> Manifest | None:
    found = results.manifests.get(run.manifest or "")
    return found if isinstance(found, Manifest) else None


def _is_known(run: RunResult) -> str:
    return "unknown" if run.identity is None else "known"


def _part(part: Part | None) -> str | None:
    return None if part is None else f"{part.word} ({part.short_digest})"


def _collected(found: Iterable[tuple[str, Iterable[_Known]]]) -> Iterator[Difference]:
    """Yield each difference once, with all cases that have it."""
    cases: dict[_Known, list[str]] = {}
    for case, known in found:
        for one in known:
            cases.setdefault(one, []).append(case)
    for (what, was, is_), names in cases.items():
        yield Difference(what=what, baseline=was, candidate=is_, cases=tuple(names))


def _option(case: Case, name: str) -> str | None:
    """Return an option's value as a command writes it; None if the case has no such option."""
    return value_text(case.options[name]) if name in case.options else None


def _word(value: Any) -> str | None:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return None if value is None else str(value)


def _what_to_ignore(befores: Iterable[_Axes], cases: Iterable[_Axes]) -> str:
    """Return how to compare cases that have no counterpart: by the axes in which the nearest two of them differ."""
    pairs = ({name for name, _ in set(one) ^ set(other)} for one in befores for other in cases)
    nearest = min(pairs, key=len, default=set())
    if not nearest or "options" in nearest:
        return "use --ignoring for axes that are meant to differ"
    names = ",".join(sorted(nearest))
    name = " (workload is the name of the program)" if "workload" in nearest else ""
    return f"if they are meant to differ in {names}, add --ignoring {names}{name}"


def _few(cases: Iterable[CaseResult]) -> str:
    names = [case.id for case in cases]
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
