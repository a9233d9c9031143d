"""Other people's programs: what they print is read by the format and the rule that their card names."""

import pytest

from fakes import Bench
from trainmark.logs.synthetic import Run
from trainmark.programs import synthetic_log
from trainmark.words.outcome import Outcome
from trainmark.words.results import RunResult

PRINT_THE_LOG = "from pathlib import Path\nprint(Path(__file__).with_name('log.txt').read_text())\n"


def measured(bench: Bench, log: str, devices: int = 1, batch: int = 4, **card: object) -> RunResult:
    (bench.folder / "program").mkdir()
    (bench.folder / "program" / "train.py").write_text(PRINT_THE_LOG)
    (bench.folder / "program" / "log.txt").write_text(log)
    source = {"kind": "folder", "path": "program"}
    bench.write(
        {"devices_per_node": devices, "batch_per_device": batch},
        card={"source": source, "command": ["{source}/train.py"], "options": {}, "axes": AXES, **card},
    )
    return bench.run().cases[0].runs[0]


AXES: dict[str, object] = {"model": {}, "batch_per_device": {}, "devices_per_node": {}, "device": {}}


@pytest.fixture
def timm_log() -> str:
    return synthetic_log("timm", Run(step_times_s=[0.5] * 60, gpus=1, batch_per_device=4, interval=1))


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
    assert run.reason == "train.log is of format 'timm', and the card says 'paddleclas'"


def test_a_program_that_prints_no_log_is_no_measurement(bench: Bench) -> None:
    run = measured(bench, "nothing to see", log_format="timm")
    assert run.outcome is Outcome.INVALID
    assert run.measurement is None
