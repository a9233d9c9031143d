"""What-if: a rate on another device is an estimate between two limits, with the model's error, or refused."""

import json
from pathlib import Path

import pytest

from trainmark.cli.main import main
from trainmark.measure.device_peaks import find_peak
from trainmark.prediction import DeviceFigure, published_error, what_if
from trainmark.reference import load_references

RESULTS = Path(__file__).parents[2] / "docs" / "results" / "h200"
FIGURE = DeviceFigure("case", "tokens/s", 8, "H100", "bf16", 1000.0)


def test_the_estimate_is_between_the_ratios_of_both_peaks() -> None:
    here, there = find_peak("H100"), find_peak("A100")
    assert here is not None
    assert there is not None
    (found,) = what_if([FIGURE], "A100", "", None).figures
    compute = (there.bf16_tflops or 0) / (here.bf16_tflops or 1)
    memory = (there.bandwidth_gb_per_s or 0) / (here.bandwidth_gb_per_s or 1)
    assert (found.low, found.high) == pytest.approx(sorted((1000 * compute, 1000 * memory)))
    assert found.estimate == pytest.approx(1000 * memory)


def test_the_way_there_and_back_gives_the_same_rate() -> None:
    (there,) = what_if([FIGURE], "A100", "", None).figures
    assert there.estimate is not None
    back = DeviceFigure("case", "tokens/s", 8, "A100", "bf16", there.estimate)
    assert what_if([back], "H100", "", None).figures[0].estimate == pytest.approx(1000.0)


@pytest.mark.parametrize(
    ("device", "precision", "problem"),
    [("AbacusX", "bf16", "peaks of AbacusX"), (None, "bf16", "its device"), ("V100", "bf16", "in bf16")],
)
def test_an_unknown_peak_is_refused_and_no_number(device: str | None, precision: str, problem: str) -> None:
    figure = DeviceFigure("case", "tokens/s", 8, device, precision, 1000.0)
    (found,) = what_if([figure], "A100", "", None).figures
    assert found.estimate is None
    assert problem in (found.reason or "")


def test_the_error_on_published_pairs_is_what_the_manual_gives() -> None:
    error = published_error(load_references())
    assert error is not None
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "predict.md").read_text(encoding="utf-8")
    given = (
        f"{error.pairs} pairs: {error.median:.0%} at the median, {error.ninetieth:.0%} at the 90th percentile"
    )
    assert given in page
    assert f"{error.within:.0%} lie" in page


def test_the_verb_prints_the_error_with_the_estimates(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(RESULTS), "--on", "A100"]) == 0
    text = capsys.readouterr().out
    assert "not a measurement" in text
    assert "at the 90th percentile" in text


def test_the_report_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(
        ["predict", "llm-foundry", "--on", "H200", "--only", "model=mpt_7b,device=H100", "--json"]
    ) in (0, 1)
    found = json.loads(capsys.readouterr().out)
    assert found["schema_name"] == "trainmark.what-if/1"
    assert found["target"].startswith("H200")
    assert all((one["estimate"] is None) == (one["reason"] is not None) for one in found["figures"])


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "give --devices"),
        (["--on", "A100", "--devices", "8"], "give --devices"),
        (["--on", "A10O"], "did you mean 'A100'?"),
    ],
)
def test_a_question_that_makes_no_sense_is_one_line(
    words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", "llm-foundry", *words]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1
