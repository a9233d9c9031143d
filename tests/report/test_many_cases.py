"""A report of 10 000 cases: bounded pages that say what they leave out, complete tables, and time in proportion."""

import csv
import time
from pathlib import Path

import pytest
import sample_results as sample

from trainmark.cli.main import main
from trainmark.files import write_atomically
from trainmark.report import Language, write_reports
from trainmark.report.blocks import Table
from trainmark.report.writing import MOST_CASES, compose
from trainmark.schema.case import case_of
from trainmark.schema.results import Results

NOTICE = f"This report shows {MOST_CASES} of 10000 cases: results.csv and runs.csv have all"


def many(count: int) -> Results:
    """Return results of cases that differ in an option."""
    base = case_of()
    cases = [base.model_copy(update={"options": {"n": str(number)}}) for number in range(count)]
    return sample.results(
        [(case, (sample.run(case, 1, throughput=300.0 + n % 50),)) for n, case in enumerate(cases)]
    )


@pytest.mark.slow
@pytest.mark.rare
def test_pages_of_10_000_cases_are_bounded_and_say_so_and_tables_have_all(tmp_path: Path) -> None:
    few, all_cases = many(MOST_CASES), many(10_000)
    seconds = []
    for results in (few, all_cases):
        start = time.process_time()
        written = write_reports(tmp_path, results)
        seconds.append(time.process_time() - start)

    sizes = {path.name: path.stat().st_size for path in written}
    assert sizes["report.html"] < 1_500_000
    assert sizes["report.md"] < 600_000
    assert NOTICE in (tmp_path / "report.html").read_text()
    assert NOTICE in (tmp_path / "report.md").read_text()
    for name in ("results.csv", "runs.csv"):
        with (tmp_path / name).open() as file:
            assert len(list(csv.DictReader(file))) == 10_000
    # The tables have 20 times as many lines, the pages as many.
    assert seconds[1] < 10 * seconds[0]


def test_a_page_of_few_cases_leaves_none_out() -> None:
    report = compose(many(3), Path("/nowhere"), Language.EN)

    assert "This report shows" not in report.lead


def test_the_baseline_is_shown_wherever_it_is_in_the_suite() -> None:
    results = many(MOST_CASES + 100)
    last = results.cases[-1].id

    report = compose(results.model_copy(update={"baseline": last}), Path("/nowhere"), Language.EN)

    assert f"shows {MOST_CASES} of {MOST_CASES + 100} cases" in report.lead
    # The one row of the first screen is the baseline.
    (table,) = (block for block in report.sections[0].blocks if isinstance(block, Table))
    assert [row[0].spans[0].text.split()[0] for row in table.rows] == [f"n='{MOST_CASES + 99}'"]


def test_only_shows_the_selected_cases_in_a_page_and_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = sample.ngc_v100()
    write_atomically(tmp_path / "results.json", results.to_json())
    for target in ("md", "csv"):
        assert main(["report", str(tmp_path), "--to", target, "--only", "precision=fp32"]) == 0

        text = capsys.readouterr().out
        assert "fp32" in text
        assert "amp-fp16" not in text
