"""Rare tests come last, in groups that several processes share, and none starts after the time that CI has for them."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RARE = "tests/dataset/test_convert.py"


def pytest_with(*words: str, **variables: str) -> str:
    """Return the output of another pytest."""
    without = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words],
        cwd=ROOT,
        env={**without, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_no_rare_test_starts_after_the_time_for_them_and_the_summary_counts_them() -> None:
    output = pytest_with("-m", "rare", "-k", "full_disk", RARE, TRAINMARK_RARE_UNTIL="1")

    assert "rare, and the time for rare tests is over ($TRAINMARK_RARE_UNTIL)" in output
    assert " passed" not in output
    assert " skipped" in output


def test_rare_tests_are_last_and_a_word_changes_their_order() -> None:
    # Those of test_conformance have parameters of their module, by which pytest sorts them too.
    files = ("tests/worker/test_conformance.py", "tests/worker/test_worker_gradients.py", RARE)
    orders = {
        word: [
            line
            for line in pytest_with("--collect-only", *files, TRAINMARK_RARE_ORDER=word).splitlines()
            if "::" in line
        ]
        for word in "ab"
    }
    rare = {line for line in pytest_with("--collect-only", "-m", "rare", *files).splitlines() if "::" in line}

    assert rare
    for lines in orders.values():
        assert set(lines[-len(rare) :]) == rare
    assert len({tuple(lines) for lines in orders.values()}) > 1


def test_a_file_all_of_whose_tests_are_left_out_is_not_imported() -> None:
    folder = "tests/check"
    files = {
        line.partition("::")[0] for line in pytest_with("--collect-only", folder).splitlines() if "::" in line
    }
    of_processes = {
        file for file in files if "\npytestmark = pytest.mark.process\n" in (ROOT / file).read_text()
    }

    output = pytest_with("--collect-only", "-m", "not process", folder)

    assert of_processes
    assert "deselected" not in output
    assert {line.partition("::")[0] for line in output.splitlines() if "::" in line} == files - of_processes
