"""The charts: honest axes, nothing where there is no number, long series thinned without losing their peaks."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import altair as alt
import numpy as np
import pytest
import sample_results as sample
from hypothesis import given
from hypothesis import strategies as st
from rendering import Example, Rendering

from trainmark.report import Language, write_plots
from trainmark.report.blocks import Chart
from trainmark.report.charts import on_white, svg
from trainmark.report.charts.steps import MOST_POINTS, steps_chart, thinned
from trainmark.report.context import context
from trainmark.report.series import read_series
from trainmark.report.writing import compose
from trainmark.schema.results import Results
from trainmark.tasks import case_of


def charts(results: Results, folder: Path, language: Language = Language.EN) -> dict[str, Chart]:
    sample.write_runs(folder, results)
    return {chart.name: chart for chart in compose(results, folder, language).charts}


def scales(specification: Any, channel: str) -> list[dict[str, Any]]:
    """Return the scales that a specification gives to a channel, at any depth."""
    found = []
    if isinstance(specification, dict):
        for key, value in specification.items():
            if key == channel and isinstance(value, dict) and isinstance(value.get("scale"), dict):
                found.append(value["scale"])
            found += scales(value, channel)
    elif isinstance(specification, list):
        found = [scale for value in specification for scale in scales(value, channel)]
    return found


@pytest.mark.parametrize("example", [sample.two_sizes, sample.one_case])
def test_charts_are_what_altair_takes_for_charts(example: Example, rendering: Rendering) -> None:
    """The product builds them without Altair's check of every part, which takes half of the time."""
    for chart in rendering.charts(example).values():
        assert alt.Chart.from_dict(dict(chart.specification), validate=True) is not None


def test_bars_begin_at_zero(rendering: Rendering) -> None:
    chart = rendering.charts(sample.ngc_v100)["throughput"]
    found = scales(chart.specification, "x")
    assert len(found) == 3
    assert all(scale["domain"][0] == 0 for scale in found)


def test_a_case_without_a_number_is_labelled_with_its_outcome_and_has_no_bar(rendering: Rendering) -> None:
    data = rendering.charts(sample.ngc_v100)["throughput"].specification["datasets"]
    oom = next(row for row in data["cases-32"] if row["text"] == "OOM")
    assert (oom["median"], oom["low"], oom["high"]) == (None, None, None)


def test_single_runs_are_drawn_next_to_the_interval(rendering: Rendering) -> None:
    data = rendering.charts(sample.ngc_v100)["throughput"].specification["datasets"]
    assert len(data["runs-8"]) == 19
    assert all(row["low"] < row["median"] < row["high"] for row in data["cases-8"])


def test_an_interval_far_wider_than_its_runs_does_not_flatten_the_picture(tmp_path: Path) -> None:
    rates = (100.0, 150.0, 150.0)
    results = sample.results(
        [
            (case, tuple(sample.run(case, i + 1, throughput=rate) for i, rate in enumerate(rates)))
            for case in (case_of(), case_of(devices_per_node=2))
        ]
    )
    assert all(c.estimate and c.estimate.interval and c.estimate.interval.high > 225 for c in results.cases)
    drawn = charts(results, tmp_path)
    widths = [scale["domain"][1] for scale in scales(drawn["throughput"].specification, "x")]
    assert widths == [150 * 1.5 * 1.18] * 2
    lowest, highest = scales(drawn["scaling"].specification, "y")[0]["domain"]
    assert (lowest > 0.5, highest < 3) == (True, True)


def test_a_case_without_a_baseline_is_not_in_the_scaling_chart(rendering: Rendering) -> None:
    assert "scaling" not in rendering.charts(sample.no_baseline)
    rows = rendering.charts(sample.ngc_v100)["scaling"].specification["datasets"]["cases"]
    assert len(rows) == 11
    assert all(row["low"] is None for row in rows if row["devices"] == 1)


def test_a_speedup_in_doubt_has_its_sign_in_the_scaling_chart(rendering: Rendering) -> None:
    chart = rendering.charts(sample.ngc_v100)["scaling"]
    rows = chart.specification["datasets"]["cases"]
    (marked,) = (row for row in rows if row["mark"])
    assert (marked["mark"], marked["devices"], round(marked["speedup"], 2)) == ("†", 8, 7.45)
    assert json.dumps(chart.specification).count('"field": "mark"') == 2
    assert '"field": "mark"' not in json.dumps(rendering.charts(sample.two_sizes)["scaling"].specification)


def test_the_first_step_is_left_out_of_the_series_and_the_warmup_is_shaded(tmp_path: Path) -> None:
    chart = charts(sample.one_case(2), tmp_path)["steps"]
    data = chart.specification["datasets"]
    assert {row["step"] for row in data["case-0"]} == set(range(2, 121))
    assert data["case-0-warmup"] == [{"from": 1, "to": 20.5}]
    assert "do not start at zero" in chart.caption


def test_a_long_warmup_step_is_cut_off_and_the_caption_says_so(tmp_path: Path) -> None:
    results = sample.one_case(1)
    sample.write_runs(tmp_path, results)
    events = tmp_path / results.cases[0].runs[0].directory / "events.jsonl"
    lines = events.read_text().splitlines()
    lines[1] = 'DLLL {"step": [0, 2], "data": {"step_time_s": 30.0, "phase": "warmup"}}'
    events.write_text("\n".join(lines))
    chart = compose(results, tmp_path, Language.EN).charts[-1]
    assert "cut off at the top" in chart.caption
    assert all(scale["domain"][1] < 100 for scale in scales(chart.specification, "y"))


def test_no_series_is_drawn_where_no_events_are(tmp_path: Path) -> None:
    assert [chart.name for chart in compose(sample.one_case(1), tmp_path, Language.EN).charts] == [
        "throughput"
    ]


def test_more_cases_than_panels_are_reported_as_left_out(tmp_path: Path) -> None:
    cases = [case_of(batch_per_device=i + 1) for i in range(14)]
    results = sample.results([(case, sample.ok_runs(case, 100.0, 1)) for case in cases])
    assert "The first 12 of 14 cases." in charts(results, tmp_path)["steps"].caption


@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=3000))
def test_a_thinned_series_keeps_its_extremes_and_its_order(values: list[float]) -> None:
    times = np.array(values)
    stored = list(thinned(times))
    assert stored == sorted(set(stored))
    assert len(stored) <= max(MOST_POINTS, 1)
    assert times[stored].max() == times.max()
    assert times[stored].min() == times.min()


@pytest.mark.parametrize("language", list(Language))
def test_plots_are_whole_svg_files_on_white(language: Language, tmp_path: Path) -> None:
    results = sample.two_sizes()
    sample.write_runs(tmp_path, results)
    paths = write_plots(tmp_path / "plots", results, tmp_path, language)
    assert [path.name for path in paths] == ["throughput.svg", "scaling.svg", "steps.svg"]
    for path in paths:
        root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
        assert root[0].attrib["fill"] == "white"
        assert "images/s" in "".join(root.itertext()) or path.name != "throughput.svg"


def test_the_ids_of_two_pictures_in_one_page_differ(tmp_path: Path) -> None:
    chart = charts(sample.one_case(1), tmp_path)["steps"]
    assert 'id="steps-0"' in svg(chart.specification, chart.name)
    assert on_white("<svg a='1'><g/></svg>").startswith("<svg a='1'><rect ")


def test_each_unit_has_a_chart_whose_axis_is_labelled_with_it(rendering: Rendering) -> None:
    drawn = rendering.charts(sample.two_units)
    assert {
        "throughput-images-s",
        "throughput-sequences-s",
        "scaling-images-s",
        "scaling-sequences-s",
    } <= set(drawn)
    for unit, other in (("images", "sequences"), ("sequences", "images")):
        specification = drawn[f"throughput-{unit}-s"].specification
        text = json.dumps({name: value for name, value in specification.items() if name != "datasets"})
        assert f"throughput ({unit}/s)" in text
        assert f"{other}/s" not in text
        cases = [row["case"] for rows in specification["datasets"].values() for row in rows]
        assert len({"bert" in case for case in cases}) == 1


def test_drawing_reads_no_file(tmp_path: Path) -> None:
    results = sample.one_case(2)
    sample.write_runs(tmp_path, results)
    series = read_series(results, tmp_path)
    about = context(results, Path("/nowhere"), Language.EN, series=series)
    drawn = steps_chart(about)
    assert drawn is not None
    assert {row["repeat"] for row in drawn.drawing.specification["datasets"]["case-0"]} == {1, 2}
