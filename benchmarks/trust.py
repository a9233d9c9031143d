"""Validate the statistics of ``measure/`` in simulations with a known truth.

    python benchmarks/trust.py [--part NAME ...] [--quick] [--seed N]

prints Markdown tables, which are in ``docs/appendix/trust.md``. Each part has its own seed, so that it prints the
same alone and with others. A part is a function from a random generator and a number of repetitions to lines of text,
in ``PARTS``.
"""

import argparse
import io
import json
import platform
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainmark.measure import estimate, judge_steadiness, narrow_enough, ratio
from trainmark.measure.statistics import STOPPING, WAITED, WAITED_MORE, interpolation, student_t
from trainmark.schema.measurement import Sampling

Array = NDArray[np.float64]
Random = np.random.Generator

RUNS = (3, 5, 7, 10, 20)
RESULTS = Path(__file__).parent.parent / "docs" / "results"


# -- what is simulated: logarithms of the runs' rates, and their true median -------------------------------------------

Shape = Callable[[Random, int, int], Array]


def normal(noise: Random, campaigns: int, n: int) -> Array:
    return noise.standard_normal((campaigns, n))


def skewed(noise: Random, campaigns: int, n: int) -> Array:
    """A machine that is sometimes slower and never faster: an exponential tail."""
    return -noise.exponential(size=(campaigns, n))


def heavy(noise: Random, campaigns: int, n: int) -> Array:
    return np.asarray(noise.standard_t(3, size=(campaigns, n)))


def outliers(noise: Random, campaigns: int, n: int) -> Array:
    """One run in ten is slower by 3 to 20 times the spread."""
    slow = (noise.random((campaigns, n)) < 0.1) * noise.uniform(3, 20, (campaigns, n))
    return noise.standard_normal((campaigns, n)) - slow


def two_levels(noise: Random, campaigns: int, n: int) -> Array:
    """Three runs in ten are on a second level, 15 times the spread within a level away."""
    return 0.2 * noise.standard_normal((campaigns, n)) - 3 * (noise.random((campaigns, n)) < 0.3)


def two_even(noise: Random, campaigns: int, n: int) -> Array:
    """Four runs in ten are on a second level, 6 times the spread away: nearly even."""
    return noise.standard_normal((campaigns, n)) - 6 * (noise.random((campaigns, n)) < 0.4)


def drift(noise: Random, campaigns: int, n: int) -> Array:
    """The campaign drifts by one spread from its first run to its last; the truth is its middle."""
    return noise.standard_normal((campaigns, n)) + np.linspace(-0.5, 0.5, n)


def of_steps(noise: Random, campaigns: int, n: int) -> Array:
    """Runs are means of 100 steps that are correlated (0.8) and vary by three run spreads each."""
    steps = correlated(noise, campaigns * n, 100, 0.8).mean(axis=1).reshape(campaigns, n)
    return np.asarray(0.7 * noise.standard_normal((campaigns, n)) + 3 * steps)


SHAPES: dict[str, Shape] = {
    "normal": normal,
    "of correlated steps": of_steps,
    "skewed": skewed,
    "heavy tails (t3)": heavy,
    "outliers": outliers,
    "two levels (3 of 10)": two_levels,
    "drift": drift,
}
HARD: dict[str, Shape] = {"two levels (4 of 10)": two_even}


def correlated(noise: Random, rows: int, n: int, rho: float) -> Array:
    """Return rows of n values of variance 1 whose neighbours are correlated by ``rho``."""
    shocks = noise.standard_normal((rows, n))
    shocks[:, 1:] *= np.sqrt(1 - rho**2)
    for at in range(1, n):
        shocks[:, at] += rho * shocks[:, at - 1]
    return np.asarray(shocks)


def truth(shape: Shape, noise: Random) -> float:
    if shape in (normal, heavy, drift, of_steps):
        return 0.0
    return float(np.median(shape(noise, 200_000, 5)))


# -- the methods of measure/statistics.py for many campaigns at once ---------------------------------------------------


def ends(logs: Array, sampling: Sampling = Sampling.FIXED) -> tuple[Array, Array]:
    n = logs.shape[1]
    waited = WAITED.get(n, WAITED_MORE)
    return at_level(logs, 0.95 if sampling is Sampling.FIXED else waited)


def at_level(logs: Array, level: float) -> tuple[Array, Array]:
    n = logs.shape[1]
    if n < 6:
        half = student_t(n - 1, level) * logs.std(axis=1, ddof=1) / np.sqrt(n)
        return logs.mean(axis=1) - half, logs.mean(axis=1) + half
    x, (k, share) = np.sort(logs, axis=1), interpolation(n, level)
    low = (1 - share) * x[:, k - 1] + share * x[:, k]
    return low, (1 - share) * x[:, n - k] + share * x[:, n - k - 1]


def ratio_ends(a: Array, b: Array) -> tuple[Array, Array]:
    (a_low, a_high), (b_low, b_high) = ends(a), ends(b)
    up_a, up_b = (np.log(np.median(np.exp(side), axis=1)) for side in (a, b))
    value, freedoms = up_a - up_b, (a.shape[1] - 1, b.shape[1] - 1)

    def reach(first: Array, second: Array) -> Array:
        v = [(np.maximum(d, 0) / student_t(f)) ** 2 for d, f in zip((first, second), freedoms, strict=True)]
        freedom = (v[0] + v[1]) ** 2 / (v[0] ** 2 / freedoms[0] + v[1] ** 2 / freedoms[1])
        return _student(freedom) * np.sqrt(v[0] + v[1])

    return value - reach(up_a - a_low, b_high - up_b), value + reach(a_high - up_a, up_b - b_low)


def _student(freedom: Array) -> Array:
    from scipy import special

    return np.asarray(special.stdtrit(freedom, 0.975))


def check_the_vectorised(noise: Random) -> None:
    """Check the vectorised functions against trainmark's own."""
    for n in (3, 5, 6, 10):
        a, b = 0.02 * noise.standard_normal((2, 5, n))
        for row in range(5):
            one, other = (estimate(np.exp(x[row]).tolist()) for x in (a, b))
            both = ratio(one, other)
            assert one is not None
            assert one.interval is not None
            assert both is not None
            assert both.interval is not None
            assert np.allclose(np.log([one.interval.low, one.interval.high]), [e[row] for e in ends(a)])
            assert np.allclose(
                np.log([both.interval.low, both.interval.high]), [e[row] for e in ratio_ends(a, b)]
            )
            found = _narrow(a, 0.02)[row]
            assert found == narrow_enough(np.exp(a[row]).tolist(), 0.02)


def _narrow(logs: Array, target: float) -> NDArray[np.bool_]:
    n = logs.shape[1]
    low, high = at_level(logs, STOPPING.get(n, WAITED_MORE))
    middle = np.median(np.exp(logs), axis=1)
    return np.asarray((np.exp(high) - np.exp(low)) / 2 / middle <= target)


def coverage(bounds: tuple[Array, Array], true: float) -> float:
    low, high = bounds
    return 100 * float(((low <= true) & (true <= high)).mean())


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "| --- |" + " ---: |" * (len(head) - 1)
    for row in rows:
        yield "| " + " | ".join(f"{c:.1f}" if isinstance(c, float) else str(c) for c in row) + " |"
    yield ""


# -- parts -------------------------------------------------------------------------------------------------------------


def intervals(noise: Random, reps: int) -> Iterator[str]:
    """Coverage of a case's 95 % interval by the number of runs, which was fixed."""
    rows = []
    for name, shape in {**SHAPES, **HARD}.items():
        true = truth(shape, noise)
        rows.append([name, *(coverage(ends(0.01 * shape(noise, reps, n)), 0.01 * true) for n in RUNS)])
    yield "Coverage (%) of the median's interval, by shape and number of the runs.\n"
    yield from table(["runs are", *(f"n = {n}" for n in RUNS)], rows)
    yield "The coverage does not depend on the spread, which is only a factor. With two nearly equally frequent levels,"
    yield "few runs may all have the same level.\n"


def ratios(noise: Random, reps: int) -> Iterator[str]:
    """Coverage of a ratio's 95 % interval (speedup, efficiency, share of synthetic) for two shapes and numbers."""
    pairs = [
        ("normal", "normal", 1.0),
        ("normal", "normal", 0.3),
        ("two levels (3 of 10)", "normal", 1.0),
        ("skewed", "normal", 1.0),
        ("skewed", "skewed", 1.0),
        ("outliers", "normal", 1.0),
        ("outliers", "outliers", 0.3),
        ("heavy tails (t3)", "of correlated steps", 1.0),
    ]
    sizes = [(n, n) for n in RUNS] + [(3, 10), (5, 20)]
    rows = []
    for one, other, scale in pairs:
        true = 0.01 * (truth(SHAPES[one], noise) - scale * truth(SHAPES[other], noise))
        cells = [
            coverage(
                ratio_ends(0.01 * SHAPES[one](noise, reps, n), 0.01 * scale * SHAPES[other](noise, reps, m)),
                true,
            )
            for n, m in sizes
        ]
        rows.append([f"{one} / {other}, spread 1 : {scale:g}", *cells])
    yield "Coverage (%) of a ratio's interval. A speedup, an efficiency and the ratio to synthetic data are the same"
    yield "quotient of two medians, except for a factor.\n"
    yield from table(["sides", *(f"{n} / {m}" for n, m in sizes)], rows)


def adaptive(noise: Random, reps: int) -> Iterator[str]:
    """Coverage where runs were added until half the interval was at most 1 %."""
    target, spreads = 0.01, (0.001, 0.003, 0.006, 0.01, 0.015, 0.02, 0.03)
    yield "Runs were added (at least 3) until half the interval was at most 1 % of the median. `all`: coverage (%) over"
    yield "all cases; `met`: cases (%) that reached the target; `of these`: coverage (%) over those cases; `runs`: mean"
    yield "number of runs. dlperf takes 5.\n"
    for most in (10, 20):
        rows: list[list[object]] = []
        for name in ("normal", "outliers", "two levels (3 of 10)", "skewed"):
            true = truth(SHAPES[name], noise)
            for spread in spreads:
                logs = spread * SHAPES[name](noise, reps, most)
                held, met, runs, half = _waited(logs, target, spread * true)
                rows.append([
                    f"{name}, {spread:.1%}", 100 * held.mean(), 100 * met.mean(),
                    100 * held[met].mean() if met.sum() > 50 else "-", runs.mean(), f"{100 * np.median(half):.2f}",
                ])  # fmt: skip
        yield f"At most {most} runs:\n"
        yield from table(["runs are, spread", "all", "met", "of these", "runs", "half width, %"], rows)
    yield "If the spread of the runs exceeds the target, few cases reach it, and only by luck, so their intervals have"
    yield "a lower coverage. A rule that uses only one case cannot detect this. If the other cases of a machine spread"
    yield "by more than the target, use a fixed number of runs.\n"


def _waited(
    logs: Array, target: float, true: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], Array, Array]:
    campaigns, most = logs.shape
    open_, held, met = np.ones(campaigns, bool), np.zeros(campaigns, bool), np.zeros(campaigns, bool)
    runs, half = np.zeros(campaigns), np.zeros(campaigns)
    for n in range(3, most + 1):
        enough = _narrow(logs[:, :n], target)
        ending = open_ & (enough | (n == most))
        low, high = ends(logs[:, :n], Sampling.WAITED)
        held[ending] = ((low <= true) & (true <= high))[ending]
        met[ending], runs[ending], half[ending] = enough[ending], n, ((high - low) / 2)[ending]
        open_ &= ~ending
    return held, met, runs, half


def campaigns(noise: Random, reps: int) -> Iterator[str]:
    """Coverage of another campaign's median by an interval: none is promised."""
    rows = []
    for name, rho, effect in (
        ("independent runs", 0.0, 0.0),
        ("runs of one campaign correlated by 0.3", 0.3, 0.0),
        ("runs of one campaign correlated by 0.6", 0.6, 0.0),
        ("a campaign effect as large as the spread", 0.0, 1.0),
        ("a campaign effect of twice the spread", 0.0, 2.0),
    ):
        cells = [
            coverage(ends(correlated(noise, reps, n, rho) + effect * noise.standard_normal((reps, 1))), 0.0)
            for n in RUNS
        ]
        rows.append([name, *cells])
    yield "How often (%) the interval of one campaign contains the median of many campaigns. With a run spread of 1 %,"
    yield "the fourth line is a campaign effect of 1 %. The runs of a campaign cannot show an effect on all of them, so"
    yield "the interval applies only to this campaign on this machine.\n"
    yield from table(["campaigns", *(f"n = {n}" for n in RUNS)], rows)


def practice(noise: Random, reps: int) -> Iterator[str]:
    """Comparison with common practice: the standard error of all pooled steps, and the mean of rates."""
    rows = []
    few = max(reps // 4, 100)
    for name, between, within, rho in (
        ("quiet GPU: runs 0.1 %, steps 0.5 %, correlated by 0.5", 0.001, 0.005, 0.5),
        ("GPU: runs 0.3 %, steps 2.5 %, correlated by 0.8", 0.003, 0.025, 0.8),
        ("CPU: runs 1 %, steps 5 %, correlated by 0.4", 0.01, 0.05, 0.4),
        ("busy CPU: runs 3 %, steps 15 %, correlated by 0.4", 0.03, 0.15, 0.4),
    ):
        for n in (3, 5, 10):
            steps = within * correlated(noise, few * n, 100, rho).reshape(few, n, 100)
            times = np.exp(steps + between * noise.standard_normal((few, n, 1)))
            rate = np.exp(-(within**2 + between**2) / 2)  # one over the mean step time
            middle_rate = np.exp(-(within**2) / 2)  # the median over runs
            rates = (1 / times).reshape(few, -1)
            error = 1.96 * rates.std(axis=1, ddof=1) / np.sqrt(rates.shape[1])
            mean = rates.mean(axis=1)
            of_runs = 1 / times.mean(axis=2)
            rows.append([
                name, n,
                coverage(ends(np.log(of_runs)), float(np.log(middle_rate))),
                coverage((mean - error, mean + error), float(rate)),
                f"{100 * (mean.mean() / rate - 1):+.2f}",
            ])  # fmt: skip
    yield "Coverage (%) of nominal 95 % intervals: ours, and the mean of all steps' rates with the standard error of"
    yield "the pooled steps. The last column is the deviation (%) of the mean of rates from samples divided by time.\n"
    yield from table(["machine", "runs", "ours", "pooled steps", "mean of rates"], rows)


def warmup(noise: Random, reps: int) -> Iterator[str]:
    """The warm-up test: false reports on steady series, power, error in steps."""
    few = max(reps // 20, 60)
    rows: list[list[object]] = []
    correlations = (0.0, 0.3, 0.6, 0.8, 0.9, 0.95)
    for n in (20, 30, 60, 100, 200, 500):
        for spread in (0.02, 0.05):
            cells = []
            for rho in correlations:
                found = [judge_steadiness(np.exp(spread * y)) for y in correlated(noise, few, n, rho)]
                cells.append(f"{_share(found, False):.1f} ({_share(found, None):.0f})")
            rows.append([f"{n} steps, {spread:.0%}", *cells])
    yield "Steady series: false reports of not steady (%) and, in brackets, inconclusive windows (%), by number of"
    yield "steps, their spread, and the correlation of neighbours.\n"
    yield from table(["", *(f"{rho:g}" for rho in correlations)], rows)
    rows = []
    shapes: dict[str, Shape] = {
        "skewed steps": skewed, "heavy tails (t3)": heavy,
        "every 7th step 30 % longer": lambda r, c, n: r.standard_normal((c, n)) + 15 * (np.arange(n) % 7 == 0),
        "every 16th step 50 % longer": lambda r, c, n: r.standard_normal((c, n)) + 20 * (np.arange(n) % 16 == 0),
        "one step three times as long": lambda r, c, n: r.standard_normal((c, n)) + 55 * (np.arange(n) == n // 2),
    }  # fmt: skip
    for name, shape in shapes.items():
        cells = []
        for n in (30, 100, 500):
            found = [judge_steadiness(np.exp(0.02 * y)) for y in shape(noise, few, n)]
            cells.append(f"{_share(found, False):.1f} ({_share(found, None):.0f})")
        rows.append([name, *cells])
    yield "Other steady series, spread 2 %, independent:\n"
    yield from table(["", "30 steps", "100 steps", "500 steps"], rows)
    yield from _power(noise, few)


def _power(noise: Random, few: int) -> Iterator[str]:
    machines = ((0.0, 0.005), (0.0, 0.02), (0.0, 0.05), (0.5, 0.02), (0.8, 0.01), (0.8, 0.03))
    for n in (30, 100, 500):
        at = np.arange(n) / n
        changes = {
            "burst of +50 % in 40–60 % of the window": 0.5 * ((at >= 0.4) & (at < 0.6)),
            "burst of +10 % there": 0.1 * ((at >= 0.4) & (at < 0.6)),
            "throttled by 10 % from 80 %": 0.1 * (at >= 0.8),
            "throttled by 10 % from 90 %": 0.1 * (at >= 0.9),
            "throttled by 3 % from 60 %": 0.03 * (at >= 0.6),
            "first fifth 10 % slower": 0.1 * (at < 0.2),
            "first fifth 10 % faster": -0.1 * (at < 0.2),
            "ramp: +50 % falling by e each tenth": 0.5 * np.exp(-10 * at),
            "drift of 10 % over the window": 0.1 * at,
            "two levels 10 % apart, 5 stretches": 0.1 * ((5 * at).astype(int) % 2),
            "second half three times slower": 2.0 * (at >= 0.5),
        }
        rows = []
        for name, change in changes.items():
            cells = []
            for rho, spread in machines:
                series = np.exp(np.log1p(change) + spread * correlated(noise, max(few // 2, 40), n, rho))
                found = [judge_steadiness(y) for y in series]
                cells.append(f"{_share(found, False):.0f} ({_share(found, None):.0f})")
            rows.append([name, *cells])
        yield f"Windows of {n} steps that are not steady: found in % (inconclusive in %), by correlation and "
        yield "spread of steps.\n"
        yield from table(["", *(f"{rho:g}, {spread:.1%}" for rho, spread in machines)], rows)
    rows = []
    for n in (60, 100, 500):
        for part in (0.1, 0.2, 0.4):
            start = int(part * n)
            change = 0.1 * (np.arange(n) < start)
            cells = []
            for rho, spread in machines:
                series = np.exp(np.log1p(change) + spread * correlated(noise, max(few // 2, 40), n, rho))
                offs = [
                    abs(found.settled_after - start)
                    for found in map(judge_steadiness, series)
                    if found.steady is False and found.settled_after is not None
                ]
                cells.append(
                    f"{np.median(offs):.0f} / {np.percentile(offs, 90):.0f}" if len(offs) > 10 else "-"
                )
            rows.append([f"{n} steps, {start} of them slow", *cells])
    yield "A slow start of +10 %, if found: error of the reported first steady step, in steps, median / 9 of 10.\n"
    yield from table(["", *(f"{rho:g}, {spread:.1%}" for rho, spread in machines)], rows)


def _share(found: Sequence[object], verdict: bool | None) -> float:
    return 100 * float(np.mean([getattr(one, "steady", 0) is verdict for one in found]))


def stored_runs(noise: Random, reps: int) -> Iterator[str]:
    """The verdicts of the warm-up test on the runs stored in docs/results."""
    del noise, reps
    rows = []
    for archive in sorted(RESULTS.glob("*/runs.tar.xz")):
        verdicts: Counter[str] = Counter()
        with tarfile.open(archive) as runs:
            for member in runs:
                held = runs.extractfile(member) if member.name.endswith("/events.jsonl") else None
                if held is not None and (times := _measured(held.read().decode())).size:
                    verdicts[str(judge_steadiness(times).steady)] += 1
        rows.append([archive.parent.name, verdicts["True"], verdicts["False"], verdicts["None"]])
    yield "The runs stored in `docs/results`, measured windows:\n"
    yield from table(["results", "steady", "not steady", "inconclusive"], rows)


def _measured(text: str) -> Array:
    times = []
    for line in io.StringIO(text):
        event = json.loads(line.removeprefix("DLLL ")) if line.startswith("DLLL ") else {}
        data = event.get("data", {})
        if isinstance(data, dict) and data.get("phase") == "measured" and data.get("step_time_s"):
            times.append(data["step_time_s"])
    return np.array(times, dtype=np.float64)


PARTS: dict[str, Callable[[Random, int], Iterator[str]]] = {
    "intervals": intervals,
    "ratios": ratios,
    "adaptive": adaptive,
    "campaigns": campaigns,
    "practice": practice,
    "warmup": warmup,
    "kept": stored_runs,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--part", action="append", choices=[*PARTS], help="one part; may be given several times"
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the repetitions")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    check_the_vectorised(np.random.default_rng(options.seed))
    reps = 800 if options.quick else 8000
    print(f"{datetime.now(UTC):%Y-%m-%d}, {platform.machine()}, Python {platform.python_version()}, ", end="")
    print(f"numpy {np.__version__}, seed {options.seed}, {reps} repetitions: `python {' '.join(sys.argv)}`\n")
    for name in options.part or PARTS:
        began = time.perf_counter()
        part = PARTS[name]
        print(f"## {name}: {(part.__doc__ or '').splitlines()[0]}\n")
        for line in part(np.random.default_rng([options.seed, *name.encode()]), reps):
            print(line, flush=True)
        print(f"({time.perf_counter() - began:.0f} s)\n")


if __name__ == "__main__":
    main()
