#!/usr/bin/env python3
"""List in tests/slow_tests.txt the tests that ``make check`` leaves to ``make test``, from pytest's durations.

    .venv/bin/python -m pytest --durations=0 -m "not training and not cluster and not rare" > durations.txt
    scripts/slow_tests.py durations.txt

A test function is slow if one of its cases takes 0.2 s or more, with its fixtures, on an idle machine.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

LIST = Path(__file__).resolve().parents[1] / "tests" / "slow_tests.txt"
SLOW_S = 0.2
_DURATION = re.compile(r"\s*(\d+\.\d+)s (?:call|setup|teardown) +(tests/.+)")


def slow_functions(durations: str) -> list[str]:
    """Return the slow functions (``tests/…py::test_…``) in pytest's table of durations."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for line in durations.splitlines():
        if match := _DURATION.match(line):
            # Behind a test's own name pytest-xdist has its group.
            seconds[re.sub(r"@[^\]]*$", "", match[2])] += float(match[1])
    return sorted({name.partition("[")[0].strip() for name, took in seconds.items() if took >= SLOW_S})


if __name__ == "__main__":
    found = slow_functions(Path(sys.argv[1]).read_text(encoding="utf-8"))
    LIST.write_text("".join(f"{name}\n" for name in found), encoding="utf-8")
    sys.stdout.write(f"{len(found)} slow test functions\n")
