"""The figures of unknown lines are recognised by their words, their course and the clock."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from guess_logs import ONE_DEVICE, START, guessed_row, stamped_lines

from trainmark.logs import Facts
from trainmark.logs.guess.families import meaning_of


@pytest.mark.parametrize(
    ("form", "given", "value", "unit"),
    [
        (lambda at: f"step {at} | loss 2.5{at:02} | {4096 + at % 2} tok/s", Facts(), 4096.5, "tokens/s"),
        (
            lambda at: f"[iter {10 * at:5}] loss=1.{at:02} throughput: 512.0 samples/s",
            Facts(),
            512,
            "samples/s",
        ),
        (
            lambda at: f"iteration={at} tokens_per_second_per_gpu=1,000.5 lr=1e-4",
            Facts(gpus=4),
            4002,
            "tokens/s",
        ),
        (
            lambda at: f"step {at}/100, loss 3.{at:02}, step_time 2.000 s",
            Facts(gpus=2, batch_per_device=16),
            16,
            "samples/s",
        ),
        (
            lambda at: f"update: {at} loss: 1.5 step time (ms): 2000.0",
            Facts(gpus=1, batch_per_device=8),
            4,
            "samples/s",
        ),
        # A word between two numbers is the name of the second where each number follows its name.
        (lambda at: f"step {at} loss 2.0 step_time 2.0 samples/s 400", Facts(), 400, "samples/s"),
        (lambda at: f"step {at} step_time 2.0 seq/s 8 tokens/s 8192", Facts(), 8, "sequences/s"),
        (lambda at: f"step {at} speed 400 samples/s 2.0 s/it", Facts(), 400, "samples/s"),
        (lambda at: f"step {at} speed=400 s/it=2.0", Facts(), 400, "samples/s"),
        (
            lambda at: f"step: {100 * at}/ 99999 loss:0.3651 0.3224 imps:26.5 lr: 0.03",
            Facts(),
            26.5,
            "images/s",
        ),
        (lambda at: f"step {at} loss 3.1 s/it 2.0", Facts(gpus=1, batch_per_device=8), 4, "samples/s"),
        (
            lambda at: f"epoch 0 batch {at} loss 0.{at:02}",
            Facts(gpus=1, batch_per_device=64),
            32,
            "samples/s",
        ),
    ],
)
def test_words_and_consistency_give_a_number(
    tmp_path: Path, form: Callable[[int], str], given: Facts, value: float, unit: str
) -> None:
    row = guessed_row(tmp_path, stamped_lines(form), given)

    assert row["status"] == "guessed"
    assert row["format"] == "guessed"
    assert row["throughput"] == pytest.approx(value, rel=0.01)
    assert row["unit"] == unit
    assert any(p["code"] == "guessed" and p["severity"] == "doubt" for p in row["problems"])


@pytest.mark.parametrize(
    ("form", "given"),
    [
        (lambda steps, seconds: f"step {steps} loss 2.1 samples/sec: {32 * steps / seconds:.2f}", Facts()),
        (
            lambda steps, seconds: f"step {steps} loss 2.1 avg_step_time {seconds / steps * 1000:.1f} ms",
            Facts(gpus=2, batch_per_device=16),
        ),
        (
            lambda steps, seconds: f"it {steps} loss 2.1 {steps / seconds:.3f} it/s",
            Facts(gpus=2, batch_per_device=16),
        ),
    ],
)
def test_a_mean_since_the_start_is_recognised_by_its_course(
    tmp_path: Path, form: Callable[[int, float], str], given: Facts
) -> None:
    """The first step compiles for a minute, which a mean since the start has in all its values."""
    for steps in (range(10, 610, 10), range(260, 610, 10)):
        row = guessed_row(tmp_path, "".join(f"{form(at, 60 + at / 2)}\n" for at in steps), given)

        assert row["throughput"] == pytest.approx(64, rel=0.01)
        assert "is the mean since the start" in row["problems"][0]["message"]


@pytest.mark.parametrize("prefix", ["INFO:root:", "[INFO    ][2026-03-01 12:00:00][root][train] "])
def test_a_mean_since_the_start_of_each_epoch_is_recognised(tmp_path: Path, prefix: str) -> None:
    """I-JEPA and V-JEPA: the first epoch has a slow step, and no number has a name but the time."""
    lines = "".join(
        f"{prefix}[{epoch}, {at:5}] loss: 0.{at:03} [lr: 1.00e-03] "
        f"({1000 * ((50 if epoch == 1 else 0) + (at + 1) / 2) / (at + 1):.1f} ms)\n"
        for epoch in (1, 2)
        for at in range(0, 500, 10)
    )

    row = guessed_row(tmp_path, lines, Facts(gpus=2, batch_per_device=16))

    assert row["throughput"] == pytest.approx(64, rel=0.01)
    assert "is the mean since the start" in row["problems"][0]["message"]


@pytest.mark.parametrize(
    "form",
    [
        "%H:%M:%S",
        "%m/%d/%Y %H:%M:%S",
        "%d.%m.%Y %H:%M:%S",
        "%Y%m%d-%H:%M:%S",
        "%m-%d %H:%M:%S",
        "%b %d %H:%M:%S",
        "I%Y%m%d %H:%M:%S",
    ],
)
def test_a_time_of_day_goes_on_past_midnight(tmp_path: Path, form: str) -> None:
    """Programs print dates in many forms; the time of day is enough for lines of a few hours each."""
    lines = "".join(
        f"{datetime(2026, 2, 28, 22, tzinfo=UTC) + timedelta(minutes=10 * at):{form}} - step {at} loss 2.1\n"
        for at in range(200)
    )

    row = guessed_row(tmp_path, lines, ONE_DEVICE)

    assert row["throughput"] == pytest.approx(16 / 600, rel=0.01)


def test_speeds_of_steps_that_become_faster_are_no_mean_since_the_start(tmp_path: Path) -> None:
    warming = (f"step {10 * at} loss 2.1 samples/sec: {64 - 50 / at**2:.2f}" for at in range(1, 61))
    rising = (f"step {10 * at} loss 2.1 samples/sec: {60 + at / 10:.2f}" for at in range(1, 61))

    for lines in (warming, rising):
        row = guessed_row(tmp_path, "".join(f"{line}\n" for line in lines))

        assert "mean since the start" not in row["problems"][0]["message"]


def test_times_of_steps_of_which_some_are_slow_are_no_mean_since_the_start(tmp_path: Path) -> None:
    """The first step is slow and the last ones are not: by a mean, the step after a slow one took less than nothing."""
    slow = {0: 0.02367, 71: 0.02125, 79: 0.02121}
    lines = (f"step {at} | loss 2.1 | step_time {slow.get(at, 0.02008):.5f} s\n" for at in range(80))

    row = guessed_row(tmp_path, "".join(lines), Facts(gpus=1, batch_per_device=1))

    assert row["throughput"] == pytest.approx(1 / 0.0201, rel=0.01)
    assert "mean since the start" not in row["problems"][0]["message"]


@pytest.mark.parametrize(
    ("seconds", "value"),
    [
        (2.0, 32),
        (0.001, 32),  # a copy of the log was stamped
        (1.0, 32),
        (2.5, 25.6),  # the program's clock leaves out pauses
    ],
)
def test_stamps_of_a_copy_of_the_log_give_way_to_the_programs_own_clock(
    tmp_path: Path, seconds: float, value: float
) -> None:
    lines = stamped_lines(lambda at: f"step {at} loss 2.5 elapsed {2 * at:.1f}s", seconds=seconds)

    row = guessed_row(tmp_path, lines, Facts(gpus=1, batch_per_device=64))

    assert row["throughput"] == pytest.approx(value, rel=0.02)


def test_stamps_of_a_copy_of_the_log_give_way_to_the_time_of_a_bar(tmp_path: Path) -> None:
    lines = "".join(
        f"{START + timedelta(milliseconds=3 * at):%Y-%m-%dT%H:%M:%S.%f}123Z Train step of epoch 0: {at // 4}%|###   | "
        f"{at}/400 [{at // 60:02}:{at % 60:02}<05:00, 1.00s/it]\n"
        for at in range(1, 300)
    )

    row = guessed_row(tmp_path, lines, ONE_DEVICE)

    assert row["throughput"] == pytest.approx(16, rel=0.01)


@pytest.mark.parametrize("zone", ["Z", "+00:00", "-0700", ".123456789Z stdout F"])
def test_a_time_zone_is_no_part_of_a_counters_name(tmp_path: Path, zone: str) -> None:
    text = "".join(
        f"{START + timedelta(seconds=2 * at):%Y-%m-%dT%H:%M:%S}{zone} step={at} loss=2.5\n"
        for at in range(1, 99)
    )

    row = guessed_row(tmp_path, text, Facts(gpus=1, batch_per_device=64))

    assert row["throughput"] == pytest.approx(32)
    assert "'step' counts steps" in row["problems"][0]["message"]


@pytest.mark.parametrize("between", [",", "'", "_", "\u00a0", "\u202f"])
def test_thousands_may_have_several_separators(tmp_path: Path, between: str) -> None:
    form = "step {} | loss 2.5 | {:,} tok/s"
    row = guessed_row(
        tmp_path, stamped_lines(lambda at: form.format(at, 2_600_000 + at * 7).replace(",", between))
    )

    assert row["throughput"] == pytest.approx(2_600_420, rel=1e-4)
    assert row["unit"] == "tokens/s"


@pytest.mark.parametrize(
    "form",
    [
        "loss {:.4f} ktok/s {:.1f}",
        "loss: {:.4f} ktok/s: {:.1f}",
        "loss: {:.4f}, k tok/s: {:.1f} mfu 40.1",
        "loss {:.4f} tok/s(k) {:.1f} lr 0.1",
        "loss {:.4f} tok/s (thousands): {:.1f}",
        "loss {:.4f} {:.1f} ktok/s, 7.5 gnorm",
    ],
)
def test_a_name_in_thousands_is_not_the_unit_of_the_number_before_it(tmp_path: Path, form: str) -> None:
    text = stamped_lines(lambda at: f"step {at} " + form.format(2 / at, 3270 + at % 5))
    row = guessed_row(tmp_path, text)

    assert row["throughput"] == pytest.approx(3_272_000, rel=1e-3)
    assert row["unit"] == "tokens/s"


def test_commas_between_thousands_and_lists_are_no_decimal_commas(tmp_path: Path) -> None:
    lines = stamped_lines(
        lambda at: f"step {at:,} | shape (64,32) | betas [0.9,0.95] | {4096 + at % 2:,} tok/s"
    )

    assert guessed_row(tmp_path, lines)["throughput"] == pytest.approx(4096.5, rel=1e-3)


@pytest.mark.parametrize(
    "form",
    [
        "step {} loss 2.5 step_us=200000",
        "step {} loss 2.5 sec_per_step=0.2",
        "step {} loss 2.5 ms_per_iter: 200.0",
        "step {} loss 2.5 200000 us/step",
        "step {} loss 2.5 | 10 steps in 2.00s",
        "step {} loss 2.5 time for 10 steps: 2.00s",
    ],
)
def test_times_of_steps_have_many_names(tmp_path: Path, form: str) -> None:
    text = "".join(form.format(10 * at) + "\n" for at in range(1, 80))

    assert guessed_row(tmp_path, text, Facts(gpus=1, batch_per_device=64))["throughput"] == pytest.approx(320)


def test_a_program_that_prints_its_epochs_alone_is_measured_by_their_clock(tmp_path: Path) -> None:
    # JAX's mnist_classifier prints the time in which it has handed over an epoch's steps, before they have run.
    epochs = stamped_lines(lambda at: f"Epoch {at} in 0.3{at % 10} sec", seconds=20.0)
    row = guessed_row(tmp_path, epochs, Facts(gpus=1, batch_per_device=3840))

    assert row["throughput"] == pytest.approx(3840 / 20)
    assumed = next(each for each in row["problems"] if each["code"] == "guessed")["message"]
    assert "no line counts steps, so an epoch counts as one step" in assumed


def test_the_printed_time_of_an_epoch_alone_gives_no_number(tmp_path: Path) -> None:
    row = guessed_row(tmp_path, "".join(f"Epoch {at} in 0.3{at % 10} sec\n" for at in range(40)))

    assert row["throughput"] is None


@pytest.mark.parametrize(
    "form",
    [
        "| epoch {epoch:3d} | {batch:5d}/   40 batches | lr 20.00 | ms/batch 500.00 | loss 1.{batch:02}\n",
        "[INFO] epoch: {epoch}, batch_id: {batch}, auc:0.5{batch:02}, avg_batch_cost: 0.5 sec, ips: 32.0 ins/s\n",
    ],
)
def test_a_counter_may_begin_anew_with_each_epoch(tmp_path: Path, form: str) -> None:
    lines = [form.format(epoch=epoch, batch=batch) for epoch in (1, 2, 3) for batch in range(0, 40, 2)]
    row = guessed_row(tmp_path, "".join(lines), Facts(gpus=1, batch_per_device=16))

    assert row["throughput"] == pytest.approx(32)
    assert not {each["code"] for each in row["problems"]} & {"restarted", "several-runs", "repeated-records"}


def test_lines_of_steps_are_used_before_those_of_epochs(tmp_path: Path) -> None:
    lines = [f"Epoch {at} in 7.0 sec\n" for at in range(60)]
    lines[20:20] = [f"step {at} step_time 2.000 s\n" for at in range(20)]
    row = guessed_row(tmp_path, "".join(lines), Facts(gpus=1, batch_per_device=16))

    assert row["throughput"] == pytest.approx(8)


def test_a_time_that_the_stamps_contradict_is_not_taken_for_that_of_a_step(tmp_path: Path) -> None:
    row = guessed_row(
        tmp_path, stamped_lines(lambda at: f"step {at} time 0.01 s"), Facts(gpus=1, batch_per_device=10)
    )

    assert row["throughput"] == pytest.approx(5, rel=0.01)


@pytest.mark.parametrize("name", ["| ms/batch", "lr 20.00 | ms/batch:", "s/it", "sec/step="])
def test_a_time_per_step_may_be_the_name_of_its_number(name: str) -> None:
    found = meaning_of(name, "")

    assert found is not None
    assert found.field in ("step_time_ms", "step_time_s")


@pytest.mark.parametrize(
    ("name", "unit", "field"),
    [
        ("data_time", "s", "data_time_s"),
        ("data time:", "", "data_time_s"),
        ("data", "ms", "data_time_ms"),
        ("waited for data", "s", "data_time_s"),
        ("load_time", "", "data_time_s"),
        ("data", "", None),
        ("metadata_time", "s", None),
    ],
)
def test_the_wait_for_data_is_recognised_by_its_name(name: str, unit: str, field: str | None) -> None:
    found = meaning_of(name, unit)
    assert (found.field if found else None) == field


@pytest.mark.parametrize(
    "table",
    [
        "epoch   step    loss  samples/s  time\n" + "-" * 40 + "\n{rows}",
        "| epoch | step | loss | samples/s | time |\n|---|---|---|---|---|\n{rows}",
    ],
)
def test_a_table_is_read_by_the_words_of_its_heading(tmp_path: Path, table: str) -> None:
    line = "| {} | {} | {} | {} | {} |\n" if "|" in table else "{:5} {:6} {:8} {:8} {:6}\n"
    rows = "".join(line.format(1, 10 * at, f"{3 - at / 100:.3f}", 1000 + at % 2, 0.25) for at in range(1, 41))

    row = guessed_row(tmp_path, table.format(rows=rows))

    assert row["status"] == "guessed"
    assert row["throughput"] == pytest.approx(1000.5, rel=1e-3)
    assert "rate x time is constant" in row["problems"][0]["message"]


@pytest.mark.parametrize("comma", [",", ", ", "\t"])
def test_values_between_commas_or_tabs_are_those_of_the_heading(tmp_path: Path, comma: str) -> None:
    """The commas of a row are not those of thousands: 12,101 is step 12 at 101 samples/s."""
    rows = "".join(f"{at}{comma}{(96, 104)[at % 2]}\n" for at in range(1, 101))

    row = guessed_row(tmp_path, f"step{comma}samples_per_second\n{rows}")

    assert row["status"] == "guessed"
    assert row["records"] == 100
    assert row["throughput"] == pytest.approx(2 / (1 / 96 + 1 / 104), rel=1e-3)


def test_a_stamp_in_brackets_before_the_counter_is_read(tmp_path: Path) -> None:
    """DiT and programs like it."""
    text = "".join(
        f"[{START + timedelta(seconds=80 * at):%Y-%m-%d %H:%M:%S}] (step={100 * at:07}) Train Loss: 0.{2000 - at}, "
        "Train Steps/Sec: 1.25\n"
        for at in range(1, 41)
    )

    row = guessed_row(tmp_path, text, Facts(gpus=8, batch_per_device=32))

    assert row["status"] == "guessed"
    assert row["throughput"] == pytest.approx(1.25 * 256)


@pytest.mark.parametrize(
    "rate",
    [
        "throughput 8.1{}k",
        "throughput 8.1{}K, lr 0.1",
        "8.1{}K tok/s",
        "8.1{} k tokens/s |",
        "tok/s: 8.1{}K |",
    ],
)
def test_a_rate_in_thousands_is_read_with_its_suffix(tmp_path: Path, rate: str) -> None:
    text = "".join(f"step {10 * at} | loss 2.1 | {rate.format(at % 10)}\n" for at in range(1, 90))

    row = guessed_row(tmp_path, text)

    assert (row["status"], row["throughput"]) == ("guessed", pytest.approx(8145, rel=0.001))


@pytest.mark.parametrize(
    "form",
    [
        lambda n: f"step {n}/300 loss {1 / n:.4f} 20.0 ms/step",
        lambda n: f"step {n}/300 lr 3e-4 {1 / n:.4f} nats 50.0 it/s",
    ],
)
def test_a_number_that_only_its_unit_names_is_not_mistaken_for_another(
    tmp_path: Path, form: Callable[[int], str]
) -> None:
    text = "".join(f"{form(at)}\n" for at in range(1, 301))
    row = guessed_row(tmp_path, text, Facts(gpus=1, batch_per_device=1))

    assert row["throughput"] == pytest.approx(50)


@pytest.mark.parametrize(
    ("form", "given", "value"),
    [
        (
            lambda at: f"Elapsed Time: {timedelta(seconds=2 * at)} | Steps: {4 * at}",
            Facts(gpus=1, batch_per_device=8),
            16,
        ),
        (
            lambda at: f"[{timedelta(seconds=2 * at)}] step {at}, eta {timedelta(seconds=999 - at)}",
            Facts(gpus=1, batch_per_device=64),
            32,
        ),
        (
            lambda at: f"step {at} time 0:{2 * at // 60:02}:{2 * at % 60:02}.50 loss 1.{at}",
            Facts(gpus=1, batch_per_device=64),
            32,
        ),
    ],
)
def test_a_duration_since_the_start_is_the_clock_of_a_line(
    tmp_path: Path, form: Callable[[int], str], given: Facts, value: float
) -> None:
    row = guessed_row(tmp_path, "".join(f"{form(at)}\n" for at in range(1, 150)), given)

    assert row["status"] == "guessed"
    assert row["throughput"] == pytest.approx(value, rel=0.02)


_TABLE = """--------------------------
| rollout/    |          |
|    ep_rew   | {reward:<8} |
| time/       |          |
|    fps      | {fps:<8} |
|    iterations | {at:<6} |
--------------------------
"""


@pytest.mark.parametrize(
    ("form", "given", "value", "unit"),
    [
        (
            lambda at: f"[step {at}]\n  loss: 2.{at}\n  throughput: {300 + at % 3} samples/s\n\n",
            Facts(),
            301,
            "samples/s",
        ),
        (
            lambda at: f"Iteration: {at}/1000\nLoss: 2.{at}\nStep time: 0.5 s\n----\n",
            Facts(gpus=1, batch_per_device=8),
            16,
            "samples/s",
        ),
        (lambda at: _TABLE.format(reward=-at / 7, fps=1000 + at % 3, at=at), Facts(), 1001, "frames/s"),
        (
            lambda at: f"global_step={100 * at}, return={at % 7}\nSPS: {2000 + at % 3}\n",
            Facts(),
            2001,
            "samples/s",
        ),
    ],
)
@pytest.mark.parametrize("start", [0, 3])
def test_a_block_of_lines_is_one_record(
    tmp_path: Path, form: Callable[[int], str], given: Facts, value: float, unit: str, start: int
) -> None:
    whole = "".join(map(form, range(1, 150)))
    row = guessed_row(tmp_path, "\n".join(whole.split("\n")[start:]), given)

    assert row["status"] == "guessed"
    assert row["throughput"] == pytest.approx(value, rel=0.01)
    assert row["unit"] == unit


def test_a_rate_in_a_line_of_its_own_is_used_before_the_stamps_of_the_counter(tmp_path: Path) -> None:
    text = "".join(
        f"{START + timedelta(seconds=at):%Y-%m-%d %H:%M:%S} INFO step {at}/1000\n"
        f"{START + timedelta(seconds=at):%Y-%m-%d %H:%M:%S} INFO   tokens/sec/gpu: 1000\n"
        for at in range(1, 150)
    )

    row = guessed_row(tmp_path, text, Facts(gpus=4))

    assert row["throughput"] == pytest.approx(4000)
    assert row["unit"] == "tokens/s"


def test_a_time_per_batch_by_its_first_letter_is_that_of_a_step(tmp_path: Path) -> None:
    text = "".join(f">> it {at:05} || cls 1.8 || t/batch 0.400s\n" for at in range(20, 420, 20))

    row = guessed_row(tmp_path, text, Facts(gpus=1, batch_per_device=16))

    assert row["throughput"] == pytest.approx(16 / 0.4)
