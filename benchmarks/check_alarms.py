"""The false-alarm rate of `trainmark check`, and its detection rate of a host that is 1.3 times slower.

    python benchmarks/check_alarms.py [--checks N]

Checks are simulated: every host has three quantities; its speed in each is off by 1, 1.5 or 2 per cent (normal, or
Student's t with 5 degrees of freedom of the same deviation), each round is slower by an exponential noise, and one
round in ten is slowed by something else on the host, by an exponential 30 per cent. A host that is slowed is slowed in
one quantity only, in all rounds. Rounds are added as the check adds them.
"""

import argparse
import math

import numpy as np

from trainmark.check.bandwidth import ROUNDS
from trainmark.check.outliers import compare, is_clear
from trainmark.schema.check import Quantity, Timing

HOSTS = (2, 3, 4, 8, 16, 32, 64)
QUANTITIES = (Quantity.MATRIX_PRODUCT, Quantity.MEMORY_COPY, Quantity.LINK)


def one_check(
    random: np.random.Generator, hosts: int, spread: float, noise: float, heavy: bool, slowed: float
) -> tuple[bool, bool]:
    """Return whether a healthy host was named, and whether the slowed one (host 0) was."""
    shape = (len(QUANTITIES), hosts)
    drawn = random.standard_t(5, shape) / math.sqrt(5 / 3) if heavy else random.standard_normal(shape)
    base = spread * drawn
    base[0, 0] += math.log(slowed)
    least, most = ROUNDS
    rounds = base[:, :, None] + random.exponential(noise, (*shape, most))
    rounds += (random.random(rounds.shape) < 0.1) * random.exponential(0.3, rounds.shape)
    seconds = np.exp(rounds)
    count = next((n for n in range(least, most) if is_clear(timed(seconds[:, :, :n]))), most)
    named = {timing.host for compared in compare(timed(seconds[:, :, :count])) for timing, _ in compared.slow}
    healthy = named if slowed == 1 else named - {"0"}
    return bool(healthy), "0" in named


def timed(seconds: np.ndarray) -> list[Timing]:
    """Return the timings of each quantity on each host; ``seconds`` is quantities x hosts x rounds."""
    return [
        Timing.model_construct(
            quantity=quantity,
            host=str(host),
            device="cpu",
            kind="k",
            amount=1.0,
            unit="FLOP",
            seconds=tuple(map(float, one)),
        )
        for quantity, of_hosts in zip(QUANTITIES, seconds, strict=True)
        for host, one in enumerate(of_hosts)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--checks", type=int, default=2000, help="simulated checks a cell")
    checks = parser.parse_args().checks
    random = np.random.default_rng(11)
    print("| hosts | spread | noise | healthy checks with an alarm | 1.3 times slower: found |")
    print("| ---: | --- | ---: | ---: | ---: |")
    worst, least = 0.0, 1.0
    for hosts in HOSTS:
        for spread, heavy in ((0.01, False), (0.015, True), (0.02, False), (0.02, True)):
            for noise in (0.01, 0.03, 0.1):
                alarms = sum(one_check(random, hosts, spread, noise, heavy, 1.0)[0] for _ in range(checks))
                found = sum(one_check(random, hosts, spread, noise, heavy, 1.3)[1] for _ in range(checks))
                worst, least = max(worst, alarms / checks), min(least, found / checks)
                law = "t(5)" if heavy else "normal"
                print(
                    f"| {hosts} | {spread:.1%} {law} | {noise:.0%} | {alarms / checks:.1%} | {found / checks:.1%} |"
                )
    print(f"\nmost alarms {worst:.1%}, least found {least:.1%}; {checks} checks a cell")


if __name__ == "__main__":
    main()
