"""Counters of samples in unknown lines: they count, or witness for and against the number."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from guess_logs import ONE_DEVICE, START, guessed_row, lines_of_steps, stamped_lines

from trainmark.logs import Facts


def test_a_given_batch_of_sequences_is_no_witness_against_tokens(tmp_path: Path) -> None:
    row = guessed_row(
        tmp_path, lines_of_steps(lambda at: f"step {at} loss 2 step_time 0.50{at % 9} tok/s 8192"), ONE_DEVICE
    )

    assert row["throughput"] == pytest.approx(8192)
    assert "witnesses-disagree" not in {each["code"] for each in row["problems"]}


def _images(epochs: int = 2) -> str:
    return "".join(
        f"(epoch: {epoch}, iters: {at}, time: 0.{110 + at // 100 % 3}, data: 0.002) G_A: 0.456 cycle_A: 1.200 \n"
        for epoch in range(1, epochs + 1)
        for at in range(100, 1301, 100)
    )


@pytest.mark.parametrize("is_stamped", [False, True])
def test_a_counter_that_may_be_of_samples_is_doubted_with_both_numbers(
    tmp_path: Path, is_stamped: bool
) -> None:
    text = "".join(
        f"{START + timedelta(seconds=11.1 * at):%Y-%m-%d %H:%M:%S} {line}\n" if is_stamped else f"{line}\n"
        for at, line in enumerate(_images().splitlines())
    )

    row = guessed_row(tmp_path, text, Facts(gpus=1, batch_per_device=4))

    doubt = next(one for one in row["problems"] if one["code"] == "witnesses-disagree")
    assert row["status"] == "guessed"
    assert row["throughput"] == pytest.approx(4 / 0.111, rel=0.01)
    assert "the number is 36" in doubt["message"]
    assert "by the time of one sample it is 9.0" in doubt["message"]
    assert "if 'iters' counts samples and 'time' is the time of one: then add --batch 1" in doubt["message"]


@pytest.mark.parametrize(
    "form",
    [
        lambda at: f"iters: {at}, time: 0.110",  # every step has a line
        lambda at: f"iters: {100 * at}/9000, time: 0.110",  # up to a total
        lambda at: f"step: {100 * at}, time: 0.110",
        lambda at: f"iters: {10 * at}, time: 0.110",  # 10 is no multiple of the batch
        lambda at: f"iters: {100 * at}, time: 0.110, 36.4 images/s",
    ],
)
def test_a_counter_of_steps_is_not_doubted(tmp_path: Path, form: Callable[[int], str]) -> None:
    text = "".join(f"{form(at)}\n" for at in range(1, 60))

    row = guessed_row(tmp_path, text, Facts(gpus=1, batch_per_device=4))

    assert row["throughput"] == pytest.approx(4 / 0.11, rel=0.01)
    assert "witnesses-disagree" not in [one["code"] for one in row["problems"]]


@pytest.mark.parametrize(
    ("form", "given", "number", "counted"),
    [
        (
            lambda at: f"step {10 * at} | tokens seen {40960 * at:,} | tok/s {16384} | dt 0.5 s",
            None,
            16384,
            8192,
        ),
        (
            lambda at: f"step {10 * at} | consumed samples: {640 * at} | step time: 0.250 s",
            Facts(gpus=1, batch_per_device=32),
            128,
            256,
        ),
    ],
)
def test_a_counter_of_samples_is_held_against_the_number(
    tmp_path: Path, form: Callable[[int], str], given: Facts | None, number: float, counted: float
) -> None:
    text = "".join(f"{form(at)}\n" for at in range(1, 60))

    row = guessed_row(tmp_path, text, given)

    doubt = next(one for one in row["problems"] if one["code"] == "witnesses-disagree")
    assert row["throughput"] == pytest.approx(number)
    assert f"the number is {number}, but by the consumed counter it is {counted}" in doubt["message"]


def test_a_counter_of_samples_that_agrees_is_a_witness_without_a_doubt(tmp_path: Path) -> None:
    text = "".join(
        f"step {10 * at} | tokens seen {40.96 * at:.2f}K | tok/s 8192 | dt 0.5 s\n" for at in range(9, 90)
    )

    row = guessed_row(tmp_path, text)

    assert row["throughput"] == pytest.approx(8192)
    assert [one["name"] for one in row["witnesses"]] == ["printed rate", "consumed counter"]
    assert "witnesses-disagree" not in [one["code"] for one in row["problems"]]


def test_stamps_and_a_counter_of_samples_need_no_batch(tmp_path: Path) -> None:
    row = guessed_row(tmp_path, stamped_lines(lambda at: f"step {10 * at} loss 2.3 samples seen {640 * at}"))

    assert (row["status"], row["throughput"], row["unit"]) == ("guessed", pytest.approx(320), "samples/s")


@pytest.mark.parametrize("count", ["{}.0", "{:.4e}"])
def test_a_counter_of_samples_that_is_no_whole_number_costs_no_record(tmp_path: Path, count: str) -> None:
    lines = (f"step {10 * at} | tokens seen {count.format(40960 * at)} | tok/s 8192" for at in range(1, 60))

    row = guessed_row(tmp_path, "".join(f"{line}\n" for line in lines))

    assert (row["status"], row["throughput"]) == ("guessed", pytest.approx(8192))
    assert [one["name"] for one in row["witnesses"]] == ["printed rate"]


def test_steps_are_the_counter_wherever_that_of_samples_is_printed(tmp_path: Path) -> None:
    lines = (f"consumed samples: {640 * at} | step {10 * at} | dt 0.500 s" for at in range(1, 60))

    row = guessed_row(tmp_path, "".join(f"{line}\n" for line in lines), Facts(gpus=1, batch_per_device=64))

    assert row["throughput"] == pytest.approx(128)
    assert {one["name"]: round(one["value"]) for one in row["witnesses"]} == {
        "step time": 128,
        "consumed counter": 128,
    }


def test_sps_is_of_samples_unless_a_time_says_steps(tmp_path: Path) -> None:
    samples = guessed_row(tmp_path, "".join(f"step {at} SPS: 2000\n" for at in range(1, 100)))
    steps = guessed_row(
        tmp_path,
        "".join(f"step {at} time 0.5 SPS: 2.0\n" for at in range(1, 100)),
        Facts(gpus=1, batch_per_device=8),
    )

    assert samples["throughput"] == pytest.approx(2000)
    assert steps["throughput"] == pytest.approx(16)


def test_a_time_between_counts_of_samples_is_of_samples_and_not_of_as_many_steps(tmp_path: Path) -> None:
    text = "".join(
        f"Train Epoch: 1 [{at}/60000 (1%)]\tLoss: 2.3\ttook 0.110s\n" for at in range(0, 12800, 640)
    )

    assumed = guessed_row(tmp_path, text)["problems"][0]["message"]

    assert "if it is that of all 640 samples since the line before, add --batch 640" in assumed
    assert "640 steps" not in assumed


@pytest.mark.parametrize(("accumulation", "named"), [(4, True), (1, False)])
def test_a_rate_of_one_micro_batch_is_named_where_a_step_has_several(
    tmp_path: Path, accumulation: int, *, named: bool
) -> None:
    head = f"Namespace(micro_batch_size=8, grad_accum={accumulation})\n"
    text = head + lines_of_steps(
        lambda at: f"step {at} loss 2.5 step_time: 40.{at % 3}ms, samples/s: {8 / (0.04 + at % 3 / 1e4):.2f}"
    )
    problems = guessed_row(tmp_path, text)["problems"]

    assert ("it is 4 times as fast" in problems[0]["message"]) is named
