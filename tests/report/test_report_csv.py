"""The CSV files: a line a case and a line a run, at full precision, and no formula for a spreadsheet to run."""

import csv
import io
import re
from collections.abc import Callable

import sample_results as sample

from trainmark.report import render_csv, render_runs_csv
from trainmark.report.context import Axes
from trainmark.schema.case import case_of


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def rounded(text: str) -> str:
    """Return CSV with its fractions at ten digits: the last ones depend on the version of the numeric libraries."""
    lines = list(csv.reader(io.StringIO(text)))
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([[_rounded(field) for field in line] for line in lines])
    return out.getvalue()


def _rounded(field: str) -> str:
    return f"{float(field):.10g}" if re.fullmatch(r"\d+\.\d+(e-?\d+)?", field) else field


def test_both_files_are_as_agreed(assert_golden: Callable[[str, str], None]) -> None:
    results = sample.ngc_v100()
    assert_golden("ngc-v100.results.csv", rounded(render_csv(results)))
    assert_golden("ngc-v100.runs.csv", rounded(render_runs_csv(results)))


def test_numbers_keep_their_full_precision() -> None:
    results = sample.ngc_v100()
    for line, case in zip(read(render_csv(results)), results.cases, strict=True):
        assert line["throughput_median"] == ("" if case.estimate is None else repr(case.estimate.median))
    runs = [run for case in results.cases for run in case.runs]
    for line, run in zip(read(render_runs_csv(results)), runs, strict=True):
        assert line["throughput"] == ("" if run.measurement is None else repr(run.measurement.throughput))


def test_what_did_not_run_has_empty_fields_and_its_outcome() -> None:
    line = next(line for line in read(render_csv(sample.ngc_v100())) if line["outcome"] == "oom")
    assert (line["throughput_median"], line["speedup"], line["runs"], line["runs_ok"]) == ("", "", "2", "0")


def test_a_baseline_has_no_interval_of_its_own_speedup() -> None:
    line = read(render_csv(sample.ngc_v100()))[0]
    assert (line["speedup"], line["speedup_low"], line["speedup_high"]) == ("1.0", "", "")


def test_the_number_of_runs_and_the_reason_for_no_interval_are_in_the_csv() -> None:
    results = sample.waited_for()
    (line,) = read(render_csv(results))
    assert (line["no_interval"], line["ended_by"], line["runs_counted"]) == ("two-runs", "maximum", "2")
    assert (line["runs_spoiled"], line["half_width"], line["half_width_target"]) == ("1", "", "0.01")
    assert line["shapes"] == "burst"
    first, second = read(render_runs_csv(results))
    assert (first["shape"], second["shape"], second["steady"]) == ("", "burst", "false")


def test_options_that_are_written_alike_share_no_cell_of_a_table() -> None:
    options: list[dict[str, object]] = [
        {"x": 1},
        {"x": "1"},
        {"x": True},
        {"x": "True"},
        {"x": "1, y=2"},
        {"x": 1, "y": 2},
    ]
    cases = [case_of(options=found) for found in options]
    results = sample.results([(case, sample.ok_runs(case, 100.0, 1)) for case in cases])
    shown = {found.id for grid in Axes.of(results.cases).grids() for found in grid.cells.values()}
    assert shown == {case.id for case in cases}


def test_each_doubt_that_a_report_marks_is_next_to_the_number_and_the_ratio() -> None:
    results = sample.real_and_synthetic()
    lines = {
        (line["loader"], line["devices_per_node"]): line
        for line in read(render_csv(results))
        if line["data"] == "imagenet"
    }
    one, many = lines["dali-gpu", "1"], lines["dali-gpu", "8"]
    assert (one["suspicions"], many["suspicions"]) == ("not-steady", "not-steady")
    assert many["speedup_doubtful"].split() == [many["case"], one["case"]]
    assert lines["native", "8"]["speedup_doubtful"] == ""
    of_runs = [line for line in read(render_runs_csv(results)) if line["case"] == many["case"]]
    assert [line["suspicions"] for line in of_runs] == ["not-steady", "", "", "", "", ""]


def test_a_reason_that_looks_like_a_formula_is_text_to_a_spreadsheet() -> None:
    reasons = [line["reason"] for line in read(render_runs_csv(sample.hostile()))]
    assert reasons[3].startswith("'=cmd")
