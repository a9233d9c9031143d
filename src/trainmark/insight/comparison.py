"""Comparison of two results case by case: faster, slower or not distinguishable, and the other differences."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from trainmark.environment import differences as manifest_differences
from trainmark.environment import pooling_differences
from trainmark.errors import InputError
from trainmark.insight.findings import judged
from trainmark.measure import ratio
from trainmark.schema.comparison import Change, ComparedCase, Comparison, Difference, Origin, Side
from trainmark.schema.identity import Part
from trainmark.schema.manifest import Manifest
from trainmark.schema.measurement import NoInterval, Ratio
from trainmark.schema.results import CaseResult, Results, RunResult, pooled

_WHY_NOT = {
    NoInterval.ONE_RUN: "has one run, so the variation between runs is unknown",
    NoInterval.TWO_RUNS: "has two runs, too few to estimate their variation",
    NoInterval.EQUAL_RUNS: "has runs with exactly equal numbers, so their variation is unknown",
    NoInterval.RUNS_DISAGREE: "has runs whose rates differ by more than a factor of 1.5",
    NoInterval.SPOILED: "has only runs that were disturbed by their machine",
    NoInterval.STEPS_DIFFER: "has runs with different numbers of steps",
    NoInterval.MACHINES_DIFFER: "has runs on different machines",
}
_POOLABLE = ("os.", "virtualisation.", "container", "variables.", "trainmark", "git.commit", "git.dirty")
"""Facts of a node that may differ between pooled runs but may still explain a difference."""

_Axes = tuple[tuple[str, str], ...]
_Known = tuple[str, str | None, str | None]
"""The name of a difference and its values on both sides."""


def compare(
    baseline: Results,
    candidate: Results,
    paths: tuple[str, str] = ("", ""),
    within: float = 0.0,
    ignoring: Collection[str] = (),
) -> Comparison:
    """Return the comparison of a candidate with a baseline; cases match if all axes not in ``ignoring`` are equal.

    A change needs the whole interval of the ratio to differ from 1 by more than the share ``within``. Raises
    ``InputError`` if no case is in both results, or if ``ignoring`` makes two cases of one result equal.
    """
    sides = judged(baseline), judged(candidate)
    before, now = (_by_axes(side, ignoring) for side in sides)
    pairs = [(case, now[axes]) for axes, case in before.items() if axes in now]
    if not pairs:
        raise InputError(
            f"{paths[0]} ({_few(before.values())}) and {paths[1]} ({_few(now.values())}) have no case in common; "
            "use --ignoring for axes that are meant to differ"
        )
    doubted = [set(side.findings.doubtful) if side.findings else set() for side in sides]
    origins = [_origin(side, path) for side, path in zip(sides, paths, strict=True)]
    return Comparison(
        baseline=origins[0],
        candidate=origins[1],
        within=within,
        cases=tuple(_compared(pair, within, doubted) for pair in pairs),
        differences=(
            *_of_the_whole(*sides),
            *_collected((pair[0].id, _between(*sides, *pair, ignoring)) for pair in pairs),
        ),
        only={
            Side.BASELINE: tuple(case.id for axes, case in before.items() if axes not in now),
            Side.CANDIDATE: tuple(case.id for axes, case in now.items() if axes not in before),
        },
    )


def _by_axes(results: Results, ignoring: Collection[str]) -> dict[_Axes, CaseResult]:
    found: dict[_Axes, CaseResult] = {}
    for case in results.cases:
        axes = tuple((axis, str(case.case.value(axis))) for axis in case.case.axes if axis not in ignoring)
        if axes in found:
            raise InputError(
                f"{found[axes].id} and {case.id} are the same case when {', '.join(ignoring)} is ignored: "
                "choose one of them with --only"
            )
        found[axes] = case
    return found


def _compared(
    pair: tuple[CaseResult, CaseResult], within: float, doubted: Sequence[Collection[str]]
) -> ComparedCase:
    baseline, candidate = pair
    reason = _no_ratio(baseline, candidate)
    found = ratio(candidate.estimate, baseline.estimate) if reason is None else None
    if found is not None and found.interval is None:
        reason = _without_interval(baseline, candidate)
    return ComparedCase(
        case=baseline.id,
        against=candidate.id,
        unit=baseline.unit or candidate.unit,
        outcomes=(baseline.outcome, candidate.outcome),
        estimates=(baseline.estimate, candidate.estimate),
        ratio=found,
        change=_change(found, within),
        reason=reason,
        doubtful=tuple(side for side, case, ids in zip(Side, pair, doubted, strict=True) if case.id in ids),
    )


def _change(found: Ratio | None, within: float) -> Change:
    if found is None or found.interval is None:
        return Change.CANNOT_SAY
    if found.interval.low > 1 + within:
        return Change.FASTER
    return Change.SLOWER if found.interval.high < 1 / (1 + within) else Change.NOT_DISTINGUISHABLE


def _no_ratio(baseline: CaseResult, candidate: CaseResult) -> str | None:
    """Return the reason why the two numbers have no ratio; None if they have one."""
    sides = {Side.BASELINE: baseline, Side.CANDIDATE: candidate}
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


def _without_interval(baseline: CaseResult, candidate: CaseResult) -> str:
    reasons = [
        f"the {side} {_WHY_NOT[case.estimate.no_interval]}"
        for side, case in zip(Side, (baseline, candidate), strict=True)
        if case.estimate is not None and case.estimate.no_interval is not None
    ]
    return "; ".join(reasons) or "a side has no interval"


def _origin(results: Results, path: str) -> Origin:
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
        found = _word(was.settled.value(axis)), _word(is_.settled.value(axis))
        if found[0] != found[1]:
            yield axis if axis in ignoring else f"{axis} (chosen as best)", *found
    one, other = _first(was), _first(is_)
    if one is None or other is None:
        return
    if one.identity is None or other.identity is None:
        if one.identity is not other.identity:
            yield "identity of the program", _is_known(one), _is_known(other)
    else:
        for part, now_part in one.identity.changes(other.identity):
            known = part or now_part
            assert known is not None
            yield known.name.value, _part(part), _part(now_part)
    before, now = _manifest(baseline, one), _manifest(candidate, other)
    if before is not None and now is not None:
        for path, fact, other_fact in _environment_differences(before, now):
            yield path, _word(fact), _word(other_fact)


def _environment_differences(before: Manifest, now: Manifest) -> Iterator[tuple[str, Any, Any]]:
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
    return None if part is None else f"{part.word} ({part.digest.removeprefix('sha256:')[:8]})"


def _collected(found: Iterable[tuple[str, Iterable[_Known]]]) -> Iterator[Difference]:
    """Yield each difference once, with all cases that have it."""
    cases: dict[_Known, list[str]] = {}
    for case, known in found:
        for one in known:
            cases.setdefault(one, []).append(case)
    for (what, was, is_), names in cases.items():
        yield Difference(what=what, baseline=was, candidate=is_, cases=tuple(names))


def _word(value: Any) -> str | None:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return None if value is None else str(value)


def _few(cases: Iterable[CaseResult]) -> str:
    names = [case.id for case in cases]
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
