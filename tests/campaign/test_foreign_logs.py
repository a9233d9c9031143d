"""Other people's programs: what they print is read by the format and the rule that their card names."""

from collections.abc import Mapping
from typing import Any

import pytest

from fakes import Bench
from trainmark.logs.synthetic import SampleRun
from trainmark.programs import synthetic_log
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import RunResult

PRINT_THE_LOG = "from pathlib import Path\nprint(Path(__file__).with_name('log.txt').read_text())\n"


def measured(
    bench: Bench,
    log: str,
    devices: int = 1,
    batch: int = 4,
    case: Mapping[str, Any] | None = None,
    **card: object,
) -> RunResult:
    (bench.folder / "program").mkdir()
    (bench.folder / "program" / "train.py").write_text(PRINT_THE_LOG)
    (bench.folder / "program" / "log.txt").write_text(log)
    source = {"kind": "folder", "path": "program"}
    bench.write(
        {"devices_per_node": devices, "batch_per_device": batch, **(case or {})},
        card={"source": source, "command": ["{source}/train.py"], "options": {}, "axes": AXES, **card},
    )
    return bench.run().cases[0].runs[0]


AXES: dict[str, object] = {"model": {}, "batch_per_device": {}, "devices_per_node": {}, "device": {}}


@pytest.fixture
def timm_log() -> str:
    return synthetic_log("timm", SampleRun(step_times_s=[0.5] * 60, gpus=1, batch_per_device=4, interval=1))


def test_a_foreign_log_is_measured_by_the_reader_that_the_card_names(bench: Bench, timm_log: str) -> None:
    run = measured(bench, timm_log, log_format="timm", rule="median")
    assert run.outcome is Outcome.OK, run.reason
    assert run.measurement is not None
    assert run.measurement.rule == "median-skip-10"
    assert run.measurement.throughput == pytest.approx(4 / 0.5, rel=0.01)
    assert (run.measurement.samples, run.measurement.window_s) == (None, None)


def test_a_log_of_another_format_than_the_card_says_is_no_measurement(bench: Bench, timm_log: str) -> None:
    run = measured(bench, timm_log, log_format="paddleclas")
    assert run.outcome is Outcome.INVALID
    assert run.reason == "train.log has the format 'timm', but the card states 'paddleclas'"


def test_a_program_that_prints_no_log_is_no_measurement(bench: Bench) -> None:
    run = measured(bench, "nothing to see", log_format="timm")
    assert run.outcome is Outcome.INVALID
    assert run.measurement is None


def test_a_pattern_that_takes_too_long_costs_its_own_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainmark.programs.reading._BOUND_S", 0.2)
    lines = [f"step {number} {'a' * 3000} 12.5 images\n" for number in range(40)]
    pattern = "step {step} .*a.*a.*a.*a.*b {rate} images"

    run = measured(
        bench, "".join(lines), log_format={"title": "slow", "unit": "images/s", "records": [pattern]}
    )

    assert run.outcome is Outcome.INVALID
    assert run.reason is not None
    assert "took more than 0.2 s of CPU time" in run.reason


IMAGENET = "=> creating model '{model}'\n" + "".join(
    f"Epoch: [0][{step}/60]\tTime  0.500 ( 0.500)\tData  0.001 ( 0.001)\tLoss 6.9e+00 (6.9e+00)\t"
    "Acc@1   0.00 (  0.00)\tAcc@5   0.00 (  0.00)\n"
    for step in range(60)
)
BOTH_METHODS = {"values": {"good": [], "resnet50_v1.5": ["--arch=resnet50_d"]}}


def doubts_of(bench: Bench, log: str, **settings: Any) -> dict[str, str]:
    run = measured(bench, log, **settings)
    assert run.outcome is Outcome.OK, run.reason
    return {doubt.code: doubt.sentence for doubt in run.suspicions if doubt.code.endswith("-differs")}


def ngc(**facts: Any) -> str:
    return synthetic_log("ngc-pytorch-convnets", SampleRun(step_times_s=[0.5] * 120, interval=1, **facts))


def test_a_log_of_another_model_than_the_case_asks_is_in_doubt(bench: Bench) -> None:
    settings = {"log_format": "pytorch-imagenet", "rule": "median"}
    found = doubts_of(bench, IMAGENET.format(model="vgg16"), case={"model": "resnet50_v1.5"}, **settings)
    assert found["model-differs"] == "the log says model vgg16; the case requests resnet50_v1.5"


def test_a_cards_own_word_for_its_programs_only_model_is_contradicted_by_none(bench: Bench) -> None:
    log = IMAGENET.format(model="linear")
    assert doubts_of(bench, log, log_format="pytorch-imagenet", rule="median") == {}


@pytest.mark.parametrize("word", ["resnet50", "ResNet50_v1.5", "resnet50_d"])
def test_a_model_by_its_programs_own_name_is_none(bench: Bench, word: str) -> None:
    axes = {**AXES, "model": BOTH_METHODS}
    case = {"model": "resnet50_v1.5"}
    log = IMAGENET.format(model=word)
    settings = {"log_format": "pytorch-imagenet", "rule": "median", "axes": axes}
    assert "model-differs" not in doubts_of(bench, log, case=case, **settings)


NGC: dict[str, Any] = {
    "log_format": "ngc-pytorch-convnets",
    "rule": "median",
    "axes": {**AXES, "precision": {}, "layout": {}},
}


def test_every_fact_in_which_a_log_contradicts_its_case_is_reported(bench: Bench) -> None:
    log = ngc(gpus=2, batch_per_device=8, amp=True)
    case = {"model": "resnet50_v1.5", "layout": "nhwc"}
    assert doubts_of(bench, log, case=case, **NGC) == {
        "precision-differs": "the log says precision amp-fp16; the case requests fp32",
        "batch-per-device-differs": "the log says batch per device 8; the case requests 4",
        "world-size-differs": "the log says world size 2; the case requests 1",
        "layout-differs": "the log says layout nchw; the case requests nhwc",
    }


def test_single_precision_contradicts_mixed_precision_and_neither_fp32_nor_tf32(bench: Bench) -> None:
    log, case = ngc(gpus=1, batch_per_device=4), {"model": "resnet50_v1.5"}
    for precision, reported in (
        (
            "amp-bf16",
            {"precision-differs": "the log says precision fp32 or tf32; the case requests amp-bf16"},
        ),
        ("fp32", {}),
        ("tf32", {}),
    ):
        inner = Bench(bench.folder / precision)
        inner.folder.mkdir()
        assert doubts_of(inner, log, case={**case, "precision": precision}, **NGC) == reported


def test_a_batch_that_a_program_cuts_is_held_whole_against_its_case(bench: Bench) -> None:
    # The log has 16 sequences a part and 4 parts.
    log = synthetic_log("ngc-pytorch-bert", SampleRun([0.5] * 60, gpus=1, batch_per_device=64))
    axes = {**AXES, "accumulation": {}, "optimizer": {}}
    settings = {"log_format": "ngc-pytorch-bert", "task": "masked-lm", "axes": axes}
    for batch, reported in ((64, {}), (16, {"batch-per-device-differs"})):
        inner = Bench(bench.folder / str(batch))
        inner.folder.mkdir()
        case = {"model": "bert_base", "accumulation": 4, "optimizer": "lamb"}
        assert set(doubts_of(inner, log, batch=batch, case=case, **settings)) == set(reported)


def test_what_a_log_does_not_say_contradicts_nothing(bench: Bench, timm_log: str) -> None:
    lines = "\n".join(line for line in timm_log.splitlines() if line.startswith("Train"))
    assert doubts_of(bench, lines, log_format="timm", rule="median") == {}


def test_a_card_may_describe_the_format_of_its_programs_log(bench: Bench) -> None:
    log = "".join(
        f"2026-03-01 12:{at // 60:02}:{at % 60:02} done {at} at 8.0 img/s now\n" for at in range(1, 61)
    )
    described = {"title": "mine", "unit": "images/s", "records": [r"{stamp} done {step} at {rate} img/s"]}

    run = measured(bench, log, log_format=described)

    assert run.outcome is Outcome.OK, run.reason
    assert run.measurement is not None
    assert (run.measurement.throughput, run.measurement.unit) == (8.0, "images/s")
