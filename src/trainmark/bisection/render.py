"""A bisection as text: each measured candidate, the skipped ones, and the first bad one."""

from statistics import median

from trainmark.printable import counted, printable
from trainmark.schema.bisection import Bisection, Ending, Verdict


def render_bisection(state: Bisection) -> str:
    """Return the state and the verdict for a terminal."""
    rates: dict[int, list[float]] = {}
    for run in state.runs:
        if run.rate is not None:
            rates.setdefault(run.candidate, []).append(run.rate)
    unit = next((run.unit for run in state.runs if run.unit), "") or ""
    verdict = state.verdict
    culprits = verdict.culprits if verdict is not None else ()
    lines = []
    for number, candidate in enumerate(state.candidates):
        if number in rates:
            middle = median(rates[number])
            mark = "  <- first bad" if (number,) == culprits else ""
            lines.append(f"{middle:>12.5g}  {counted(len(rates[number]), 'run'):<7}  {candidate.label}{mark}")
    lines.insert(0, f"{unit:>12}")
    skipped = [f"skipped: {state.candidates[one.candidate].label}: {one.reason}" for one in state.skipped]
    return printable("\n".join([*lines, *skipped, "", *_verdict(state, len(state.runs))])) + "\n"


def _between(state: Bisection, verdict: Verdict) -> list[str]:
    """Return a line on candidates between good and bad: a single change does not explain them."""
    if not verdict.between:
        return []
    names = ", ".join(state.candidates[number].label for number in verdict.between)
    are = "are" if len(verdict.between) > 1 else "is"
    return [
        f"{names} {are} between good and bad: more than one candidate changed the rate, which this search does not "
        "assume; bisect again up to the first of them"
    ]


def _verdict(state: Bisection, runs: int) -> list[str]:
    verdict = state.verdict
    if verdict is None:
        return [f"not finished after {counted(runs, 'run')}; continue with --resume"]
    change = ""
    if verdict.ratio is not None and verdict.low is not None and verdict.high is not None:
        change = f"{verdict.ratio - 1:+.1%} [{verdict.low - 1:+.1%}, {verdict.high - 1:+.1%}]"
    names = [state.candidates[number].label for number in verdict.culprits]
    after = f"after {counted(runs, 'run')}"
    if verdict.ending is Ending.FOUND:
        first = f"first bad: {names[0]}: {change}, with a probability of {verdict.confidence:.1%} {after}"
        return [first, *_between(state, verdict)]
    if verdict.ending is Ending.NO_DIFFERENCE:
        return [f"good and bad are not distinguishable {after}: {change or 'no number'}"]
    if verdict.ending is Ending.ONLY_SKIPPED:
        return [
            f"the first bad one is one of these {len(names)}, because some candidates were skipped: {change}",
            *(f"  {name}" for name in names),
        ]
    return [
        f"not certain {after}: most likely {names[0]} ({verdict.confidence:.0%}); {change}",
        *_between(state, verdict),
    ]
