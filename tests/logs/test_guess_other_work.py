"""Bars and rates of evaluation, or of the preparation of data, are no speed of the training that follows."""

from pathlib import Path

import pytest
from guess_logs import ONE_DEVICE, guessed_row, lines_of_steps


def _bar(words: str, total: int, pace_s: float, *, unit: str = "it", step: int = 1) -> str:
    """Return the drawings of a bar that counts up to ``total`` in ``pace_s`` each."""
    before = f"{words}: " if words else ""
    return "".join(
        f"\r{before}{100 * at // total:3}%|###   | {at}/{total} "
        f"[{int(at * pace_s) // 60:02}:{int(at * pace_s) % 60:02}<00:10, {1 / pace_s:.2f}{unit}/s]"
        for at in range(1, total + 1, step)
    )


@pytest.mark.parametrize("unit", ["it", " examples"])
@pytest.mark.parametrize(
    "words",
    [  # datasets, TRL, the examples of transformers, and loops of one's own
        "Tokenizing train dataset",
        "Adding EOS to train dataset",
        "Converting train dataset to ChatML",
        "Running tokenizer on train dataset (num_proc=8)",
        "Packing train dataset",
        "Extracting prompt in train dataset",
        "Grouping texts in chunks of 1024",
        "Filter",
        "Featurizing",
        "Dev",
        "Benchmark",
        "",
    ],
)
def test_a_bar_that_ends_before_the_losses_is_not_the_training(tmp_path: Path, words: str, unit: str) -> None:
    text = _bar(words, 4000, 0.025, step=50, unit=unit) + "\n"
    row = guessed_row(tmp_path, text + lines_of_steps(lambda at: f"step {at} loss 2.1{at:02}"), ONE_DEVICE)
    assert row["throughput"] is None
    timed = lines_of_steps(lambda at: f"step {at} loss 2.1 step_time 0.50{at % 9}")
    assert guessed_row(tmp_path, text + timed, ONE_DEVICE)["throughput"] == pytest.approx(31.8, rel=0.01)


def test_data_that_are_prepared_for_the_training_alone_give_no_number(tmp_path: Path) -> None:
    text = _bar("Tokenizing train dataset", 4000, 0.025, step=50, unit=" examples") + "\n"
    assert guessed_row(tmp_path, text, ONE_DEVICE)["throughput"] is None


def test_lines_of_speed_before_the_losses_are_not_the_training(tmp_path: Path) -> None:
    before = lines_of_steps(lambda at: f"Processed {1000 * at} train examples ({1234 + at % 9}.5 examples/s)")
    row = guessed_row(tmp_path, before + lines_of_steps(lambda at: f"step {at} loss 2.1{at:02}"), ONE_DEVICE)
    assert row["throughput"] is None


def test_speeds_in_other_lines_than_the_losses_are_read(tmp_path: Path) -> None:
    text = lines_of_steps(lambda at: f"step {at} {1234 + at % 9}.5 examples/s\nloss of step {at}: 2.1")
    assert guessed_row(tmp_path, text, ONE_DEVICE)["throughput"] == pytest.approx(1238, rel=0.01)


@pytest.mark.parametrize(
    ("train", "validation"),
    [("", ""), ("Epoch {}/4", "Epoch {}/4"), ("Epoch {}", ""), ("Epoch {}", "Dev {}")],
)
@pytest.mark.parametrize("steps", [60, 150])
def test_bars_of_validation_are_no_steps(tmp_path: Path, train: str, validation: str, steps: int) -> None:
    text = "".join(
        _bar(train.format(epoch), 100, 0.5)
        + "\n"
        + _bar(validation.format(epoch), steps, 0.1)
        + f"\nEpoch {epoch}: train_loss 1.2{epoch} val_loss 1.3{epoch}\n"
        for epoch in (1, 2, 3, 4)
    )
    row = guessed_row(tmp_path, text, ONE_DEVICE)
    assert row["throughput"] == pytest.approx(32, rel=0.02)
    assert "records-missing" not in {problem["code"] for problem in row["problems"]}


def test_epochs_of_about_as_many_steps_are_one_training(tmp_path: Path) -> None:
    text = "".join(_bar("Epoch", 100 + epoch, 0.5) + "\n" for epoch in range(4))
    assert guessed_row(tmp_path, text, ONE_DEVICE)["records"] == 406


def test_a_bar_that_counts_samples_slowly_says_so_by_its_unit(tmp_path: Path) -> None:
    text = "".join(
        f"\rEpoch 1/5:  {at}%|###   | {2 * at}/200 [{5 * at // 60:02}:{5 * at % 60:02}<10:00,  2.50s/img, loss=0.5]"
        for at in range(1, 101)
    )
    row = guessed_row(tmp_path, text, ONE_DEVICE)
    assert (row["throughput"], row["unit"]) == (pytest.approx(0.4, rel=0.01), "images/s")


def test_what_follows_the_last_loss_is_not_the_training(tmp_path: Path) -> None:
    timed = lines_of_steps(lambda at: f"step {at} loss 2.1 step_time 0.50{at % 9}")
    row = guessed_row(tmp_path, timed + _bar("", 500, 0.1) + "\n", ONE_DEVICE)
    assert row["throughput"] == pytest.approx(31.8, rel=0.01)
    rated = lines_of_steps(lambda at: f"step {at} loss 2.1 {32 + at % 2} samples/s")
    after = lines_of_steps(lambda at: f"batch {at}/400 {3000 + at}.5 samples/s", count=400)
    assert guessed_row(tmp_path, rated + after)["throughput"] == pytest.approx(32.5, rel=0.01)


@pytest.mark.parametrize("loss", ["eval_loss", "val_loss", "test loss"])
def test_evaluations_in_lines_like_those_of_the_steps_are_no_steps(tmp_path: Path, loss: str) -> None:
    text = lines_of_steps(
        lambda at: (
            f"step {at} loss 2.1 step_time 0.50{at % 9}"
            + (f"\nstep {at} {loss} 2.2 step_time 0.1{at:02}" if at % 2 else "")
        )
    )
    row = guessed_row(tmp_path, text, ONE_DEVICE)
    assert row["throughput"] == pytest.approx(31.8, rel=0.01)
    assert row["records"] == 60


def test_a_step_of_reinforcement_learning_may_name_its_generation(tmp_path: Path) -> None:
    text = lines_of_steps(
        lambda at: (
            f"Processed prompts: 50%|## | 32/64 [00:0{at % 9}<00:10, 4.1{at % 9}it/s, input: 1234.5 toks/s]\n"
            f"step {at}: reward 0.5 loss 2.1 step_time 30.{at % 9}s generation_time 18.{at % 9}s"
        )
    )
    assert guessed_row(tmp_path, text, ONE_DEVICE)["throughput"] == pytest.approx(16 / 30.4, rel=0.01)


@pytest.mark.parametrize(("pace", "value"), [("2.00it/s", 32), ("2.00s/it", 8), ("32.0img/s", 32)])
@pytest.mark.parametrize("words", ["", "Epoch {}: "])
def test_bars_that_only_the_end_of_an_epoch_shows_are_read(
    tmp_path: Path, words: str, pace: str, value: float
) -> None:
    text = "".join(
        f"{words.format(epoch)}100%|##########| 200/200 [01:40<00:00,  {pace}, loss=0.5]\n"
        for epoch in range(9)
    )
    assert guessed_row(tmp_path, text, ONE_DEVICE)["throughput"] == pytest.approx(value, rel=0.01)
