"""Figures in README and in the appendix are those of the stored results; pictures show what the reports show today."""

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import pytest

from appendix_tables import deviations, loaders, two_h100
from report_pictures import EXAMPLES, SHOWN, SITE, first_screen, site_screen

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RESULT = re.compile(r"\]\(\.\./results/([\w-]+\.json)\)")
FIGURE = re.compile(r"(?<![\d.,])(\d{1,3}(?: \d{3})+|\d\.\d{3})(?![\d.]|e)")
MEASURED = re.compile(r"\d{1,3}(?: \d{3})+|\d\.\d+e-\d+|\d+(?:\.\d+)? %")
ROWS = [
    pytest.param(line, results[0], id=f"{page}-{number}-{results[0]}")
    for page in ("performance", "language-models")
    for number, line in enumerate(
        (DOCS / "appendix" / f"{page}.md").read_text(encoding="utf-8").splitlines(), start=1
    )
    if line.startswith("|") and len(results := RESULT.findall(line)) == 1 and results[0].startswith("peers-")
]


def test_the_tables_of_both_readmes_are_what_the_stored_results_say() -> None:
    words = [sys.executable, str(ROOT / "scripts" / "measured_page.py"), "--check"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def test_the_tables_of_the_appendix_are_what_the_stored_results_say() -> None:
    words = [sys.executable, str(ROOT / "scripts" / "appendix_tables.py"), "--check"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "name", ["appendix/gpus.md", "appendix/equal-work.md", "how-to/gpus.md", "explanation/equivalence.md"]
)
def test_a_table_of_figures_is_written_by_a_script_or_states_that_no_result_is_stored(name: str) -> None:
    blocks = re.split(r"\n\n+", (DOCS / name).read_text(encoding="utf-8"))
    unproven = [
        block.splitlines()[0]
        for before, block in pairwise(blocks)
        if block.startswith("|")
        and len(MEASURED.findall(block)) > 5
        and not before.startswith("<!-- ")
        and "no stored result has these figures" not in before.lower()
    ]

    assert unproven == []


@pytest.mark.parametrize(
    "page",
    sorted(page for folder in ("tutorials", "how-to") for page in (DOCS / folder).glob("*.md")),
    ids=lambda page: page.stem,
)
def test_a_tutorial_or_how_to_page_leaves_long_tables_of_figures_to_the_appendix(page: Path) -> None:
    rows = [
        line
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("|") and len(re.findall(r"\d+\.\d+|\d{1,3}(?: \d{3})+|\d+ %", line)) >= 3
    ]

    assert len(rows) < 10


@pytest.mark.parametrize(
    ("page", "tables", "heading", "figure"),
    [
        ("how-to/gpus.md", [two_h100], "Several GPUs of one host", r"(\d+\.\d)(?= to | %)"),
        ("how-to/gpus.md", [loaders], "Real pictures", r"(\d+)(?= %)"),
        ("explanation/equivalence.md", [deviations], "How far frameworks deviate", r"(\d\.\de-\d+)"),
    ],
)
def test_the_figures_of_a_summary_are_in_the_table_that_it_sums_up(
    page: str, tables: list[Callable[[], str]], heading: str, figure: str
) -> None:
    text = (DOCS / page).read_text(encoding="utf-8").partition(f"## {heading}")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if "../results/" not in line]
    named = re.findall(figure, "\n".join(lines))
    known_figures = {
        text
        for table in tables
        for value in re.findall(r"\d+\.\d(?:e-\d+)?", table())
        for text in (value, f"{float(value):.0f}")
    }

    assert named
    assert [value for value in named if value not in known_figures] == []


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


@pytest.mark.parametrize("name", [*SHOWN, *EXAMPLES])
def test_a_picture_shows_what_the_report_shows_today(name: str) -> None:
    stored = json.loads((DOCS / "pictures" / "shown.json").read_text(encoding="utf-8"))
    digest = hashlib.sha256(first_screen(name).encode()).hexdigest()

    assert stored[name] == digest, f"run scripts/report_pictures.py {name}"


def test_the_sites_pictures_show_what_it_shows_today() -> None:
    stored = json.loads((DOCS / "pictures" / "shown.json").read_text(encoding="utf-8"))
    digest = hashlib.sha256(site_screen().encode()).hexdigest()

    assert stored[SITE] == digest, "run scripts/report_pictures.py site"
