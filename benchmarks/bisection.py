"""Check ``trainmark bisect`` on simulated candidates, next to a bisection with five runs of each.

    python benchmarks/bisection.py [--seed N] [--count N]

simulates 200 bisections and prints Markdown; ``docs/how-to/bisect.md`` has it. Each has 10 to 100 candidates, one of
which makes the program 3 to 10 % slower; runs have a noise of 1 %, 3 % of them are 5 to 30 % slower, and the machine
drifts.
"""

import argparse
import math
from collections.abc import Callable

import numpy as np

from trainmark.bisection import Search
from trainmark.schema.bisection import Bisection, Candidate, CandidateKind, Ending, MeasuredRun

Random = np.random.Generator


def program(random: Random, culprit: int, slower: float) -> Callable[[int], float]:
    """Return a function that runs a candidate once and returns its rate."""
    drift = random.normal(0, 0.0005)
    made = 0

    def rate(candidate: int) -> float:
        nonlocal made
        made += 1
        log = random.normal(0, 0.01) + drift * made - (slower if candidate >= culprit else 0.0)
        if random.random() < 0.03:
            log -= random.uniform(0.05, 0.3)
        return 1000 * math.exp(log)

    return rate


def sequential(rate: Callable[[int], float], count: int) -> tuple[int | None, int]:
    """Return the culprit that trainmark names, and the number of runs."""
    candidates = tuple(Candidate(name=str(i), label=str(i)) for i in range(count))
    search = Search(Bisection(kind=CandidateKind.COMMIT, candidates=candidates, command=("train",)))
    while (candidate := search.next_candidate()) is not None:
        search.add(MeasuredRun(candidate=candidate, rate=rate(candidate), unit="x/s", directory=""))
    verdict = search.verdict()
    assert verdict is not None
    found = verdict.culprits[0] if verdict.ending is Ending.FOUND else None
    return found, len(search.state.runs)


def fixed(rate: Callable[[int], float], count: int, repeats: int = 5) -> tuple[int | None, int]:
    """Return the culprit by medians of five runs against the middle of good and bad, and the number of runs."""
    made = 0

    def middle(candidate: int) -> float:
        nonlocal made
        made += repeats
        return float(np.median([rate(candidate) for _ in range(repeats)]))

    limit = math.sqrt(middle(0) * middle(count - 1))
    good, bad = 0, count - 1
    while bad - good > 1:
        between = (good + bad) // 2
        good, bad = (good, between) if middle(between) < limit else (between, bad)
    return bad, made


def report(seed: int, count: int) -> str:
    """Return the table in Markdown."""
    random = np.random.default_rng(seed)
    lines = [
        "| method | right | wrong | not certain | runs, mean | runs, most |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    cases = [(int(random.integers(10, 101)), float(random.uniform(0.03, 0.1))) for _ in range(count)]
    culprits = [int(random.integers(1, size)) for size, _ in cases]
    for name, method in (("trainmark bisect", sequential), ("five runs of each", fixed)):
        found = [
            method(program(np.random.default_rng([seed, i]), culprit, slower), size)
            for i, ((size, slower), culprit) in enumerate(zip(cases, culprits, strict=True))
        ]
        right = np.mean([named == culprit for (named, _), culprit in zip(found, culprits, strict=True)])
        none = np.mean([named is None for named, _ in found])
        runs = [made for _, made in found]
        lines.append(
            f"| {name} | {right:.1%} | {1 - right - none:.1%} | {none:.1%} | {np.mean(runs):.1f} | {max(runs)} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--seed", type=int, default=33)
    parser.add_argument("--count", type=int, default=200)
    options = parser.parse_args()
    print(report(options.seed, options.count))
