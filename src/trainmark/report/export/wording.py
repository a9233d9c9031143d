"""Sentences of an export for people: a case's number with unit and interval, its verdict, its doubts."""

from collections.abc import Iterator

from trainmark.report.export.records import CaseRecord
from trainmark.report.language import decimals
from trainmark.schema.comparison import CHANGES, ComparedCase


def throughput_of(case: CaseRecord) -> str:
    """Return ``185.3 samples/s [184.1, 186.0] over 5 runs``; the outcome and its reason for a case without a number."""
    median, low, high = map(case.figure, ("throughput_median", "interval_low", "interval_high"))
    if median is None:
        return f"{case.outcome.value}: {case.reason}" if case.reason else case.outcome.value
    places, runs = decimals([median.value]), case.figure("runs_ok")
    bounds = f" [{low.value:.{places}f}, {high.value:.{places}f}]" if low and high else ", no interval"
    count = int(runs.value) if runs else 0
    return f"{median.value:.{places}f} {median.unit}{bounds} over {count} {'run' if count == 1 else 'runs'}"


def verdict_of(compared: ComparedCase) -> str:
    """Return ``slower: 0.941 [0.932, 0.950] times the baseline``, or the reason why there is no verdict."""
    if compared.lost:
        return f"{compared.outcomes[1].value}: the baseline has a number"
    ratio, word = compared.ratio, CHANGES[compared.change]
    if ratio is None:
        return f"{word}: {compared.reason}" if compared.reason else word
    bounds = f" [{ratio.interval.low:.3f}, {ratio.interval.high:.3f}]" if ratio.interval else ""
    return f"{word}: {ratio.value:.3f}{bounds} times the baseline"


def doubts_of(case: CaseRecord) -> Iterator[str]:
    """Yield each doubt once, with the runs that it is about."""
    found: dict[tuple[str, str], list[int]] = {}
    for doubt in case.doubts:
        found.setdefault((doubt.code, doubt.sentence), []).append(doubt.repeat)
    for (code, sentence), repeats in found.items():
        runs = ", ".join(str(repeat) for repeat in repeats if repeat)
        yield f"in doubt{f' (run {runs})' if runs else ''}: {sentence} ({code})"
