"""The charts: honest axes, nothing where there is no number, long series thinned without losing their peaks."""

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import sample_results as sample
from hypothesis import example, given
from hypothesis import strategies as st
from rendering import Rendering

from trainmark.report import Language, write_plots
from trainmark.report.blocks import Chart
from trainmark.report.charts import (
    MOST_POINTS,
    BarChart,
    ScalingPoint,
    bars,
    scaling_points,
    speedup_limits,
    steps_chart,
    thinned,
)
from trainmark.report.context import Context, context, read_series
from trainmark.report.drawing import lines_of, text_width, ticks
from trainmark.report.writing import compose
from trainmark.schema.case import case_of
from trainmark.schema.results import Results

SVG = "{http://www.w3.org/2000/svg}"


def charts(results: Results, folder: Path, language: Language = Language.EN) -> dict[str, Chart]:
    sample.write_runs(folder, results)
    return {chart.name: chart for chart in compose(results, folder, language).charts}


def about(results: Results, folder: Path) -> Context:
    sample.write_runs(folder, results)
    return context(results, folder, Language.EN, series=read_series(results, folder))


def bars_of(results: Results, folder: Path) -> list[BarChart]:
    found = about(results, folder)
    return [bars(found, part) for part in found.parts]


def points_of(results: Results, folder: Path) -> list[ScalingPoint]:
    found = about(results, folder)
    return scaling_points(found, found.parts[0])


def rectangles(chart: Chart) -> list[dict[str, float]]:
    """Return the bars of a chart: rectangles with a tip."""
    root = ElementTree.fromstring(chart.drawing.file())
    found = [one for one in root.iter(f"{SVG}rect") if one.find(f"{SVG}title") is not None]
    return [{name: float(one.attrib[name]) for name in ("x", "y", "width")} for one in found]


def words_of(chart: Chart) -> list[str]:
    return [one.text or "" for one in ElementTree.fromstring(chart.drawing.file()).iter(f"{SVG}text")]


def test_all_bars_begin_at_zero_and_share_one_axis(tmp_path: Path) -> None:
    results = sample.ngc_v100()
    (chart,) = bars_of(results, tmp_path)
    drawn = rectangles(charts(results, tmp_path)["throughput"])
    medians = [bar.median for _, group in chart.panels for bar in group if bar.median is not None]
    assert len(chart.panels) == 3
    assert {one["x"] for one in drawn} == {0}
    scales = [one["width"] / median for one, median in zip(drawn, medians, strict=True)]
    assert max(scales) == pytest.approx(min(scales), rel=0.02)


def test_every_case_is_named_in_full_in_the_chart(tmp_path: Path) -> None:
    results = sample.many_workloads()
    found = about(results, tmp_path)
    shown = " ".join(words_of(charts(results, tmp_path)["throughput"]))
    labels = [found.axes.label(case.case, without=("devices",)) for case in results.cases]
    assert [label for label in labels if re.sub(r"\s", "", label) not in re.sub(r"\s", "", shown)] == []


def test_a_case_without_a_number_is_labelled_with_its_outcome_and_has_no_bar(tmp_path: Path) -> None:
    (chart,) = bars_of(sample.ngc_v100(), tmp_path)
    group = dict(chart.panels)[32]
    oom = next(bar for bar in group if bar.text == "OOM")
    assert (oom.median, oom.low, oom.high) == (None, None, None)


def test_single_runs_are_drawn_next_to_the_interval(tmp_path: Path) -> None:
    (chart,) = bars_of(sample.ngc_v100(), tmp_path)
    group = dict(chart.panels)[8]
    assert sum(len(bar.runs) for bar in group) == 19
    assert all(
        bar.low < bar.median < bar.high
        for bar in group
        if bar.low is not None and bar.median is not None and bar.high is not None
    )


def test_an_interval_far_wider_than_its_runs_does_not_flatten_the_picture(tmp_path: Path) -> None:
    rates = (100.0, 150.0, 150.0)
    results = sample.results(
        [
            (case, tuple(sample.run(case, i + 1, throughput=rate) for i, rate in enumerate(rates)))
            for case in (case_of(), case_of(devices_per_node=2))
        ]
    )
    assert all(c.estimate and c.estimate.interval and c.estimate.interval.high > 225 for c in results.cases)
    (chart,) = bars_of(results, tmp_path)
    assert chart.end == 150 * 1.5
    assert all(bar.cut for _, group in chart.panels for bar in group)
    lowest, highest = speedup_limits(points_of(results, tmp_path))
    assert (lowest > 0.5, highest < 3) == (True, True)


def test_a_case_without_a_baseline_is_not_in_the_scaling_chart(rendering: Rendering, tmp_path: Path) -> None:
    assert "scaling" not in rendering.charts(sample.no_baseline)
    points = points_of(sample.ngc_v100(), tmp_path)
    assert len(points) == 11
    assert all(point.low is None for point in points if point.devices == 1)


def test_a_speedup_in_doubt_has_its_sign_in_the_scaling_chart(rendering: Rendering, tmp_path: Path) -> None:
    (marked,) = (point for point in points_of(sample.ngc_v100(), tmp_path) if point.mark)
    assert (marked.mark, marked.devices, round(marked.speedup, 2)) == ("†", 8, 7.45)
    assert words_of(rendering.charts(sample.ngc_v100)["scaling"]).count("†") == 2
    assert "†" not in words_of(rendering.charts(sample.two_sizes)["scaling"])


def test_the_first_step_is_left_out_of_the_series_and_the_warmup_is_shaded(tmp_path: Path) -> None:
    results = sample.one_case(2)
    drawn = steps_chart(about(results, tmp_path))
    assert drawn is not None
    (panel,) = drawn.panels
    assert {step for _, series in panel.lines for step, _ in series} == set(range(2, 121))
    assert panel.warmup_steps == 20
    assert "do not start at zero" in charts(results, tmp_path)["steps"].caption


def test_a_long_warmup_step_is_cut_off_and_the_caption_says_so(tmp_path: Path) -> None:
    results = sample.one_case(1)
    sample.write_runs(tmp_path, results)
    events = tmp_path / results.cases[0].runs[0].directory / "events.jsonl"
    lines = events.read_text().splitlines()
    lines[1] = 'DLLL {"step": [0, 2], "data": {"step_time_s": 30.0, "phase": "warmup"}}'
    events.write_text("\n".join(lines))
    chart = compose(results, tmp_path, Language.EN).charts[-1]
    assert "cut off at the top" in chart.caption
    ticks = [float(word) for word in words_of(chart) if re.fullmatch(r"[\d.]+", word)]
    assert max(ticks) < 150


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


@given(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=200), st.integers(60, 600)
)
@example("000000000000\u05f5\u0e5c00", 60)
@example("\u4e2d" * 5 + "0" * 20, 60)
def test_a_label_in_lines_loses_nothing_and_no_line_is_too_long(label: str, width: int) -> None:
    lines = lines_of(label, width)
    assert "".join("".join(lines).split()) == "".join(label.split())
    assert all(text_width(line) <= width for line in lines)


@given(st.floats(0, 1e9), st.floats(1e-6, 1e9))
def test_ticks_are_few_and_within_the_axis(low: float, size: float) -> None:
    found = ticks(low, low + size, 5)
    assert len(found) <= 7
    assert all(
        low - size * 1e-6 - 1e-9 * low <= tick <= low + size * (1 + 1e-6) + 1e-9 * low for tick in found
    )


def test_each_unit_has_a_chart_whose_axis_is_labelled_with_it(rendering: Rendering) -> None:
    drawn = rendering.charts(sample.two_units)
    assert {
        "throughput-images-s",
        "throughput-sequences-s",
        "scaling-images-s",
        "scaling-sequences-s",
    } <= set(drawn)
    for unit, other in (("images", "sequences"), ("sequences", "images")):
        text = drawn[f"throughput-{unit}-s"].drawing.file()
        assert f"throughput ({unit}/s)" in text
        assert f"{other}/s" not in text
        cases = [word for word in words_of(drawn[f"throughput-{unit}-s"]) if "fp32" in word]
        assert len({"bert" in case for case in cases}) == 1


def test_drawing_reads_no_file(tmp_path: Path) -> None:
    results = sample.one_case(2)
    sample.write_runs(tmp_path, results)
    series = read_series(results, tmp_path)
    drawn = steps_chart(context(results, Path("/nowhere"), Language.EN, series=series))
    assert drawn is not None
    assert {repeat for repeat, _ in drawn.panels[0].lines} == {1, 2}
