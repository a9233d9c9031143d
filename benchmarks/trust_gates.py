"""The false-alarm rate of each gate: on the stored real runs, and on simulated series with realistic noise.

    python benchmarks/trust_gates.py [--repetitions 4000]

Seeded: the same command gives the same table. The kept runs are those of docs/results, with their events and telemetry.
"""

import argparse
import lzma
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from trainmark.campaign.resume import manifest_in, summaries_of
from trainmark.logs.events import read_events
from trainmark.measure.energy import gpus_of
from trainmark.measure.gates import DRIFT, GATES, Evidence, Gate, apply_gates, drift, two_levels
from trainmark.node.archives import unpack
from trainmark.schema.measurement import UNINSPECTED, GateName
from trainmark.schema.results import Results, sound
from trainmark.store import read_results

RESULTS = Path(__file__).parents[1] / "docs" / "results"
SEED = 20261122
Series = NDArray[np.float64]
Noise = Callable[[np.random.Generator, int], Series]


def normal(random: np.random.Generator, count: int) -> Series:
    return random.standard_normal(count)


def skewed(random: np.random.Generator, count: int) -> Series:
    return random.standard_exponential(count) - 1


def heavy(random: np.random.Generator, count: int) -> Series:
    return np.asarray(random.standard_t(3, count) / np.sqrt(3))


def correlated(coefficient: float) -> Noise:
    def noise(random: np.random.Generator, count: int) -> Series:
        found = np.empty(count)
        found[0] = random.standard_normal()
        for index, step in enumerate(random.standard_normal(count - 1) * np.sqrt(1 - coefficient**2), 1):
            found[index] = coefficient * found[index - 1] + step
        return found

    return noise


NOISES: dict[str, Noise] = {
    "normal": normal,
    "skewed (exponential)": skewed,
    "heavy tails (Student's t, 3)": heavy,
    "correlated 0.6": correlated(0.6),
    "correlated 0.8": correlated(0.8),
    "correlated 0.95": correlated(0.95),
}


def gate_of(name: GateName) -> Gate:
    return next(gate for gate in (*GATES, DRIFT) if gate.name is name)


def levels_fire(times: Series) -> bool:
    return two_levels(times)[0] >= gate_of(GateName.TWO_LEVELS).bound


def drift_fires(runs: Series) -> bool:
    return drift(list(runs)).value >= DRIFT.bound


def share(fires: Callable[[Series], bool], series: Iterator[Series]) -> float:
    found = [fires(one) for one in series]
    return sum(found) / len(found)


def steps(noise: Noise, spread: float, count: int, times: int) -> Iterator[Series]:
    random = np.random.default_rng(SEED)
    return (np.exp(spread * noise(random, count)) for _ in range(times))


def simulated(repetitions: int) -> None:
    bound = gate_of(GateName.TWO_LEVELS).bound
    print(
        f"\n## two-levels: false alarms on series with one level (bound {bound}, {repetitions} series each)\n"
    )
    spreads = (0.002, 0.02, 0.10, 0.20)
    print("| steps | noise | " + " | ".join(f"spread {spread:.1%}" for spread in spreads) + " |")
    print("| --- | --- |" + " --- |" * len(spreads))
    for count in (40, 100):
        for name, noise in NOISES.items():
            rates = [share(levels_fire, steps(noise, spread, count, repetitions)) for spread in spreads]
            print(f"| {count} | {name} | " + " | ".join(f"{rate:.2%}" for rate in rates) + " |")

    print("\n## two-levels: detection of two levels (100 steps, normal noise of 2 %)\n")
    gaps = (0.05, 0.08, 0.10, 0.15, 0.50)
    print("| share of the rarer level | " + " | ".join(f"{gap:.0%} apart" for gap in gaps) + " |")
    print("| --- |" + " --- |" * len(gaps))
    for rarer in (0.2, 0.3, 0.5):
        rates = [share(levels_fire, two_level_steps(gap, rarer, repetitions // 4)) for gap in gaps]
        print(f"| {rarer:.0%} | " + " | ".join(f"{rate:.0%}" for rate in rates) + " |")

    print(f"\n## drift-over-runs: false alarms without a drift ({repetitions // 4} campaigns each)\n")
    counts = (3, 5, 6, 7, 10, 20)
    print("| runs of a case | " + " | ".join(map(str, counts)) + " |")
    print("| --- |" + " --- |" * len(counts))
    for name in ("normal", "heavy tails (Student's t, 3)", "correlated 0.6"):
        rates = [share(drift_fires, steps(NOISES[name], 0.02, count, repetitions // 4)) for count in counts]
        print(f"| {name}, spread 2 % | " + " | ".join(f"{rate:.2%}" for rate in rates) + " |")
    for total in (0.02, 0.05, 0.10):
        rates = [share(drift_fires, drifting(total, count, repetitions // 4)) for count in counts]
        print(
            f"| *with* a drift of {total:.0%}, spread 1 % | "
            + " | ".join(f"{rate:.0%}" for rate in rates)
            + " |"
        )


def two_level_steps(gap: float, rarer: float, times: int) -> Iterator[Series]:
    random = np.random.default_rng(SEED)
    for _ in range(times):
        upper = random.random(100) < rarer
        yield np.where(upper, 1 + gap, 1.0) * np.exp(0.02 * random.standard_normal(100))


def drifting(total: float, count: int, times: int) -> Iterator[Series]:
    random = np.random.default_rng(SEED)
    for _ in range(times):
        yield np.linspace(1, 1 - total, count) * np.exp(0.01 * random.standard_normal(count))


def stored_runs() -> None:
    print("\n## Every gate on the stored runs\n")
    print("| result | runs | not looked | " + " | ".join(gate.name for gate in GATES) + " |")
    print("| --- | --- | --- |" + " --- |" * len(GATES))
    doubts: list[str] = []
    for place in sorted(RESULTS.glob("*/runs.tar.xz")):
        results = read_results(place.parent / "results.json")
        with TemporaryDirectory() as folder, lzma.open(place) as content:
            unpack(content, Path(folder))
            judged = list(evidence_of(results, Path(folder)))
        fired = Counter(
            code for _, evidence in judged for code in {doubt.code for doubt in apply_gates(evidence)}
        )
        print(
            f"| {place.parent.name} | {len(judged)} | {fired[UNINSPECTED] or '-'} | "
            + " | ".join(str(fired[gate.name] or "-") for gate in GATES)
            + " |"
        )
        doubts += [
            f"- {place.parent.name}, {name}: {doubt.sentence}"
            for name, evidence in judged
            for doubt in apply_gates(evidence)
            if doubt.code != UNINSPECTED
        ]
        for case in results.cases:
            runs = [run.measurement.throughput for run in sound(case.runs) if run.measurement]
            if (doubt := DRIFT.doubt(drift(runs))) is not None:
                doubts.append(f"- {place.parent.name}, {case.id}: {doubt.sentence}")
    print("\nWhat fired:\n")
    print("\n".join(doubts) or "nothing")


def evidence_of(results: Results, folder: Path) -> Iterator[tuple[str, Evidence]]:
    for case in results.cases:
        for run in case.runs:
            if run.measurement is None:
                continue
            place = folder / run.directory
            events = read_events(place / "events.jsonl")
            telemetry = summaries_of(case.case, place, events)
            gpus = gpus_of(case.case, manifest_in(place))
            yield f"{case.id} run {run.repeat}", Evidence(case.case, events, telemetry, gpus)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=4000)
    given = parser.parse_args()
    print("# Gates: false alarms")
    print("\n| gate | bound | of | source of the bound |\n| --- | --- | --- | --- |")
    for gate in (*GATES, DRIFT):
        print(f"| `{gate.name}` | {gate.bound:g} | {gate.unit} | {gate.source} |")
    stored_runs()
    simulated(given.repetitions)


if __name__ == "__main__":
    main()
