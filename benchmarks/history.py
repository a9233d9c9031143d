"""Check ``trainmark history`` on simulated histories, next to apache-otava, ruptures and rules of 5 %.

    python benchmarks/history.py [--quick] [--seed N] [--others PYTHON]

simulates 500 histories without a change and 500 with one of 3 %, of 60 results each, and prints Markdown tables;
``docs/how-to/history.md`` has them. Each fifth has another noise: independent, two levels, spikes, correlated,
drifting; the results of a fifth come from three machines of different speeds. Each has facts of its environment,
some of which change at places without an effect. ``--others`` names a Python that has apache-otava and ruptures; it
runs this file as a program on the same histories.
"""

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

Random = np.random.Generator
RESULTS, SHIFT, WITHIN = 60, 0.03, 5
NOISES = ("independent", "two levels", "spikes", "correlated", "drifting")
CAUSES = ("regression", "change-of-method", "change-of-hardware")
MACHINES = (0.0, -0.05, 0.04)


@dataclass(frozen=True, slots=True)
class Simulated:
    """A history: logarithms of rates, the place of its change (None without), and what causes it."""

    noise: str
    values: list[float]
    machines: list[int]
    change: int | None
    cause: str | None
    facts: list[dict[str, str]] = field(default_factory=list)


def noise(random: Random, kind: str, count: int = RESULTS) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the noise of one history, about 1 % between results."""
    if kind == "two levels":
        return np.where(random.random(count) < 0.3, -0.03, 0.0) + random.normal(0, 0.005, count)
    if kind == "correlated":
        steps, values = random.normal(0, 0.01 * math.sqrt(1 - 0.4**2), count + 20), np.zeros(count + 20)
        for i in range(1, count + 20):
            values[i] = 0.4 * values[i - 1] + steps[i]
        return values[20:]
    values = random.normal(0, 0.01, count)
    if kind == "spikes":
        far = random.random(count) < 0.05
        values[far] -= random.uniform(0.05, 0.3, far.sum())
    if kind == "drifting":
        values += random.choice([-1, 1]) * random.uniform(0.01, 0.04) * np.arange(count) / count
    return values


def simulate(random: Random, kind: str, change: bool) -> Simulated:
    """Return a history, with a change of 3 % at a random place or without."""
    values = noise(random, kind)
    machines = random.integers(0, 3, RESULTS) if random.random() < 0.2 else np.zeros(RESULTS, dtype=int)
    values += np.asarray(MACHINES)[machines]
    place = int(random.integers(15, RESULTS - 10)) if change else None
    cause = str(random.choice(CAUSES)) if change else None
    if place is not None:
        values[place:] -= SHIFT
    facts = [dict(one) for one in _facts(random, place, cause)]
    return Simulated(kind, values.tolist(), machines.tolist(), place, cause, facts)


def _facts(random: Random, place: int | None, cause: str | None) -> Iterator[dict[str, str]]:
    """Yield the facts of each result: some change where nothing else does, one at the place of the change."""
    names = ("commit", "framework.version", "trainmark", "cpu.model", "rule")
    idle = {name: int(random.integers(5, RESULTS - 5)) for name in random.choice(names[1:], 1)}
    if place is not None:
        idle = {name: at for name, at in idle.items() if abs(at - place) > 2 * WITHIN}
    moved = {"regression": "framework.version", "change-of-method": "rule", "change-of-hardware": "cpu.model"}
    for i in range(RESULTS):
        facts = {name: f"{name} {int(i >= at)}" for name, at in idle.items()}
        if place is not None and cause is not None:
            facts[moved[cause]] = f"{moved[cause]} {'after' if i >= place else 'before'}"
        yield {**facts, "commit": f"{i:07x}"}


def histories(seed: int, each: int) -> list[Simulated]:
    """Return histories without and with a change, ``each`` of every noise."""
    random = np.random.default_rng(seed)
    return [simulate(random, kind, bool(change)) for kind in NOISES for change in (0, 1) for _ in range(each)]


Finder = Callable[[Simulated], list[int]]


def by_trainmark(history: Simulated) -> list[int]:
    """Return the confirmed changes that trainmark finds."""
    from trainmark.history import find_changes

    return [step.index for step in find_changes(history.values, history.machines).steps if step.confirmed]


def by_last_value(history: Simulated) -> list[int]:
    """Return where a result is 5 % below the median of the ten before."""
    rates = np.exp(history.values)
    return [i for i in range(10, RESULTS) if rates[i] < 0.95 * np.median(rates[i - 10 : i])]


def by_best_value(history: Simulated) -> list[int]:
    """Return where a result is 5 % below the best one before."""
    rates = np.exp(history.values)
    return [i for i in range(5, RESULTS) if rates[i] < 0.95 * rates[:i].max()]


def cause_is_right(history: Simulated) -> bool | None:
    """Return whether the change that is found has the right cause; None if it is not found."""
    from trainmark.history import Fact, Point, analyse_case
    from trainmark.schema.history import ChangeCause

    kinds = {
        "rule": ChangeCause.METHOD,
        "trainmark": ChangeCause.METHOD,
        "cpu.model": ChangeCause.HARDWARE,
    }
    start = datetime(2026, 1, 1, tzinfo=UTC)
    points = [
        Point(
            source=f"#{i}",
            at=start + timedelta(days=i),
            value=math.exp(value),
            host=f"host{machine}",
            unit="images/s",
            facts={name: Fact(text, kinds.get(name)) for name, text in facts.items()},
        )
        for i, (value, machine, facts) in enumerate(
            zip(history.values, history.machines, history.facts, strict=True)
        )
    ]
    found = [change for change in analyse_case("case", points).changes if change.confirmed]
    if history.change is None:
        return None if not found else False
    near = [change for change in found if abs(change.index - history.change) <= WITHIN]
    return None if not near else near[0].cause.value == history.cause


def others(python: str, every: Sequence[Simulated]) -> dict[str, list[list[int]]]:
    """Return what apache-otava and ruptures find, in a Python that has them."""
    text = json.dumps([[history.values, history.machines] for history in every])
    made = subprocess.run(
        [python, __file__, "--as-other"], input=text, capture_output=True, text=True, check=True
    )
    return dict(json.loads(made.stdout))


def as_other() -> None:
    """Read histories, and print the changes that the other programs find; runs in their Python."""
    import logging

    import ruptures
    from otava.series import AnalysisOptions, Metric, Series

    logging.disable(logging.CRITICAL)
    found: dict[str, list[list[int]]] = {"apache-otava 0.8": [], "ruptures 1.1 (PELT, l2)": []}
    for values, _ in json.load(sys.stdin):
        metrics = {"rate": Metric(1, 1.0)}
        times, rates = list(range(len(values))), {"rate": np.exp(values).tolist()}
        series = Series("case", None, times, metrics, rates, {})
        points = series.analyze(AnalysisOptions()).change_points["rate"]
        found["apache-otava 0.8"].append([int(point.index) for point in points])
        signal = np.asarray(values)
        spread = np.median(np.abs(np.diff(signal))) / 0.9539
        penalty = 3 * math.log(len(signal)) * spread**2
        model = ruptures.Pelt(model="l2", min_size=4, jump=1).fit(signal)
        found["ruptures 1.1 (PELT, l2)"].append([int(place) for place in model.predict(pen=penalty)[:-1]])
    print(json.dumps(found))


def report(seed: int, each: int, python: str | None) -> str:
    """Return the tables in Markdown."""
    every = histories(seed, each)
    started = time.perf_counter()
    found: dict[str, list[list[int]]] = {"trainmark": [by_trainmark(history) for history in every]}
    seconds = time.perf_counter() - started
    if python is not None:
        found |= others(python, every)
    found["5 % below the median of ten"] = [by_last_value(history) for history in every]
    found["5 % below the best"] = [by_best_value(history) for history in every]
    lines = [
        f"| method | {' | '.join(NOISES)} | all |",
        f"| --- | {'---: | ' * len(NOISES)}---: |",
        *(_row(name, every, places) for name, places in found.items()),
    ]
    changed = [history for history in every if history.change is not None]
    right = [is_right for history in changed if (is_right := cause_is_right(history)) is not None]
    part = sum(right) / len(right)
    lines += [
        "",
        f"Of the {len(right)} changes that were found, {part:.1%} have the right cause.",
        f"One history takes {seconds / len(every) * 1e3:.1f} ms.",
    ]
    return "\n".join(lines)


def _row(name: str, every: Sequence[Simulated], found: Sequence[Sequence[int]]) -> str:
    cells = []
    for kind in (*NOISES, None):
        pairs = [pair for pair in zip(every, found, strict=True) if kind in (None, pair[0].noise)]
        still = [bool(places) for history, places in pairs if history.change is None]
        hits = [
            any(abs(place - history.change) <= WITHIN for place in places)
            for history, places in pairs
            if history.change is not None
        ]
        cells.append(f"{np.mean(still):.1%}, {np.mean(hits):.1%}")
    return f"| {name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the histories")
    parser.add_argument("--seed", type=int, default=33)
    parser.add_argument("--others", help="a Python with apache-otava and ruptures")
    parser.add_argument("--as-other", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_other:
        as_other()
    else:
        sys.path.insert(0, str(Path(__file__).parents[1] / "src"))
        print(report(options.seed, 10 if options.quick else 100, options.others))
