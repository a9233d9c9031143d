"""A history report as text: the changes of each case, its noise, and a line of its values."""

from collections.abc import Iterator

from trainmark.printable import counted, printable
from trainmark.schema.history import CaseHistory, ChangeCause, FactChange, HistoryReport, LevelChange, Noise

_BARS = "▁▂▃▄▅▆▇█"
_MOST_BARS = 72
_MOST_FACTS = 6
_LONGEST_FACT = 60


def render_history(report: HistoryReport) -> str:
    """Return the report for a terminal."""
    parts = ["\n".join(_case(case)) for case in report.cases]
    return printable("\n\n".join([*parts, _verdict(report)])) + "\n"


def _verdict(report: HistoryReport) -> str:
    """Return how many regressions there are; a case that was not analysed is not one without."""
    analysed = sum(case.reason is None for case in report.cases)
    if not analysed:
        return "No case was analysed. To compare a few results: trainmark compare BEFORE AFTER"
    since = "" if report.since is None else f" since {report.since:%Y-%m-%d}"
    of = (
        "" if analysed == len(report.cases) else f" in the {counted(analysed, 'case')} that could be analysed"
    )
    found = counted(len(report.alarms), "confirmed regression")
    return f"{found}{since}{of}; changes below {report.least:.1%} do not count."


def _case(case: CaseHistory) -> Iterator[str]:
    machines = "" if len(case.machines) < 2 else f" on {len(case.machines)} machines"
    yield f"{case.case}: {counted(len(case.points), 'result')}{machines}, {case.unit}"
    if case.reason is not None:
        yield f"  not analysed: {case.reason}"
        return
    yield f"  {_line(case)}"
    for change in case.changes:
        yield from _change(case, change)
    if not case.changes:
        yield "  no change of level"
    if case.noise is not None:
        yield f"  noise: {_noise(case.noise)}"


def _change(case: CaseHistory, change: LevelChange) -> Iterator[str]:
    before, after = case.points[change.index - 1], case.points[change.index]
    place = f"{after.source}, {after.at:%Y-%m-%d %H:%M}"
    if change.confirmed:
        yield f"  {change.ratio - 1:+.1%}  {_NAMES[change.cause]}  since {place} (before: {before.source})"
        if change.earliest < change.latest:
            first, last = case.points[change.earliest], case.points[change.latest]
            yield f"         it may have come with any result from {first.source} to {last.source}"
    else:
        following = len(case.points) - change.index
        yield (
            f"  {change.ratio - 1:+.1%}  not confirmed  since {place}: {following} of the {change.needed} results that "
            "confirm a change; repeat the case"
        )
    facts = change.differences
    for fact in facts[:_MOST_FACTS]:
        yield f"         {_fact(fact)}"
    if len(facts) > _MOST_FACTS:
        yield f"         and {len(facts) - _MOST_FACTS} more (--json has all)"
    if not facts and change.confirmed:
        yield "         no known fact of the environment changed with it"


_NAMES = {
    ChangeCause.REGRESSION: "regression",
    ChangeCause.IMPROVEMENT: "improvement",
    ChangeCause.METHOD: "change of method",
    ChangeCause.HARDWARE: "change of hardware",
}


def _fact(fact: FactChange) -> str:
    cause = "" if fact.cause is None else f" ({_NAMES[fact.cause]})"
    return f"{fact.fact}: {_short(fact.before)} -> {_short(fact.after)}{cause}"


def _short(text: str | None) -> str:
    if text is None:
        return "none"
    return text if len(text) <= _LONGEST_FACT else f"{text[: _LONGEST_FACT - 1]}…"


def _noise(noise: Noise) -> str:
    parts = [f"{noise.spread:.2%} between results"]
    if noise.spikes:
        parts.append(counted(noise.spikes, "spike"))
    if noise.levels is not None:
        parts.append(f"two levels that differ by {noise.levels - 1:.1%}")
    if noise.drift is not None:
        parts.append(f"a drift of {noise.drift:+.1%} over all results")
    if noise.correlation > 0.3:
        parts.append(f"neighbours correlate ({noise.correlation:.1f})")
    return ", ".join(parts)


def _line(case: CaseHistory) -> str:
    """Return the last values as bars."""
    values = [point.value for point in case.points[-_MOST_BARS:]]
    low, high = min(values), max(values)
    if high == low:
        return _BARS[3] * len(values)
    return "".join(_BARS[round((value - low) / (high - low) * (len(_BARS) - 1))] for value in values)
