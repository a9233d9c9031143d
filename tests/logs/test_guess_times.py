"""Times and speeds of everyday loops: since an epoch's start, in letters, minutes and hours; per minute and hour."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from guess_logs import ONE_DEVICE, guessed_row, lines_of_steps

from trainmark.logs import Facts
from trainmark.logs.guess.families import rises_in_parts


def _epochs(form: Callable[[int, int, float], str]) -> str:
    """Return lines after 10 steps of 200 in each of 5 epochs: of the epoch, the step in it, and the seconds in it."""
    return "".join(f"{form(epoch, at, at * 0.5)}\n" for epoch in range(1, 6) for at in range(10, 201, 10))


@pytest.mark.parametrize(
    "form",
    [
        lambda epoch, at, s: f"Epoch {epoch} | Batch {at}/200 | Loss 2.1{at:03} | Time {s:.2f}s",
        lambda epoch, at, s: f"epoch {epoch} step {200 * epoch + at} loss 2.1{at:03} time {s:.2f}",
        lambda epoch, at, s: f"epoch {epoch} step {200 * epoch + at} loss 2.1{at:03} elapsed {s:.2f}s",
        lambda epoch, at, s: f"[{epoch}, {at}] loss: 2.1{at:03} time: {s:.1f}",
        lambda epoch, at, s: (  # notebooks of Kaggle
            f"Epoch: [{epoch}][{at}/200] Elapsed {int(s) // 60}m {int(s) % 60}s (remain 3m {at % 60}s) "
            f"Loss: 2.1{at:03}(2.2) Grad: 1.2  LR: 0.00002"
        ),
    ],
)
def test_a_time_that_rises_in_each_epoch_is_that_since_its_start(
    tmp_path: Path, form: Callable[[int, int, float], str]
) -> None:
    row = guessed_row(tmp_path, _epochs(form), ONE_DEVICE)
    assert row["throughput"] == pytest.approx(32, rel=0.01)
    assert {problem["code"] for problem in row["problems"]} <= {"guessed", "incomplete", "between-epochs"}


@pytest.mark.parametrize(
    ("form", "value"),
    [
        (lambda at: f"step {5 * at} loss 2.1 time {5 * at // 2}s", 32),
        (lambda at: f"step {10 * at} loss 2.1 elapsed {at * 5 / 60:.2f} min", 32),
        (lambda at: f"step {10 * at} loss 2.1 time {at * 5 / 60:.2f}m", 32),
        (lambda at: f"step {100 * at} loss 2.1 elapsed {at / 72:.3f} hours", 32),
        (lambda at: f"step {10 * at} loss 2.1 elapsed {at * 5 // 60}m{at * 5 % 60:02}s", 32),
        (lambda at: f"[{at // 720}h {at // 12:02}m {at * 5 % 60:02}s] iter {10 * at} loss 2.1", 32),
        (lambda at: f"iter={at} loss=2.1 dt=00:00:0{4 + at % 2} eta=00:10:0{at % 10}", 16 / 4.5),  # llama.cpp
        (lambda at: f"step {at} loss 2.1 images/min: {1920 + at % 3}", 32),
        (lambda at: f"step {at} loss 2.1 speed 115,2{at % 10:02} samples/hour", None),
        (lambda at: f"step {at} loss 2.1 speed {115200 + at % 9} samples/hour", 32),
        (lambda at: f"step {at} loss 2.1 ({120 + at % 2} steps/min)", 32),
        (lambda at: f"step {at} loss 2.1 {1.92 + at % 3 / 1000:.3f}k images/min", 32),
        (lambda at: f"step {at} loss 2.1 {2765 + at % 3} images/day", None),
        (lambda at: f"Steps : {10 * at}, Gen Loss Total : 45.1, Mel-Spec. Error : 0.5, s/b : 0.50{at % 9}", 32),
        (lambda at: f"iter {10 * at} loss 2.1 time_avg 0.5{at % 2} time_diff 0.4{at % 3}", 16 / 0.41),
        (lambda at: f"[proc 0]({10 * at}/90000) loss: 2.1\n[proc 0] 10 steps take 5.00{at % 9} seconds", 32),
        (lambda at: f"step {at}, lr=0.1 policy=1.2 total=2.1{at % 9} ({32 + at % 3 / 10} pos/s)", 32.1),
        (lambda at: f'{{"eta": "1 day, 2:03:{at % 60:02}", "iter": {10 * at}, "loss": 2.1, "time": 0.50{at % 9}}}', 32),
        (lambda at: f"step {at} loss 2.1 thousand tokens/s: 0.033{at % 3}", 33),
        (lambda at: f"step {at} loss 2.1 tokens/s (x1000): 0.033{at % 3}", 33),
        (lambda at: f"step {at} loss 2.1 tok/s (global, 8 GPUs): {3200 + at % 3}", None),
        (lambda at: f"步数 {at}/1000 损失 2.1{at:02} 速度 {32 + at % 3 / 10:.1f} 样本/秒", 32.1),
        (lambda at: f"[训练] 迭代: {10 * at}, 损失: 2.1{at:02}, 每步耗时: 0.50{at % 9}秒", 32),
        (lambda at: f"训练轮次 1 步 {at}，损失：2.1{at:02}，用时：500.{at % 9} 毫秒", 32),
        (lambda at: f"loss 2.1{at:02} | {32 + at % 3 / 10:.1f} samples/s", 32.1),
        (lambda at: f"loss 2.1{at:02} | step time 0.50{at % 9} s", 32),
        (lambda at: f"epoch 1.{at:02} loss 2.1{at:02} | step time 0.50{at % 9} s", None),
        (lambda at: f"Step {10 * at}/900 | loss: 2.1{at:02} | 5.0{at % 9} s/10 steps", 32),
        (lambda at: f"iter {10 * at} loss 2.1{at:02} (5.0{at % 9}s per 10 steps)", 32),
        (lambda at: f"step {10 * at} | loss 2.1 | tokens {at * 160 / 1e3:.2f}K | elapsed {5 * at}.0s", 32),
        (lambda at: f"step {at} loss 2.1{at:02} (0.50{at % 9}s)", 32),
        (lambda at: f"INFO:__main__:iteration {at}: loss 2.1{at:02}, 0.50{at % 9} secs", 32),
        (lambda at: f"it={at},loss=2.1{at:02},t=50{at % 9}.1ms", 32),
        (lambda at: f"step {at} loss 2.1 Mtok/s=0.00033{at % 3}", 330),
    ],
)  # fmt: skip
def test_times_and_speeds_are_read_in_their_unit(
    tmp_path: Path, form: Callable[[int], str], value: float | None
) -> None:
    given = None if "images/min" in form(1) else ONE_DEVICE
    row = guessed_row(tmp_path, lines_of_steps(form), given)
    assert row["throughput"] == (value if value is None else pytest.approx(value, rel=0.03))


@pytest.mark.parametrize(
    "form",
    [
        lambda at: f"Epoch {at}/80, Train Loss: 2.1{at:02}, Val Loss: 2.2, Time: 30.{at % 9}s",
        lambda at: f"Epoch {at} - avg_train_loss: 2.1{at:02}  avg_val_loss: 2.2  time: {30 + at % 2}s",
        lambda at: f"Epoch {at}/80 loss 2.1{at:02} (0.50{at % 3} min)",
        lambda at: f"Epoch {at}/80 loss 2.1{at:02} took 0:00:{30 + at % 2}",
        lambda at: (
            f"Epoch: {at:02} | Epoch Time: 0m {30 + at % 2}s\n\tTrain Loss: 2.1{at:02} | Train PPL:  12.3"
        ),
        lambda at: f"epoch {at} loss 2.1{at:02} train_time 30.{at % 9} val_time 4.{at % 9}",
        lambda at: f"Epoch {at:05} | Time(s) 30.{at % 9:04} | Loss 2.1 | ETputs(KTEPS) 872.40",  # DGL
        lambda at: (  # fastai
            ("epoch     train_loss  valid_loss  accuracy  time\n" if at == 1 else "")
            + f"{at:<10}2.1{at:03}      2.2{at:03}      0.9{at:03}    00:{30 + at % 2}"
        ),
        lambda at: (  # skorch
            (
                "  epoch    train_loss    valid_loss      dur\n-------  ------------  ------------  -------\n"
                * (at == 1)
            )
            + f"{at:7}        2.1{at:03}        2.2{at:03}  30.{at % 9}"
        ),
    ],
)
def test_the_time_of_an_epoch_is_that_of_the_samples_that_are_given(
    tmp_path: Path, form: Callable[[int], str]
) -> None:
    text = lines_of_steps(form)
    row = guessed_row(tmp_path, text, Facts(gpus=1, batch_per_device=50_000))
    assert row["throughput"] == pytest.approx(50_000 / 30.5, rel=0.03)
    assert "an epoch counts as one step, whose samples --batch must be" in row["problems"][0]["message"]
    assert guessed_row(tmp_path, text)["throughput"] is None


def test_of_a_micro_step_and_a_step_the_step_counts(tmp_path: Path) -> None:
    text = lines_of_steps(
        lambda at: f"micro_step {40 * at} global_step {10 * at} loss 2.1 step_time 2.00{at % 9}"
    )
    row = guessed_row(tmp_path, text, Facts(gpus=1, batch_per_device=64))
    assert row["throughput"] == pytest.approx(32, rel=0.01)
    assert "'global_step' counts steps" in row["problems"][0]["message"]


def test_a_long_time_without_its_unit_may_be_in_milliseconds(tmp_path: Path) -> None:
    row = guessed_row(
        tmp_path, lines_of_steps(lambda at: f"step {at} loss 2.1 step_time 512.{at % 9}"), ONE_DEVICE
    )
    assert "if it is in ms, they are 1000 times as fast" in row["problems"][0]["message"]


def test_a_mean_that_rises_is_no_clock() -> None:
    at = np.arange(1.0, 60)
    assert rises_in_parts(at)
    assert rises_in_parts(np.tile(at, 3))
    assert not rises_in_parts(1 - 0.5 / at)
    assert not rises_in_parts(np.full(60, 0.5))
