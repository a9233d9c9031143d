"""A comparison as text: a table per unit, the cases without a verdict and why, and the differences."""

import re
from collections.abc import Iterator, Sequence

from trainmark.report.blocks import printable
from trainmark.report.numbers import days, interval, number
from trainmark.report.terminal import aligned
from trainmark.schema.comparison import Change, ComparedCase, Comparison, Difference, Side
from trainmark.schema.measurement import Estimate

_WORDS = {
    Change.FASTER: "faster",
    Change.SLOWER: "slower",
    Change.NOT_DISTINGUISHABLE: "not distinguishable",
    Change.CANNOT_SAY: "cannot say",
}
_HEADINGS = ("case", "baseline", "candidate", "ratio", "95 % interval", "")
_DIGEST = re.compile(r"\b(?:sha256:)?([0-9a-f]{8})[0-9a-f]{32,}\b")
_MOST_CASES = 3
_ONE_IN = 20


def render_comparison(comparison: Comparison) -> str:
    """Return the comparison for a terminal."""
    return printable("\n\n".join(_parts(comparison))) + "\n"


def _parts(comparison: Comparison) -> Iterator[str]:
    sides = comparison.baseline, comparison.candidate
    yield "\n".join(
        f"{side:<10} {origin.path}: suite {origin.suite}, measured on {days(*origin.measured)}"
        f"{'' if origin.complete else ', unfinished'}"
        for side, origin in zip(Side, sides, strict=True)
    )
    for unit in dict.fromkeys(case.unit for case in comparison.cases):
        cases = [case for case in comparison.cases if case.unit == unit]
        heading = f"{unit or 'without a number'}: the median over a case's runs; ratio: candidate / baseline"
        yield f"{heading}\n\n{_table(cases)}"
    yield "\n".join(_notes(comparison))
    if comparison.differences:
        named = [_named(difference, len(comparison.cases)) for difference in comparison.differences]
        yield "What differs (baseline -> candidate):\n" + "\n".join(f"  {line}" for line in named)
    else:
        yield "No other known difference."


def _table(cases: list[ComparedCase]) -> str:
    last = len(_HEADINGS) - 1
    lines, _widths = aligned(
        [_HEADINGS, *(_row(case) for case in cases)], [i not in (0, last) for i in range(last + 1)]
    )
    return "\n".join(lines)


def _row(case: ComparedCase) -> tuple[str, ...]:
    numbers = [
        _number(estimate, outcome) + ("†" if side in case.doubtful else "")
        for side, estimate, outcome in zip(Side, case.estimates, case.outcomes, strict=True)
    ]
    ratio = case.ratio
    return (
        case.case,
        *numbers,
        "-" if ratio is None else f"{ratio.value:.3f}",
        "-" if ratio is None or ratio.interval is None else interval(ratio.interval, 3),
        _WORDS[case.change],
    )


def _number(estimate: Estimate | None, outcome: str) -> str:
    return outcome if estimate is None else number(estimate.median)


def _notes(comparison: Comparison) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for case in comparison.cases:
        if case.reason is not None:
            reasons.setdefault(case.reason, []).append(case.case)
    for reason, cases in reasons.items():
        yield f"- {_few(cases)}: {reason}."
    for side, names in comparison.only.items():
        if names:
            yield f"- Only in the {side}: {_few(names)}."
    if any(case.doubtful for case in comparison.cases):
        yield "- † in doubt: a run of the case is suspect, or its steps were not steady; see trainmark report."
    if comparison.within:
        yield f"- Faster or slower: the whole interval differs by more than {comparison.within * 100:.3g} %."
    judged = [case for case in comparison.cases if case.ratio is not None and case.ratio.interval is not None]
    if judged:
        yield (
            "- An interval covers only the variation within these two campaigns. To see how much two campaigns differ "
            "without any change (another day, a warmer machine), measure the baseline twice and compare the two."
        )
    if len(judged) >= _ONE_IN // 2:
        yield f"- Among {len(judged)} unchanged cases, about one in {_ONE_IN} is called faster or slower by chance."


def _named(difference: Difference, cases: int) -> str:
    was, now = (_DIGEST.sub(r"\1…", word or "-") for word in (difference.baseline, difference.candidate))
    some = difference.cases and len(difference.cases) < cases
    return f"{difference.what}: {was} -> {now}" + (f"  ({_few(difference.cases)})" if some else "")


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_CASES} more" if len(names) > _MOST_CASES else ""
    return ", ".join(names[:_MOST_CASES]) + more
