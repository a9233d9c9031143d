"""The rate of random figures that are called ``reproduced`` from a log, by number of digits; seeded.

    python benchmarks/audit_chance.py [--draws 2000] [--seed 1] ../shared/corpus ../shared/corpus-today

For each log that gives a number, figures are drawn evenly in logarithm from ±5 % around a value that is itself drawn
over a decade (so that leading digits are as in tables: the rules' values are scaled by the same factor), rounded to so
many digits, and held against every rule that ``audit`` tries. The budget is 1 % for five digits.
"""

import argparse
import random
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from log_mutations import corpus, parse

from trainmark.logs import Status
from trainmark.measure.rules.matching import Tried, try_rules

BUDGET = 0.01
DIGITS = range(2, 9)


def scaled(tried: Tried, factor: float) -> Tried:
    """Return the same results, times ``factor``."""
    groups = (
        [replace(r, value=(r.value or 0) * factor) for r in g] for g in (tried.usual, tried.conventional)
    )
    return Tried(*groups)


def main() -> int:
    """Run the benchmark; exit code 1 over budget."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path, nargs="+")
    parser.add_argument("--draws", type=int, default=2000, help="figures a log and number of digits")
    parser.add_argument("--seed", type=int, default=1)
    words = parser.parse_args()
    chance = random.Random(words.seed)
    logs = [parse(log) for folder in words.corpora for log in corpus(folder)]
    tried = [(log, found) for log in logs if log.status is Status.OK and (found := try_rules(log)).all]
    print("| digits | called reproduced | worst log |\n| --- | --- | --- |")
    five = 1.0
    for digits in DIGITS:
        shares = []
        for log, found in tried:
            hits = 0
            for _ in range(words.draws):
                here = scaled(found, 10 ** chance.random())
                figure = (here.all[0].value or 1.0) * 1.05 ** chance.uniform(-1, 1)
                hits += bool(
                    here.matching(
                        Decimal(f"{figure:.{digits - 1}e}").normalize().quantize(_grain(figure, digits))
                    )
                )
            shares.append((hits / words.draws, str(log.format)))
        mean = sum(share for share, _ in shares) / len(shares)
        five = mean if digits == 5 else five
        print(f"| {digits} | {mean:.3%} | {max(shares)[0]:.2%} ({max(shares)[1]}) |")
    print(f"\n{len(tried)} logs, {words.draws} figures each and for each number of digits, seed {words.seed}")
    return int(five > BUDGET)


def _grain(figure: float, digits: int) -> Decimal:
    return Decimal(1).scaleb(Decimal(f"{figure:.0e}").adjusted() - digits + 1)


if __name__ == "__main__":
    sys.exit(main())
