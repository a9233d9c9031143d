"""Runs whose lines print no times, or times that leave out a part of the wall time: their arrival is the clock."""

from collections.abc import Callable
from pathlib import Path

import pytest

from command_logs import doubts, measure_command
from trainmark.cli.run_options import CommandOptions
from trainmark.measure import NotMeasurable
from trainmark.schema.measurement import Measurement

STEPS, STEP_S, BATCH = 600, 0.05, 32
VISION = (
    "Epoch: [0]  [{step:4}/600]  eta: 0:00:22  lr: 0.1  img/s: 640.00  loss: 6.9 (7.0)  acc1: 0.0 (0.1)  "
    "time: {step_s:.4f}  data: 0.0003\n"
)
VISION_HEAD = (
    "Not using distributed mode\nNamespace(amp=False, batch_size=32, model='resnet50', world_size=1)\n"
)


def measured(
    folder: Path,
    line: str,
    head: str = "",
    after: Callable[[int], float] = lambda _step: 0.0,
    steps: int = STEPS,
    aside: str = "",
) -> Measurement:
    """Measure a log whose steps print ``STEP_S`` seconds; after each the program does something else for a while.

    It prints ``aside`` about what takes a second or more.
    """
    now, pieces = 1e9, [(1e9 - 1, b""), (1e9 - 0.5, head.encode())]
    for step in range(steps):
        now += STEP_S
        pieces.append((now, line.format(step=step, step_s=STEP_S).encode()))
        now += after(step)
        pieces.append((now, aside.encode() if after(step) >= 1 else b""))
    return measure_command(folder, CommandOptions(), pieces)


def test_the_printing_that_a_program_leaves_out_of_its_times_is_in_the_number(tmp_path: Path) -> None:
    found = measured(tmp_path, VISION, VISION_HEAD, lambda _step: 0.018 * STEP_S)

    assert found.throughput == pytest.approx(BATCH / (1.018 * STEP_S), rel=2e-3)
    assert found.printed_throughput == pytest.approx(BATCH / STEP_S, rel=1e-6)
    assert not found.suspicions


def test_times_that_cover_the_whole_run_give_the_number(tmp_path: Path) -> None:
    found = measured(tmp_path, VISION, VISION_HEAD)

    assert found.throughput == pytest.approx(BATCH / STEP_S, rel=1e-6)
    assert found.printed_throughput is None


@pytest.mark.parametrize(
    "aside", ["Test: Acc@1 1.2 Acc@5 3.4\nTest: Total time 5 s\n", "saving checkpoint a.pth\n"]
)
def test_a_rare_validation_between_steps_is_not_in_the_number(tmp_path: Path, aside: str) -> None:
    found = measured(
        tmp_path, VISION, VISION_HEAD, lambda step: 5.0 if step % 300 == 250 else 0.0, aside=aside
    )

    assert found.throughput == pytest.approx(BATCH / STEP_S, rel=2e-3)
    assert found.paused_s == pytest.approx(10.0, rel=1e-2)
    assert not found.suspicions


@pytest.mark.parametrize("pause_s", [1.1, 5.0])
def test_a_pause_without_a_line_about_it_is_a_doubt(tmp_path: Path, pause_s: float) -> None:
    """One of just under a second is in the number, with a doubt."""
    found = measured(tmp_path, VISION, VISION_HEAD, lambda step: pause_s if step == 150 else 0.0, steps=300)

    assert found.throughput == pytest.approx(BATCH / STEP_S, rel=2e-3)
    assert "no line about a validation or a checkpoint for each" in doubts(found)["pauses"]
    assert set(doubts(found)) == {"pauses"}


def test_a_single_stall_is_named_as_the_cause(tmp_path: Path) -> None:
    found = measured(tmp_path, VISION, VISION_HEAD, lambda step: 0.9 if step == 150 else 0.0, steps=200)

    assert "0.9 s of it before a single record" in doubts(found)["untimed"]


def test_a_stall_between_steps_is_in_the_number(tmp_path: Path) -> None:
    line = "step {step} loss 4.0 {step_s:.4f} s/step\n"

    found = measured(tmp_path, line, after=lambda step: 0.1 * STEP_S + (0.4 if step % 100 == 99 else 0.0))

    assert found.window_s is not None
    assert found.throughput == pytest.approx(found.measured_steps / found.window_s, rel=2e-3)
    assert "witnesses-disagree" not in doubts(found)


def test_much_time_between_the_steps_is_in_the_number_and_a_doubt(tmp_path: Path) -> None:
    found = measured(tmp_path, VISION, VISION_HEAD, lambda _step: 0.5 * STEP_S)

    assert found.throughput == pytest.approx(BATCH / (1.5 * STEP_S), rel=2e-3)
    assert set(doubts(found)) == {"untimed"}
    assert "the printed times leave out 33.3% of the window" in doubts(found)["untimed"]
    assert "by the printed times it is 640" in doubts(found)["untimed"]


def test_frequent_pauses_between_the_steps_are_a_doubt(tmp_path: Path) -> None:
    """They may be a validation, or the wait for a loader that delivers many batches at once."""
    found = measured(tmp_path, VISION, VISION_HEAD, lambda step: 3.0 if step % 100 == 99 else 0.0)

    assert found.throughput == pytest.approx(BATCH / STEP_S, rel=2e-3)
    assert "before 5 of 28 records the program pauses, for 35% of the window" in doubts(found)["pauses"]


BARE = "step {step} loss 4.0\n"


def test_a_program_without_times_is_tested_for_a_slowdown(tmp_path: Path) -> None:
    found = measured(tmp_path, BARE, after=lambda step: STEP_S * step / STEPS)

    assert found.steadiness.steady is False
    assert [one.off for one in found.steadiness.levels] == sorted(one.off for one in found.steadiness.levels)
    last = found.steadiness.levels[-1]
    assert last.first + last.steps <= found.measured_steps


def test_even_steps_without_times_are_steady(tmp_path: Path) -> None:
    assert measured(tmp_path, BARE).steadiness.steady is True


def test_fast_steps_that_arrive_several_at_once_are_tested_in_groups(tmp_path: Path) -> None:
    found = measured(tmp_path, BARE, after=lambda step: -0.9 * STEP_S if step < 300 else -0.85 * STEP_S)

    assert found.steadiness.steady is False
    assert 260 <= found.steadiness.levels[-1].first <= 320


def test_a_window_of_buffered_records_begins_and_ends_with_a_burst(tmp_path: Path) -> None:
    bursts = ["".join(BARE.format(step=60 * burst + step) for step in range(60)) for burst in range(6)]
    pieces = [(1e9 + 0.6 * at, text.encode()) for at, text in enumerate(["", *bursts])]

    found = measure_command(tmp_path, CommandOptions(), pieces)

    # The records after the first 20 are not all computed after the 20th, with which the whole burst arrived.
    assert found.throughput == pytest.approx(100, rel=1e-3)
    assert (found.warmup_steps, found.measured_steps) == (60, 300)
    assert "buffered-output" in doubts(found)
    assert "stall" not in doubts(found)


@pytest.mark.parametrize(("step_s", "coarse"), [(0.001, True), (0.01, False)])
def test_a_window_of_few_arrivals_is_a_doubt(tmp_path: Path, step_s: float, coarse: bool) -> None:
    found = measured(tmp_path, BARE, after=lambda _step: step_s - STEP_S)

    assert found.throughput == pytest.approx(1 / step_s, rel=0.02)
    assert ("is accurate only to 1.7%" in doubts(found).get("short-window", "")) is coarse


@pytest.mark.parametrize(
    "line",
    [
        "[rank0] step {step} loss 4.0 step_time {step_s:.4f} s\nval_loss 4.1\n",
        "[rank0] step {step} loss 4.0 step_time {step_s:.4f} s\nEvaluating: done\n",
        "Epoch {step}: train_loss 4.0, 20.0 images/s\n",
    ],
)
def test_a_validation_after_each_line_is_no_part_of_the_steps(tmp_path: Path, line: str) -> None:
    found = measured(tmp_path, line, after=lambda _step: 0.04 * STEP_S)

    assert found.throughput == pytest.approx(1 / STEP_S, rel=2e-3)
    assert found.printed_throughput is None


def test_a_log_of_an_unknown_format_that_ends_with_an_error_is_called_that(tmp_path: Path) -> None:
    """Its lines do count steps: it was called a log without an increasing counter."""
    pieces = [(1e9 - 1, b""), *((1e9 + step, f"step {step} loss 4.0\n".encode()) for step in range(60))]
    pieces.append((1e9 + 60, b"Traceback (most recent call last):\nRuntimeError: CUDA out of memory\n"))

    with pytest.raises(NotMeasurable, match="is oom: the run ran out of memory: RuntimeError"):
        measure_command(tmp_path, CommandOptions(), pieces)


def test_lines_of_different_batches_give_the_reason_and_not_that_they_do_not_count(tmp_path: Path) -> None:
    lines = (f"step {step} loss 4.0 batch_size {16 if step < 30 else 32}\n" for step in range(60))
    pieces = [(1e9 - 1, b""), *((1e9 + at, line.encode()) for at, line in enumerate(lines))]

    with pytest.raises(NotMeasurable, match="'step N loss N batch_size…' are of different batches"):
        measure_command(tmp_path, CommandOptions(), pieces)
