"""The list of slow tests names functions that exist, so a renamed one is not forgotten in it."""

import re
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path.append(str(TESTS.parent / "scripts"))


def test_every_listed_test_exists() -> None:
    listed = (TESTS / "slow_tests.txt").read_text(encoding="utf-8").split()
    gone = []
    for name in listed:
        path, _, function = name.partition("::")
        file = TESTS.parent / path
        found = file.is_file() and re.search(
            rf"def {re.escape(function.rpartition('::')[2])}\(", file.read_text(encoding="utf-8")
        )
        if not found:
            gone.append(name)

    assert gone == []


def test_a_case_of_a_function_that_takes_long_makes_it_slow() -> None:
    from slow_tests import slow_functions

    table = (
        "0.21s call     tests/a.py::test_one[x@y]@group\n"
        "0.10s setup    tests/a.py::test_two@group\n"
        "0.11s call     tests/a.py::test_two@group\n"
        "0.19s call     tests/a.py::test_three@group\n"
    )
    assert slow_functions(table) == ["tests/a.py::test_one", "tests/a.py::test_two"]
