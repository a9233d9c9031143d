"""Logs whose lines read like another number: each gives the right one, a doubt, or none."""

import json
from typing import Any

import pytest
from conftest_logs import Reader

from trainmark.logs import ParsedLog, Severity, Status
from trainmark.measure.rules import measure_log


def _doubts(log: ParsedLog) -> set[str]:
    result = measure_log(log)
    return {p.code for p in (*log.problems, *result.problems) if p.severity is Severity.DOUBT}


def _sound(log: ParsedLog) -> float | None:
    """Return the number of a log that has one and no doubt about it."""
    assert (log.status, _doubts(log)) == (Status.OK, set())
    return measure_log(log).value


def _mlperf(*events: tuple[str, float, object, dict[str, Any]]) -> str:
    lines = (
        ":::MLLOG "
        + json.dumps(
            {"namespace": "", "time_ms": 1000 * seconds, "key": key, "value": value, "metadata": about}
        )
        for key, seconds, value, about in events
    )
    return "\n".join((*lines, ""))


def _run_of(
    benchmark: str, samples: int, *blocks: tuple[dict[str, Any], dict[str, Any]], pause: int = 0
) -> Any:
    """Return the events of a run of ``blocks`` (what their start and their stop say) of 100 s each."""
    step = 100 + pause
    head = [
        ("submission_benchmark", 0, benchmark, {}),
        ("global_batch_size", 0, 64, {}),
        ("train_samples", 5, samples, {}),
    ]
    inner = [
        event
        for n, (start, stop) in enumerate(blocks)
        for event in (
            ("block_start", 100 + n * step, None, start),
            ("block_stop", 200 + n * step, None, stop),
        )
    ]
    end = ("run_stop", 100 + len(blocks) * step, None, {"status": "success"})
    return [*head, ("run_start", 100, None, {}), *inner, end]


_PART = {"first_epoch_num": 0, "epoch_count": 1}


@pytest.mark.parametrize(
    "blocks",
    [
        [({"step_num": 50 * n}, {"step_num": 50 * n}) for n in range(9)],
        [({**_PART, "step_num": 50 * n}, {"first_epoch_num": 0, "step_num": 50 * n + 50}) for n in range(9)],
        [({"first_step_num": 50 * n + 1}, {"first_step_num": 50 * n + 1, "step_count": 50}) for n in range(9)],
        [({**_PART, "step_num": 50 * n}, {"first_epoch_num": 0, "step_num": 50 * n, "step_count": 50}) for n in range(9)],
    ],
    ids=["steps", "parts-of-an-epoch", "step-counts", "one-epochs-parts"],
)  # fmt: skip
def test_blocks_of_steps_count_batches_and_not_data_sets(read: Reader, blocks: list[Any]) -> None:
    log = read(_mlperf(*_run_of("stable_diffusion", 6_513_144, *blocks)))

    assert _sound(log) == pytest.approx(50 * 64 / 100)


def test_an_epoch_count_that_counts_sequences_makes_no_number(read: Reader) -> None:
    blocks = [
        ({"first_epoch_num": n * 24576, "epoch_count": 24576}, {"first_epoch_num": n * 24576})
        for n in range(9)
    ]

    assert measure_log(read(_mlperf(*_run_of("gpt3", 1_574_207_408, *blocks)))).value is None


@pytest.mark.parametrize(("benchmark", "number"), [("bert", False), ("dlrm_dcnv2", True)])
def test_an_only_epoch_that_the_runs_end_cut_is_not_believed_whole(
    read: Reader, benchmark: str, number: bool
) -> None:
    log = read(
        _mlperf(
            *_run_of(benchmark, 2_000_000, ({"first_epoch_num": 1, "epoch_count": 1}, {"first_epoch_num": 1}))
        )
    )

    assert (measure_log(log).value is not None) is number
    assert "epoch-unfinished" in _doubts(log)


def test_samples_that_are_said_in_the_first_of_many_epochs_are_of_each(read: Reader) -> None:
    blocks = [({"first_epoch_num": n, "epoch_count": 1}, {"first_epoch_num": n}) for n in range(1, 10)]
    head, *events = _run_of("resnet", 1_281_167, *blocks)
    late = sorted((head, *events), key=lambda event: (event[1], event[0] != "block_stop"))
    moved = [(key, 101 if key == "train_samples" else at, value, about) for key, at, value, about in late]

    assert _sound(read(_mlperf(*moved))) == pytest.approx(12_811.67)


def test_evaluation_between_blocks_is_not_in_their_time(read: Reader) -> None:
    blocks = [({"samples_count": n * 384}, {"samples_count": n * 384 + 384}) for n in range(9)]

    assert _sound(read(_mlperf(*_run_of("llama2_70b_lora", 3901, *blocks, pause=30)))) == pytest.approx(3.84)


def test_two_results_of_one_benchmark_in_a_file_are_two_runs(read: Reader) -> None:
    run = _run_of(
        "resnet",
        1_281_167,
        *[({"first_epoch_num": n, "epoch_count": 1}, {"first_epoch_num": n}) for n in range(9)],
    )
    slower = [(key, 10_000 + 2 * at, value, about) for key, at, value, about in run]

    log = read(_mlperf(*run, *slower))

    assert (log.status, measure_log(log).value) == (Status.INVALID, None)
    assert "several-runs" in _doubts(log)


_TRAINING = """***** Running training *****
  Num examples = 10,000
  Num Epochs = 10
  Instantaneous batch size per device = 8
  Total train batch size (w. parallel, distributed & accumulation) = 64
  Gradient Accumulation steps = 1
  Total optimization steps = {steps}
"""
_SUMMARY = (
    "{{'train_runtime': 300.0, 'train_samples_per_second': 333.3, "
    "'train_steps_per_second': {rate}, 'epoch': {epoch}}}\n"
)


def _bar(step: int, seconds: int, steps: int = 1570) -> str:
    return f" {100 * step // steps}%|███  | {step}/{steps} [{seconds // 60:02d}:{seconds % 60:02d}<11:40,  1.57it/s]\n"


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        (_TRAINING.format(steps=1570) + _SUMMARY.format(rate=5.233, epoch=3.0), "stopped-early"),
        (_bar(1, 0) + _bar(471, 300) + _SUMMARY.format(rate=5.233, epoch=3.0), "stopped-early"),
        (_bar(1001, 1) + _bar(1570, 300) + _SUMMARY.format(rate=5.233, epoch=10.0), "resumed"),
        (_TRAINING.format(steps=1570) + _SUMMARY.format(rate=5.233, epoch=10.0), None),
        (_TRAINING.format(steps=500) + _SUMMARY.format(rate=1.667, epoch=3.18), None),
        (_bar(1, 0) + _bar(1570, 300) + _SUMMARY.format(rate=5.233, epoch=10.0), None),
    ],
    ids=["epochs", "bar", "bar-begins-late", "whole", "max-steps", "whole-by-bar"],
)
def test_a_summary_that_counts_what_was_not_trained_is_a_doubt(
    read: Reader, text: str, doubt: str | None
) -> None:
    assert _doubts(read(text)) == ({doubt} if doubt else set())


def test_an_evaluation_in_the_middle_of_a_long_bar_is_found(read: Reader) -> None:
    bars = "".join(_bar(step, step // 100, 30_000) for step in range(1, 30_001))
    evaluation = "{'eval_loss': 0.5, 'eval_runtime': 150.0, 'eval_samples_per_second': 800.0, 'epoch': 1.0}\n"
    half = len(bars) // 2

    log = read(bars[:half] + "\n" + evaluation + bars[half:] + _SUMMARY.format(rate=100.0, epoch=3.0))

    assert _doubts(log) == {"evaluation-included"}


def test_the_batch_is_that_of_the_training_that_ran(read: Reader) -> None:
    tried = _TRAINING.format(steps=1570).replace(" = 8\n", " = 32\n").replace(" = 64\n", " = 256\n")

    log = read(tried + _TRAINING.format(steps=1570) + _SUMMARY.format(rate=5.233, epoch=10.0))

    assert (log.facts.batch_per_device, log.facts.global_batch) == (8, 64)
