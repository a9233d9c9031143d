"""Figures in README and in the appendix are those of the stored results; pictures show what the reports show today."""

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from report_pictures import SHOWN, first_screen

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RESULT = re.compile(r"\]\(\.\./results/([\w-]+\.json)\)")
FIGURE = re.compile(r"(?<![\d.,])(\d{1,3}(?: \d{3})+|\d\.\d{3})(?![\d.]|e)")
ROWS = [
    pytest.param(line, results[0], id=f"{number}-{results[0]}")
    for number, line in enumerate(
        (DOCS / "appendix" / "performance.md").read_text(encoding="utf-8").splitlines(), start=1
    )
    if line.startswith("|") and len(results := RESULT.findall(line)) == 1 and results[0].startswith("peers-")
]


def test_the_tables_of_both_readmes_are_what_the_stored_results_say() -> None:
    words = [sys.executable, str(ROOT / "scripts" / "measured_page.py"), "--check"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def numbers(document: Any) -> Iterator[float]:
    if isinstance(document, dict):
        yield from (number for value in document.values() for number in numbers(value))
    elif isinstance(document, list):
        yield from (number for value in document for number in numbers(value))
    elif isinstance(document, int | float) and not isinstance(document, bool):
        yield float(document)


def known(result: str) -> set[str]:
    """Return a result's numbers and the ratios of its rates, as a page prints them."""
    document = json.loads((DOCS / "results" / result).read_text(encoding="utf-8"))
    found = list(numbers(document))
    rates = [row[key] for row in document["rows"] for key in row if key.endswith("_per_s")]
    found += [one / other for one, other in permutations(rates, 2)]
    ends = [row["ratio_interval_95"] for row in document["rows"] if row.get("ratio_interval_95")]
    found += [1 / end for pair in ends for end in pair if end]
    return {f"{value:,.0f}".replace(",", " ") for value in found} | {f"{value:.3f}" for value in found}


@pytest.mark.parametrize(("line", "result"), ROWS)
def test_the_figures_of_a_row_are_in_the_result_that_it_links_to(line: str, result: str) -> None:
    allowed = known(result)

    # A remark in parentheses may be about single rounds.
    figures = FIGURE.findall(re.sub(r"\((?!\.\./)[^)]*\)", "", line))
    assert [figure for figure in figures if figure not in allowed] == []


@pytest.mark.parametrize("name", SHOWN)
def test_a_picture_shows_what_the_report_shows_today(name: str) -> None:
    stored = json.loads((DOCS / "pictures" / "shown.json").read_text(encoding="utf-8"))
    digest = hashlib.sha256(first_screen(name).encode()).hexdigest()

    assert stored[name] == digest, f"run scripts/report_pictures.py {name}"
