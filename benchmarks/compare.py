"""Simulate ``trainmark compare``: how many tables without a change have a false call, and which changes are found.

    python benchmarks/compare.py [--quick] [--seed N]

prints Markdown tables; ``docs/appendix/comparing.md`` has them. The functions that judge are trainmark's own. Runs of a
case spread by 1 %; an effect is the standard deviation between campaigns, of each case alone, common to all cases of a
campaign, or of both in equal parts.
"""

import argparse
import math
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

import numpy as np

from trainmark.measure import estimate
from trainmark.measure.campaigns import (
    TABLE_LEVEL,
    campaign_variation,
    contrast,
    judge_table,
    ratio_between_campaigns,
)
from trainmark.measure.run_correlation import run_correlation
from trainmark.measure.statistics import interpolation, student_t
from trainmark.schema.measurement import Estimate

Random = np.random.Generator

SPREAD = 0.01
CASES = (16, 30)
RUNS = (3, 5, 10)
EFFECTS = (0.0, 0.005, 0.01)
CORRELATIONS = (0.3, 0.6)
RUNS_OF_LEVELS = (3, 5, 6, 8, 10)
KINDS = {"of each case alone": (1.0, 0.0), "common to all cases": (0.0, 1.0), "both": (0.5**0.5, 0.5**0.5)}


@dataclass(frozen=True, slots=True)
class Ends:
    """An interval; making a million of trainmark's own, which are checked, would take most of the time."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Drawn:
    """The fields of an estimate that the functions under test read."""

    n: int
    median: float
    interval: Ends
    logs: tuple[float, ...]
    no_interval: None = None


@dataclass(frozen=True, slots=True)
class Levels:
    """Runs that jump between two levels: each run is slower by ``gap`` with the probability ``share``."""

    gap: float
    share: float


def campaign(
    random: Random,
    effects: Sequence[float],
    runs: int,
    levels: Levels | None = None,
    correlation: float = 0.0,
    shared: float = 0.0,
) -> list[Estimate]:
    """Return the estimates of a campaign's cases: ``measure.estimate`` for all cases at once.

    ``correlation`` is that of a run with the case's run before it, ``shared`` the share of the runs' variance that all
    cases of a pass have in common.
    """
    noise = random.standard_normal((len(effects), runs))
    if shared:
        noise = math.sqrt(1 - shared) * noise + math.sqrt(shared) * random.standard_normal(runs)
    for run in range(1, runs if correlation else 0):
        noise[:, run] = correlation * noise[:, run - 1] + math.sqrt(1 - correlation**2) * noise[:, run]
    drawn = np.asarray(effects)[:, None] + SPREAD * noise
    if levels is not None:
        drawn += math.log1p(-levels.gap) * (random.random(drawn.shape) < levels.share)
    logs = np.sort(drawn, axis=1)
    median = np.median(np.exp(logs), axis=1)
    if runs < 6:
        half = student_t(runs - 1) * logs.std(axis=1, ddof=1) / math.sqrt(runs)
        low, high = logs.mean(axis=1) - half, logs.mean(axis=1) + half
    else:
        k, share = interpolation(runs, 0.95)
        low = (1 - share) * logs[:, k - 1] + share * logs[:, k]
        high = (1 - share) * logs[:, runs - k] + share * logs[:, runs - k - 1]
    ends = np.minimum(median, np.exp(low)), np.maximum(median, np.exp(high))
    rows = zip(median.tolist(), ends[0].tolist(), ends[1].tolist(), drawn.tolist(), strict=True)
    return [
        cast("Estimate", Drawn(runs, middle, Ends(bottom, top), tuple(series)))
        for middle, bottom, top, series in rows
    ]


LEVELS = (Levels(0.03, 0.5), Levels(0.1, 0.2), Levels(0.1, 0.5), Levels(0.25, 0.2), Levels(0.25, 0.5))


def check_the_vectorised() -> None:
    """Check ``campaign`` against trainmark's own ``estimate``."""
    for runs in RUNS:
        found = campaign(np.random.default_rng(1), [0.0, 0.1], runs)
        random = np.random.default_rng(1)
        rates = np.exp(np.array([[0.0], [0.1]]) + SPREAD * random.standard_normal((2, runs)))
        for ours, row in zip(found, rates.tolist(), strict=True):
            theirs = estimate(row)
            assert theirs is not None
            assert theirs.interval is not None
            assert ours.interval is not None
            assert math.isclose(ours.median, theirs.median)
            assert math.isclose(ours.interval.low, theirs.interval.low)
            assert math.isclose(ours.interval.high, theirs.interval.high)


def campaigns(
    random: Random,
    count: int,
    cases: int,
    runs: int,
    effect: float,
    kind: tuple[float, float],
    change: float,
    levels: Levels | None = None,
    correlation: float = 0.0,
    shared: float = 0.0,
) -> list[list[Estimate]]:
    """Return campaigns of which the last one is the candidate: its first case is faster by ``change``."""
    found = []
    for number in range(count):
        effects = effect * (kind[0] * random.standard_normal(cases) + kind[1] * random.standard_normal())
        if number == count - 1:
            effects[0] += math.log1p(change)
        found.append(campaign(random, effects.tolist(), runs, levels, correlation, shared))
    return found


def called(found: Sequence[Sequence[Estimate]]) -> list[bool]:
    """Return for each case whether the last campaign is called different from those before it."""
    rows = list(zip(*found[:-1], strict=True))
    variation = campaign_variation(rows)
    series = [] if variation else [cast("Drawn", case).logs for side in found for case in side]
    correlation = run_correlation(series)
    contrasts = [contrast(now, row, correlation) for now, row in zip(found[-1], rows, strict=True)]
    return [value <= TABLE_LEVEL for value in judge_table(contrasts, variation)]


def called_one_by_one(found: Sequence[Sequence[Estimate]]) -> list[bool]:
    """Return for each case whether its own 95 % interval excludes 1, as ``compare`` judged before."""
    quotients = [
        ratio_between_campaigns(contrast(now, [before]), None) for before, now in zip(*found, strict=True)
    ]
    return [one.interval is not None and not one.interval.low <= 1 <= one.interval.high for one in quotients]


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "| --- |" + " ---: |" * (len(head) - 1)
    for row in rows:
        yield (
            "| " + " | ".join(f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in row) + " |"
        )
    yield ""


def false_calls(random: Random, tables: int) -> Iterator[str]:
    """Yield the share of tables with a false call."""
    head = [f"{cases} cases, {runs} runs" for cases in CASES for runs in RUNS]
    rows: list[list[object]] = []
    for name, judge in (("each case at 95 %", called_one_by_one), ("the table at 5 %", called)):
        cells: list[object] = [f"one baseline, no effect: {name}"]
        for cases in CASES:
            for runs in RUNS:
                trials = (campaigns(random, 2, cases, runs, 0.0, (1.0, 0.0), 0.0) for _ in range(tables))
                cells.append(100 * sum(any(judge(found)) for found in trials) / tables)
        rows.append(cells)
    for effect in EFFECTS:
        for name, kind in KINDS.items() if effect else [("none", (1.0, 0.0))]:
            cells = [
                f"three baselines, effect {effect * 100:g} %: {name}"
                if effect
                else "three baselines, no effect"
            ]
            for cases in CASES:
                for runs in RUNS:
                    trials = (campaigns(random, 4, cases, runs, effect, kind, 0.0) for _ in range(tables))
                    cells.append(100 * sum(any(called(found)) for found in trials) / tables)
            rows.append(cells)
    yield "Tables (%) in which a case is called faster or slower although nothing changed:\n"
    yield from table(["", *head], rows)


def false_calls_of_levels(random: Random, tables: int) -> Iterator[str]:
    """Yield the share of tables with a false call if runs jump between two levels."""
    head = [f"{cases} cases, {runs} runs" for cases in CASES for runs in RUNS_OF_LEVELS]
    rows: list[list[object]] = []
    for count, name in ((2, "one baseline"), (4, "three baselines")):
        for levels in LEVELS:
            cells: list[object] = [
                f"{name}; {levels.share * 100:g} % of the runs {levels.gap * 100:g} % slower"
            ]
            for cases in CASES:
                for runs in RUNS_OF_LEVELS:
                    trials = (
                        campaigns(random, count, cases, runs, 0.0, (1.0, 0.0), 0.0, levels)
                        for _ in range(tables)
                    )
                    cells.append(100 * sum(any(called(found)) for found in trials) / tables)
            rows.append(cells)
    yield "Tables (%) of runs that jump between two levels, in which an unchanged case is called:\n"
    yield from table(["", *head], rows)


def false_calls_of_correlated_runs(random: Random, tables: int) -> Iterator[str]:
    """Yield the share of tables with a false call if each run resembles the one before it."""
    shapes = [(cases, runs) for cases in (3, *CASES) for runs in RUNS]
    rows: list[list[object]] = []
    for count, name in ((2, "one baseline"), (4, "three baselines")):
        for shared in (0.0, 0.5):
            for correlation in CORRELATIONS:
                cells: list[object] = [
                    f"{name}; correlation {correlation:g}" + (", half common to the cases" if shared else "")
                ]
                for cases, runs in shapes:
                    trials = (
                        campaigns(random, count, cases, runs, 0.0, (1.0, 0.0), 0.0, None, correlation, shared)
                        for _ in range(tables)
                    )
                    cells.append(100 * sum(any(called(found)) for found in trials) / tables)
                rows.append(cells)
    yield "Tables (%) of runs that resemble the run before them, in which an unchanged case is called:\n"
    yield from table(["", *[f"{cases} cases, {runs} runs" for cases, runs in shapes]], rows)


def power_within_one_campaign(random: Random, tables: int) -> Iterator[str]:
    """Yield how often one changed case of a table is found with one baseline, whose runs are independent."""
    rows: list[list[object]] = []
    for change in (0.03, 0.10):
        cells: list[object] = [f"{change * 100:g} %"]
        for cases in CASES:
            for runs in RUNS:
                trials = (campaigns(random, 2, cases, runs, 0.0, (1.0, 0.0), change) for _ in range(tables))
                cells.append(100 * sum(called(found)[0] for found in trials) / tables)
        rows.append(cells)
    yield "Power (%): how often the one case that changed is called, given one baseline:\n"
    yield from table(["change", *[f"{cases} cases, {runs} runs" for cases in CASES for runs in RUNS]], rows)


def power(random: Random, tables: int) -> Iterator[str]:
    """Yield how often one changed case of a table is found."""
    rows: list[list[object]] = []
    for change in (0.03, 0.10):
        for effect in EFFECTS:
            for name, kind in KINDS.items() if effect else [("none", (1.0, 0.0))]:
                cells: list[object] = [
                    f"{change * 100:g} %; effect {effect * 100:g} %: {name}"
                    if effect
                    else f"{change * 100:g} %; no effect"
                ]
                for cases in CASES:
                    for runs in RUNS:
                        trials = (
                            campaigns(random, 4, cases, runs, effect, kind, change) for _ in range(tables)
                        )
                        cells.append(100 * sum(called(found)[0] for found in trials) / tables)
                rows.append(cells)
    yield "Power (%): how often the one case that changed is called, given three baselines:\n"
    yield from table(["change", *[f"{cases} cases, {runs} runs" for cases in CASES for runs in RUNS]], rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the repetitions")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    check_the_vectorised()
    tables = 40 if options.quick else 400
    print(
        f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}, numpy {np.__version__}, ", end=""
    )
    print(f"seed {options.seed}, {tables} tables a figure\n")
    parts = (
        (false_calls, tables),
        (false_calls_of_levels, tables),
        (false_calls_of_correlated_runs, tables),
        (power_within_one_campaign, tables),
        (power, tables // 4),
    )
    for part, count in parts:
        began = time.perf_counter()
        for line in part(np.random.default_rng([options.seed, *part.__name__.encode()]), count):
            print(line, flush=True)
        print(f"({time.perf_counter() - began:.0f} s)\n")


if __name__ == "__main__":
    main()
