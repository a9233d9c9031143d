"""A comparison as text: a table per unit, the cases without a verdict and why, and the differences."""

import re
from collections.abc import Iterator, Sequence

from trainmark.measure.energy import joules_text
from trainmark.printable import counted, fit, folded, printable, terminal_width
from trainmark.report.language import days, interval, number
from trainmark.report.terminal import aligned
from trainmark.schema.comparison import CHANGES, Change, ComparedCase, Comparison, Difference, Scope, Side
from trainmark.schema.energy import EnergyRatio, EnergySource
from trainmark.schema.measurement import Estimate, NoInterval

_HEADINGS = ("case", "baseline", "candidate", "ratio", "95 % interval", "p", "")
_DIGEST = re.compile(r"\b(?:sha256:)?([0-9a-f]{8})[0-9a-f]{32,}\b")
_MOST_CASES = 3
_ENOUGH_CAMPAIGNS = 3


def render_comparison(comparison: Comparison) -> str:
    """Return the comparison for a terminal."""
    return printable("\n\n".join(_parts(comparison))) + "\n"


def _parts(comparison: Comparison) -> Iterator[str]:
    baselines = comparison.baselines or (comparison.baseline,)
    origins = [*((Side.BASELINE, origin) for origin in baselines), (Side.CANDIDATE, comparison.candidate)]
    if comparison.axis is not None:
        # Both sides are the same result.
        origins = origins[:1]
        sides = [f"cases that differ in {comparison.axis} only"]
    else:
        sides = [f"{side:<10}" for side, _ in origins]
    yield "\n".join(
        f"{side} {'of ' if comparison.axis else ''}{origin.path}: suite {origin.suite}, measured on "
        f"{days(*origin.measured)}{'' if origin.complete else ', unfinished'}"
        for side, (_, origin) in zip(sides, origins, strict=True)
    )
    for unit in dict.fromkeys(case.unit for case in comparison.cases):
        cases = [case for case in comparison.cases if case.unit == unit]
        of_baselines = "; baseline: the geometric mean of its campaigns" if len(baselines) > 1 else ""
        heading = (
            f"{unit or 'without a number'}: the median over a case's runs{of_baselines}; "
            "ratio: candidate / baseline"
        )
        yield f"{heading}\n\n{_table(cases, comparison)}"
    yield "\n".join(folded(note, 2) for note in _notes(comparison))
    if comparison.differences:
        named = [_named(difference, len(comparison.cases)) for difference in comparison.differences]
        yield "What differs (baseline -> candidate):\n" + "\n".join(f"  {line}" for line in named)
    else:
        yield "No other known difference."


def _table(cases: list[ComparedCase], comparison: Comparison) -> str:
    rows: list[tuple[str, ...]] = [_HEADINGS, *(_row(case, comparison.scope) for case in cases)]
    texts = 1
    if comparison.axis is not None:
        rows = [("baseline case", "candidate case", *_HEADINGS[1:])]
        rows += [(case.case, case.against, *_row(case, Scope.CAMPAIGNS)[1:]) for case in cases]
        texts = 2
    last = len(rows[0]) - 1
    right = [texts <= column < last for column in range(last + 1)]
    screen = terminal_width()
    fitted = None if screen is None else fit(rows, right, screen)
    return "\n".join(aligned(rows, right)[0] if fitted is None else fitted)


def _row(case: ComparedCase, scope: Scope) -> tuple[str, ...]:
    numbers = [
        _number(estimate, outcome) + ("†" if side in case.doubtful else "")
        for side, estimate, outcome in zip(Side, case.estimates, case.outcomes, strict=True)
    ]
    ratio, changed = case.ratio, case.change in (Change.FASTER, Change.SLOWER)
    return (
        case.case,
        *numbers,
        "-" if ratio is None else f"{ratio.value:.3f}",
        "-" if ratio is None or ratio.interval is None else interval(ratio.interval, 3),
        "-" if case.significance is None else _significance(case.significance),
        CHANGES[case.change] + (" within one campaign" if changed and scope is Scope.ONE_CAMPAIGN else ""),
    )


def _significance(value: float) -> str:
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _number(estimate: Estimate | None, outcome: str) -> str:
    return outcome if estimate is None else number(estimate.median)


def _notes(comparison: Comparison) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for case in comparison.cases:
        if case.reason is not None:
            reasons.setdefault(case.reason, []).append(case.case)
    for reason, cases in reasons.items():
        yield f"- {_few(cases)}: {reason}."
    if any(map(_is_disturbed, comparison.cases)):
        yield (
            "- On a busy machine, `trainmark run --wait-quiet 10` waits for quiet before each run, and `trainmark run "
            "--against 'OTHER COMMAND' -- COMMAND` compares two programs that take turns."
        )
    for side, names in comparison.only.items():
        if names and comparison.axis is None:
            yield f"- Only in the {side}: {_few(names)}."
        elif names:
            yield f"- No partner that differs in {comparison.axis} only: {_few(names)}."
    if any(case.doubtful for case in comparison.cases):
        yield "- † in doubt: a run of the case is suspect, or its steps were not steady; see trainmark report."
    for case in comparison.cases:
        if case.energy is not None:
            yield f"- Energy of {case.against}: {_energy(case.energy)}."
    if comparison.judged:
        yield from _level_notes(comparison)


def _is_disturbed(case: ComparedCase) -> bool:
    """Return whether a side has no interval because of its machine."""
    return any(one is not None and one.no_interval is NoInterval.SPOILED for one in case.estimates)


def _energy(found: EnergyRatio) -> str:
    before, now = map(joules_text, found.joules)
    of = "GPUs" if found.source is EnergySource.GPUS else "processors, with everything that runs on them"
    bounds = "" if found.ratio.interval is None else f" {interval(found.ratio.interval, 3)}"
    return f"{before} -> {now} for each {found.unit} ({of}), ratio {found.ratio.value:.3f}{bounds}"


def _level_notes(comparison: Comparison) -> Iterator[str]:
    """Yield the sentences on the level of the table and on the variation that the verdicts account for."""
    cases = "the only case" if comparison.judged == 1 else f"all {comparison.judged} cases jointly"
    yield (
        f"- Faster or slower: p is at most {comparison.level:g}. p judges {cases} (Holm): if nothing changed, at most "
        f"{comparison.level * 100:.3g} % of such tables would call any case faster or slower. An interval is "
        "for its case alone."
    )
    if comparison.run_correlation:
        yield (
            f"- Consecutive runs are correlated ({comparison.run_correlation:.2g}, over all cases). "
            "The intervals and p allow for that."
        )
    history, variation = comparison.history, comparison.variation
    if variation is not None:
        yield (
            f"- The intervals include the variation between {variation.campaigns} campaigns of the baseline, "
            f"estimated from {counted(variation.cases, 'case')}: {variation.common * 100:.2g} % common to all cases of "
            f"a campaign, {variation.specific * 100:.2g} % of a case alone (standard deviations)."
        )
        if variation.campaigns < _ENOUGH_CAMPAIGNS:
            yield "- Two campaigns show little about their variation: with a third baseline the intervals get narrower."
    elif history is not None:
        yield (
            f"- A difference of up to {comparison.within * 100:.3g} % is no change: {history.variation.campaigns} "
            f"earlier campaigns of this program on this machine ({history.store}) differ by that much without a change."
        )
    if comparison.within and history is None:
        yield f"- A difference of up to {comparison.within * 100:.3g} % is no change (--within)."
    if comparison.axis is not None:
        yield "- The runs of all cases took turns in one campaign: a drift of the machine affects both sides alike."
    elif comparison.scope is Scope.ONE_CAMPAIGN and history is None:
        yield (
            "- Within one campaign: an interval covers only the variation of the runs of these two campaigns. Two "
            "campaigns differ by more without any change (another day, a warmer machine). Measure the baseline three "
            "times and compare them all: trainmark compare BASE1 BASE2 BASE3 --to CANDIDATE."
        )


def _named(difference: Difference, cases: int) -> str:
    was, now = (_DIGEST.sub(r"\1…", word or "-") for word in (difference.baseline, difference.candidate))
    some = difference.cases and len(difference.cases) < cases
    return f"{difference.what}: {was} -> {now}" + (f"  ({_few(difference.cases)})" if some else "")


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_CASES} more" if len(names) > _MOST_CASES else ""
    return ", ".join(names[:_MOST_CASES]) + more
