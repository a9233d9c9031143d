"""Predictions at more devices: models, intervals, refusals, and their errors on published tables."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import prediction_page
from trainmark.prediction import (
    Scale,
    ScaleSeries,
    predict,
    predict_series,
    series_from_references,
    series_from_results,
    with_hosts,
)
from trainmark.prediction.backtest import summarise, trials
from trainmark.reference import published_sources
from trainmark.schema.prediction import Limit, RefusalCode, ScalingModel, Term
from trainmark.store import read_results

SCALING = Path(__file__).parents[2] / "docs" / "results" / "h200-scaling"


def series(*scales: tuple[int, float, float], per_node: int = 8) -> ScaleSeries:
    """Return a series of (devices, batch per device, samples/s of one device)."""
    made = (Scale(n, -(-n // per_node), batch, n * rate) for n, batch, rate in scales)
    return ScaleSeries("pytorch resnet50", "images/s", per_node, tuple(made))


def test_weak_scaling_extends_the_time_of_a_sample_by_the_logarithm_of_the_devices() -> None:
    found = predict(series((16, 64, 100.0), (32, 64, 1 / 0.0104)), 64, 64)

    assert found.model is ScalingModel.MANY_HOSTS
    assert found.throughput == pytest.approx(64 / 0.0108)
    assert found.low < found.throughput < found.high  # type: ignore[operator]
    assert found.efficiency == pytest.approx(0.01 / 0.0108)


def test_the_second_doubling_of_hosts_costs_less_than_the_first() -> None:
    found = predict(series((8, 64, 100.0), (16, 64, 80.0)), 32, 64)

    assert found.model is ScalingModel.FIRST_HOSTS
    # 0.3 of the first doubling's 20 %, and 2 %.
    assert found.throughput == pytest.approx(32 * 80.0 / 1.08)


def test_a_prediction_from_a_noisier_scale_has_a_wider_interval() -> None:
    quiet = series((16, 64, 100.0), (32, 64, 98.0))
    noisy = replace(quiet, scales=tuple(replace(scale, spread=0.05, runs=3) for scale in quiet.scales))

    def width(of: ScaleSeries) -> float:
        found = predict(of, 64, 64)
        assert found.high is not None
        assert found.low is not None
        return math.log(found.high / found.low)

    assert width(noisy) > 1.5 * width(quiet)


@pytest.mark.parametrize(("devices", "low", "high"), [(24, 100.0, 98.0), (96, 97.0, 90.0)])
def test_devices_between_two_measured_scales_are_between_their_rates(
    devices: int, low: float, high: float
) -> None:
    found = predict(
        series((8, 6, 100.0), (64, 6, 97.0), (128, 6, 90.0), (256, 6, 70.0), (512, 6, 60.0)), devices, 6
    )

    assert found.throughput is not None
    assert min(low, high) - 1 <= found.throughput / devices <= max(low, high)
    assert found.efficiency is not None
    assert found.efficiency <= 1


def test_devices_far_below_the_measured_ones_are_refused() -> None:
    found = predict(series((128, 64, 100.0), (256, 64, 90.0)), 16, 64)

    assert found.refusal is RefusalCode.TOO_FAR
    assert str(found.refused).endswith("measure 64 or fewer")


@pytest.mark.parametrize("runs", [2, 3, 5, 10])
def test_the_interval_of_a_measured_scale_covers_the_true_rate_in_nine_of_ten(runs: int) -> None:
    random, covered = np.random.default_rng(runs), 0
    for _ in range(300):
        rates = 100 * np.exp(random.normal(0, 0.03, runs))
        spread = float(np.log(rates).std(ddof=1))
        made = (Scale(1, 1, 8, float(np.median(rates)), spread, runs), Scale(2, 1, 8, 200.0))
        found = predict(ScaleSeries("x", "images/s", 8, made), 1, 8)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 100 <= found.high

    assert covered >= 255


def test_a_single_run_has_no_interval_of_its_own() -> None:
    found = predict(series((8, 64, 100.0), (16, 64, 98.0)), 8, 64)

    assert (found.throughput, found.low, found.high) == (800, None, None)


def test_one_host_alone_is_no_evidence_for_two() -> None:
    found = predict(series((1, 64, 100.0), (8, 64, 95.0)), 16, 64)

    assert found.throughput is None
    assert "no scale on more than one host was measured" in str(found.refused)


def test_devices_far_beyond_the_measured_ones_are_refused_with_the_scale_to_measure() -> None:
    found = predict(series((16, 64, 100.0), (32, 64, 98.0)), 1024, 64)

    assert found.refused is not None
    assert found.refusal is RefusalCode.TOO_FAR
    assert "more than 4 times the 32 that were measured" in found.refused
    assert found.refused.endswith("measure 256 or more")


def test_a_device_that_is_faster_on_more_hosts_is_refused_at_every_batch() -> None:
    odd = series((8, 32, 100.0), (16, 32, 130.0), (8, 64, 100.0), (16, 64, 95.0))

    for batch in (32, 64):
        assert "30% faster on 16 devices than on 8 at batch 32" in str(predict(odd, 32, batch).refused)


def test_a_smaller_batch_is_strong_scaling_and_loses_more_than_a_constant_cost_of_a_step() -> None:
    # A step costs 0.1 s, and 0.01 s a sample.
    measured = series((16, 64, 1 / (0.01 + 0.1 / 64)), (32, 32, 1 / (0.01 + 0.1 / 32)))

    found = predict(measured, 64, 24)

    assert found.model is ScalingModel.STRONG
    assert found.throughput is not None
    assert found.throughput < 64 / (0.01 + 0.1 / 24)


@pytest.mark.parametrize("batch", [4, 128])
def test_a_batch_outside_of_the_measured_ones_is_refused(batch: float) -> None:
    measured = series((16, 64, 100.0), (32, 32, 95.0))

    assert predict(measured, 64, batch).refusal is RefusalCode.BATCH_OUT_OF_RANGE


def test_a_batch_between_two_measured_ones_is_interpolated_on_each_scale() -> None:
    grid = [
        (n, batch, 1 / (0.01 + 0.1 / batch + extra))
        for n, extra in ((16, 0.0), (32, 0.0005))
        for batch in (32, 128)
    ]

    found = predict(series(*grid), 64, 64)

    assert found.model is ScalingModel.MANY_HOSTS
    assert found.throughput == pytest.approx(64 / (0.01 + 0.1 / 64 + 0.001))


def test_a_measured_scale_is_returned_as_measured() -> None:
    found = predict(series((16, 64, 100.0), (32, 64, 98.0)), 32, 64)

    assert found.model is ScalingModel.MEASURED
    assert found.throughput == pytest.approx(32 * 98.0)


def test_the_limit_is_the_largest_part_besides_computing() -> None:
    slow = series((1, 64, 100.0), (8, 64, 98.0), (16, 64, 70.0))

    assert predict(slow, 32, 64).limit is Limit.BETWEEN_HOSTS
    assert predict(series((16, 64, 100.0), (32, 64, 99.9)), 64, 64).limit is Limit.COMPUTE


def test_the_recorded_wait_for_data_is_named_as_the_limit() -> None:
    measured = series((1, 64, 100.0), (8, 64, 98.0), (16, 64, 70.0))
    waited = Term(limit=Limit.INPUT, share=0.25, sentence="the runs waited for data 25.0% of a step")
    *first, last = measured.scales

    found = predict(replace(measured, scales=(*first, replace(last, evidence=(waited,)))), 32, 64)

    assert found.limit is Limit.INPUT
    assert sum(term.share for term in found.terms) == pytest.approx(1.0, abs=0.01)


def test_the_knee_is_where_doubling_no_longer_pays() -> None:
    falling = series((8, 64, 100.0), (16, 64, 75.0))

    (found,) = predict_series(falling, [32]).knees

    assert found.devices == 8
    (none,) = predict_series(series((16, 64, 100.0), (32, 64, 99.0)), [64]).knees
    assert none.devices is None
    assert none.searched_to == 128


def test_measured_hosts_stay_when_the_devices_of_a_host_are_given() -> None:
    measured = series((4, 64, 100.0), (8, 64, 95.0), per_node=4)

    assert [scale.nodes for scale in with_hosts(measured, 8).scales] == [1, 2]


def test_a_program_of_no_known_model_is_predicted_by_its_name() -> None:
    stored = read_results(SCALING / "results.json")
    unknown = {"framework": "unknown", "model": "unknown", "precision": "unknown", "workload": "mine"}
    cases = tuple(
        case.model_copy(update={"case": case.case.model_copy(update=unknown)}) for case in stored.cases
    )

    names = {found.name for found in series_from_results(stored.model_copy(update={"cases": cases}))}

    assert names
    assert all(name.split()[0] == "mine" and "unknown" not in name for name in names)


def test_published_figures_of_one_configuration_are_one_series() -> None:
    (found,) = [
        one
        for one in series_from_references(published_sources()["dlperf-tensorflow"])
        if "fp32" in one.name and len(one.scales) > 3
    ]

    assert [scale.devices for scale in found.scales] == [1, 4, 8, 16, 32]
    assert all(scale.spread is not None for scale in found.scales)


def test_the_errors_on_published_tables_are_those_of_the_page() -> None:
    page = prediction_page.SECTION

    assert page.page(prediction_page.statements()) == page.path.read_text(encoding="utf-8")


def test_large_weak_and_strong_series_are_predicted_within_six_percent_and_the_interval() -> None:
    published = published_sources()
    names = ("llm-foundry", "tpu-recipes", "torchtitan-2024.12", "torchtitan-2025.06", "mlperf-5.0")
    sources = {name: series_from_references(published[name]) for name in names}
    found = [one for one in trials(sources) if one.error is not None]

    assert max(one.devices for one in found) == 8192
    assert len(found) > 30
    assert summarise(found).largest < 0.06  # type: ignore[operator]
    assert all(one.covered for one in found)
