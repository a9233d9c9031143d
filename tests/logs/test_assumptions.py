"""Numbers that rest on an assumption carry a doubt that names it."""

import pytest
from conftest_logs import Reader

from trainmark.logs import Facts
from trainmark.measure.rules import measure_log

_GIVEN = Facts(gpus=1, batch_per_device=4)
_SQUAD = "".join(
    f"DLL 2022-04-05 02:{at // 10:02}:{6 * (at % 10):02}.000000 - Training Epoch: 1 Training Iteration: {50 * at}  "
    "step_loss : 0.69  learning_rate : 1.5e-05 \n"
    for at in range(1, 40)
)


def test_fine_tuning_of_bert_is_read_with_one_assumed_micro_batch(read: Reader) -> None:
    log = read(_SQUAD, given=_GIVEN)

    assert measure_log(log).value == pytest.approx(50 * 4 / 6, rel=1e-3)
    assert "gradient_accumulation_steps" in {p.code: p.message for p in log.problems}["accumulation-assumed"]


def test_a_printed_accumulation_of_bert_is_no_assumption(read: Reader) -> None:
    log = read(
        "DLL 2022-04-05 02:00:00.000000 - PARAMETER gradient_accumulation_steps : 2 \n" + _SQUAD, given=_GIVEN
    )

    assert log.facts.accumulation == 2
    assert "accumulation-assumed" not in {p.code for p in log.problems}


_STEPS = "".join(f"step:{n}/90 train_time:{100 * n}ms step_avg:100.00ms\n" for n in range(1, 91))


def test_a_batch_in_tokens_of_modded_nanogpt_is_that_of_all_devices(read: Reader) -> None:
    log = read("import os\n    batch_size = 8*64*1024 # batch size in tokens\n" + _STEPS)

    assert log.facts.global_batch == 8 * 64 * 1024
    assert measure_log(log).value == 8 * 64 * 1024 / 0.1


def test_a_sequence_of_each_device_of_modded_nanogpt_needs_the_devices(read: Reader) -> None:
    source = (
        "import os\n    seq_len = 48*1024 # FlexAttention sequence length\n"
        "loader = distributed_data_generator(args.train_files, world_size * args.seq_len, rank, world_size)\n"
    )

    assert measure_log(read(source + _STEPS)).needs == ("--gpus",)
    assert measure_log(read(source + _STEPS, given=Facts(gpus=8))).value == 8 * 48 * 1024 / 0.1


def test_two_records_without_a_warm_up_are_called_two(read: Reader) -> None:
    log = read(
        "Ultralytics YOLOv8.0.230\n"
        "      1/400      17.9G       1.72      7.663      2.019         10       1280: 100%|###| 60/60 "
        "[00:37<00:00,  1.61it/s]\n"
        "      2/400      16.4G      1.307      5.759      1.569          7       1280: 100%|###| 60/60 "
        "[06:06<00:00,  6.11s/it]\n"
    )

    messages = {p.code: p.message for p in log.problems}
    assert messages["few-records"].startswith("the log has only 2 records, so")


_STEPS_BAR = "".join(
    f"Steps: {at // 3}%|###   | {at}/300 [{at // 120:02}:{at // 2 % 60:02}<02:00,  2.00it/s, step_loss=0.1]\r"
    for at in range(1, 300)
)


def test_a_given_batch_is_that_of_one_micro_batch_where_the_log_states_no_accumulation(read: Reader) -> None:
    log = read(_STEPS_BAR, given=Facts(gpus=2, batch_per_device=4))

    assert measure_log(log).value == pytest.approx(16, rel=0.01)
    assert (
        "with n the rate is n times as high"
        in {p.code: p.message for p in log.problems}["accumulation-assumed"]
    )


def test_without_a_given_batch_no_accumulation_is_assumed(read: Reader) -> None:
    log = read(_STEPS_BAR, given=Facts(gpus=2))

    assert measure_log(log).value is None
    assert "accumulation-assumed" not in {p.code for p in log.problems}


_ITERATIONS = "".join(f"iter {at}: loss 2.1, time 500.{at % 9}0ms, mfu 40.12%\n" for at in range(500, 560))


@pytest.mark.parametrize(("batch", "is_doubted"), [(12, True), (12 * 1024, False)])
def test_a_given_batch_of_sequences_is_doubted_where_the_rate_is_in_tokens(
    read: Reader, batch: int, is_doubted: bool
) -> None:
    """An excerpt of nanoGPT without "tokens per iteration"."""
    log = read(_ITERATIONS, given=Facts(gpus=1, batch_per_device=batch))

    assert log.unit == "tokens/s"
    assert measure_log(log).value == pytest.approx(2 * batch, rel=0.01)
    assert ("batch-of-sequences" in {problem.code for problem in log.problems}) == is_doubted


def test_printed_tokens_of_an_iteration_leave_no_doubt_about_a_given_batch(read: Reader) -> None:
    log = read(
        "tokens per iteration will be: 491,520\n" + _ITERATIONS, given=Facts(gpus=1, batch_per_device=12)
    )

    assert "batch-of-sequences" not in {problem.code for problem in log.problems}
