"""Current programs: the steps that each figure averages over, what it leaves out, and unknown facts."""

from pathlib import Path

import pytest
from conftest_logs import Reader, doubts_of

from trainmark.logs import EndState, Facts, Status
from trainmark.logs.synthetic import SampleRun, overall_rate
from trainmark.measure.rules import measure_log
from trainmark.programs import read_log, synthetic_log
from trainmark.schema.precision import Precision

_OWN_RUNS = Path(__file__).parent / "own_runs"
_GIVEN = Facts(gpus=8, batch_per_device=64)


@pytest.mark.parametrize(
    "name", ["pytorch-imagenet", "timm", "open-clip", "deepspeed", "detectron2", "lightning"]
)
def test_slow_steps_between_lines_are_in_the_rate(read: Reader, name: str) -> None:
    # One step in ten is printed, and that one is five times as fast as the others.
    run = SampleRun(([0.5] * 9 + [0.1]) * 100, gpus=8, batch_per_device=64, interval=10)

    log = read(synthetic_log(name, run), given=None if name in ("deepspeed", "open-clip") else _GIVEN)

    assert measure_log(log).value == pytest.approx(overall_rate(run), rel=0.01)


@pytest.mark.parametrize("epochs", [1, 2])
def test_the_record_that_gluoncv_repeats_at_the_end_of_an_epoch_is_left_out(
    read: Reader, epochs: int
) -> None:
    # 94 batches, a record after each second one: the program prints batch 93 after batch 94.
    lines = [
        f"Epoch[{epoch}] Batch [{step}]\tSpeed: {184.3 if step == 93 else 48.0} samples/sec\taccuracy=0\tlr=0.1"
        for epoch in range(epochs)
        for step in (*range(2, 95, 2), 93)
    ]

    log = read("\n".join(["Namespace(batch_size=16, model='mobilenet0.25', num_gpus=0)", *lines]) + "\n")

    assert (log.records.count, log.restarts) == (47 * epochs, ())
    assert measure_log(log).value == pytest.approx(48)


def test_sampled_steps_that_differ_are_a_doubt(read: Reader) -> None:
    run = SampleRun(([0.5] * 9 + [0.1] + [0.5] * 10) * 10, gpus=8, batch_per_device=64, interval=10)

    log = read(synthetic_log("gluoncv-detection", run))

    assert "sampled" in doubts_of(log)


@pytest.mark.parametrize(
    ("name", "given", "value", "records"),
    [
        ("hf-trainer-5.23.log", Facts(), 592.008, 0),
        ("keras-3.15.log", Facts(gpus=1, batch_per_device=64), 2 * 64 / (0.092 + 0.293), 3),
        ("keras-3.15-verbose-2.log", Facts(gpus=1, batch_per_device=64), 2 * 64 / (0.219 + 0.171), 3),
        # By the averages of steps: 19 after the warm-up of the first epoch, and of the second all but the first.
        (
            "timm-1.0.31.log",
            Facts(),
            16 * (19 + 39) / (40 * 3.979 - 21 * 4.125 + 40 * 2.097 - 5.001),
            22,
        ),
        ("lightning-2.6-tqdm.log", Facts(gpus=1, batch_per_device=64), 2000, 20),
    ],
)
def test_a_trainmark_run_gives_the_throughput_that_it_reported(
    name: str, given: Facts, value: float, records: int
) -> None:
    log = read_log(_OWN_RUNS / name, given)
    result = measure_log(log)

    assert result.value == pytest.approx(value, rel=0.02)
    assert log.records.count == records
    assert doubts_of(log).keys() <= {"few-records"}  # two epochs of the busy machine differ


def test_deepspeeds_timer_without_waiting_is_a_doubt_by_its_time_stamps() -> None:
    log = read_log(_OWN_RUNS / "deepspeed-0.19.8.log")
    facts = log.facts

    assert (facts.gpus, facts.batch_per_device, facts.accumulation, facts.global_batch) == (1, 16, 2, 32)
    assert "rates-contradict-clock" in doubts_of(log)


def test_a_namespace_alone_does_not_identify_a_program(read: Reader) -> None:
    text = (
        "Namespace(batch_size=64, epochs=14, log_interval=10)\nTrain Epoch: 1 [0/60000 (0%)]\tLoss: 2.299825\n"
        * 9
    )

    assert read(text).status is Status.UNKNOWN


def test_evaluation_in_the_summary_of_hf_trainer_is_a_doubt(read: Reader) -> None:
    line = "{'eval_loss': '0.5', 'eval_runtime': '300.0', 'epoch': '1'}"
    log = read(f"{line}\n{{'train_runtime': '1575', 'train_samples_per_second': '1.333', 'epoch': '3'}}\n")
    result = measure_log(log)

    assert result.value == 1.333
    assert "evaluation-included" in doubts_of(log)


def test_validation_in_keras_times_is_a_doubt(read: Reader) -> None:
    bar = "195/195 [==============================] - 14s 70ms/step - loss: 1.8 - val_loss: 1.7\n"

    log = read("Epoch 1/3\n" + bar * 3, given=Facts(gpus=1, batch_per_device=256))

    assert "evaluation-included" in doubts_of(log)


def test_a_step_that_began_with_an_evaluation_is_left_out(read: Reader) -> None:
    lines = ["tokens per iteration will be: 491,520", "step 0: train loss 10.9, val loss 10.9"]
    for step in range(100):
        if step == 50:
            lines.append("step 50: train loss 3.1, val loss 3.2")
        lines.append(f"iter {step}: loss 3.2133, time {20000 if step in (0, 50) else 135.4}ms, mfu 40.00%")

    log = read("\n".join([*lines, ""]))

    assert measure_log(log).value == pytest.approx(491520 / 0.1354)
    assert (log.records.count, log.figures["mfu"]) == (98, 40.0)


@pytest.mark.parametrize(("shown", "rate"), [("856", 856), ("5,856", 5856), ("1,005,856", 1005856)])
def test_thousands_are_read(read: Reader, shown: str, rate: int) -> None:
    before = "[titan] 2025-06-16 22:30:50,322 - root - INFO - step: 200  loss:  6.1  memory: 49.66GiB(52.2%)"
    line = f"{before}  tps: {shown}  x\n"

    assert [record.rate for record in read(line).records.rows()] == [rate]
    assert [record.rate for record in read(line * 20).records.rows()] == [rate]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("    batch_size : int = 8*64 # in sequences\n    sequence_length : int = 1024\n", 524288 / 0.1),
        ("    train_seq_len = 48*1024 # FlexAttention\nassert world_size == 8\n", 393216 / 0.1),
        ("    train_seq_len = 48*1024\nbatch_size_schedule = [1, 2]\nassert world_size == 8\n", None),
        ("", None),
    ],
)
def test_the_tokens_of_a_step_come_from_the_printed_source_or_are_unknown(
    read: Reader, source: str, value: float
) -> None:
    lines = "".join(f"step:{n}/900 train_time:{n * 100}ms step_avg:100.00ms\n" for n in range(1, 200))

    result = measure_log(read(f"class Hyperparameters:\n{source}{lines}"))

    assert result.value == (pytest.approx(value) if value else None)


_SEG = "[TRAIN] epoch: 1, iter: 30/400, loss: 1.5, lr: 0.009, batch_cost: 0.5, ips: 14.8 samples/sec | E"
_CLAS = "[2023/07/28 06:51:13] ppcls INFO: epoch:0   train step:790  lr: 0.1, loss: 6.5, ips: 393.4 samples/sec.\n"


@pytest.mark.parametrize(
    ("text", "precision"),
    [
        (f"use amp to train\n{_SEG}\n", Precision.AMP_FP16),
        (f"python train.py --fp16 --batch 4\n{_SEG}\n", Precision.AMP_FP16),
        (f"fp16 : True\n{_SEG}\n", Precision.AMP_FP16),
        (f"---- Config Information ----\n{_SEG}\n", None),
        (f"x ppcls INFO: AMP : \nx ppcls INFO:     use_amp : True\n{_CLAS}", Precision.AMP_FP16),
        (
            f"Tesla V100-SXM2-32GB\nx ppcls INFO: AMP : \nx ppcls INFO:     use_amp : False\n{_CLAS}",
            Precision.FP32,
        ),
        (_CLAS, None),
    ],
)
def test_precision_is_read_from_the_log_and_unknown_if_not_printed(
    read: Reader, text: str, precision: Precision | None
) -> None:
    assert read(text).facts.precision is precision


def test_a_program_can_print_rates_in_several_units(read: Reader) -> None:
    words = read(
        "2021-03-01 10:00:00,123 - INFO - Epoch: 0, using time 1203.5 second, ips 150023.4 word/sec.\n"
    )
    samples = read("[batch=1/9]:\n\t Train throughput/samples_per_sec: 38.9912\n" * 3)

    assert (words.format, words.unit) == ("paddlerec", "words/s")
    assert (samples.format, samples.unit) == ("composer", "samples/s")


_MEGATRON = (
    " [2026-05-14 09:{minute:02}:00] iteration {at:8}/     500 | consumed samples: {samples:12} | elapsed time per "
    "iteration (ms): {ms:.1f} | learning rate: 1.5E-04 | global batch size:   128 | lm loss: 2.3E+00 | loss scale: 1.0"
    " | grad norm: 1.2 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
)


@pytest.mark.parametrize(("first", "skipped"), [(10, 1), (20, 0)])
def test_a_first_line_about_the_warm_up_is_left_out_though_the_settings_are_missing(
    read: Reader, first: int, skipped: int
) -> None:
    text = "".join(
        _MEGATRON.format(minute=at // 10, at=at, samples=128 * at, ms=6000.0 if at > 10 else 9000.0)
        for at in range(first, 200, 10)
    )

    result = measure_log(read(text))

    assert result.value == pytest.approx(128 / 6)
    assert result.skipped == skipped


@pytest.mark.parametrize(
    ("name", "at", "form"),
    [
        (
            "detectron2",
            "Running with full config:",
            "SOLVER:\n  AMP:\n    ENABLED: true\n  IMS_PER_BATCH: 64\n",
        ),
        ("maskrcnn-benchmark", "Running with config:", 'DTYPE: "float16"\nSOLVER:\n  IMS_PER_BATCH: 64\n'),
    ],
)
def test_a_printed_file_of_settings_gives_way_to_those_in_force(
    read: Reader, name: str, at: str, form: str
) -> None:
    """The command set another batch than the file, whose text is printed first: 4 times too high."""
    before, line, after = synthetic_log(name, SampleRun([0.5] * 100)).partition(at)
    start = before.rindex("\n") + 1
    alone = read(before + line + after)

    log = read(f"{before[:start]}[05/14 09:12:33] Contents of the file:\n{form}{before[start:]}{line}{after}")

    assert (log.facts.global_batch, log.facts.precision) == (alone.facts.global_batch, alone.facts.precision)
    assert log.facts.global_batch != 64
    assert measure_log(log).value == measure_log(alone).value


def test_a_batch_that_ultralytics_chooses_is_read(read: Reader) -> None:
    text = "Ultralytics 8.4.1\nengine/trainer: task=detect, model=yolo11n.pt, batch={}, imgsz=640, amp=True\n"
    bar = "      {}/3      4.2G      1.2      2.3      1.1        51        640: 100% ━━━━━ 100/100 4.0it/s 25.0s\n"
    chosen = "AutoBatch: Using batch-size 48 for CUDA:0 48.1G/80G (60%) ✅\n"
    bars = "".join(bar.format(at) for at in (1, 2, 3))

    assert read(text.format(-1) + chosen + bars).facts.global_batch == 48
    assert read(text.format(0.7) + bars).facts.global_batch is None
    assert read(text.format(16) + bars).facts.global_batch == 16


def test_a_trainer_that_prints_its_runtime_with_each_loss_has_not_ended_by_that(read: Reader) -> None:
    """transformers 5.24 with include_num_input_tokens_seen; its summary begins with the runtime."""
    head = (
        "***** Running training *****\n  Instantaneous batch size per device = 8\n"
        "  Total train batch size (w. parallel, distributed & accumulation) = 16\n"
        "  Gradient Accumulation steps = 2\n  Total optimization steps = 300\n"
    )
    bars = "".join(
        f"\r {at // 3:2}%|#   | {at}/300 [{at // 60:02}:{at % 60:02}<02:00,  1.00s/it]"
        + f"\r   \r{{'loss': '4.787', 'epoch': '0.2', 'train_runtime': '{at}.5', 'train_tokens_per_second': '1024'}}\n"
        * (at % 10 == 0)
        for at in range(200)
    )

    log = read(head + bars)

    assert (log.end_state, log.status) == (EndState.MISSING, Status.OK)
    assert measure_log(log).value == pytest.approx(16, rel=0.01)


def _trainer(start: str, steps: int, more: str = "") -> str:
    bars = (f"  {at}%|#   | {at}/300 [{at // 60:02}:{at % 60:02}<02:00,  1.00s/it]\n" for at in range(steps))
    return f"{start}\n  Total train batch size (w. parallel, distributed & accumulation) = 16\n" + (
        f"  Total optimization steps = 300\n{''.join(bars)}{more}"
    )


@pytest.mark.parametrize(
    "start", ["***** Running training *****", "Unsloth - 2x faster free finetuning | Num GPUs"]
)
@pytest.mark.parametrize("length", [1, 3000])
def test_a_trainer_that_starts_twice_is_in_doubt(read: Reader, start: str, length: int) -> None:
    codes = {problem.code for problem in read(_trainer(start, 200)).problems}
    log = read("".join([_trainer(start, 90), "some output\n" * 200 * length, _trainer(start, 200)]))

    assert "several-runs" not in codes
    assert "several-runs" in {problem.code for problem in log.problems}


def test_a_trainers_attempts_and_the_starts_of_its_processes_are_one_run(read: Reader) -> None:
    start = "***** Running training *****"
    attempt = _trainer(start, 2, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n")

    for before in (attempt, _trainer(start, 1)):
        codes = {problem.code for problem in read(before + _trainer(start, 200)).problems}
        assert "several-runs" not in codes


@pytest.mark.parametrize("name", ["trl", "lerobot", "nemo-rl"])
def test_a_second_start_of_a_program_without_a_counter_is_a_doubt(read: Reader, name: str) -> None:
    one, other = (
        synthetic_log(name, SampleRun([seconds + 0.0003 * (at * 7 % 11) for at in range(200)]))
        for seconds in (0.5, 0.54)
    )
    ranks = "".join(f"[rank{rank}]:{line}\n" for line in one.splitlines() for rank in range(2))

    for text in (one, ranks):
        assert "several-runs" not in {problem.code for problem in read(text).problems}
    log = read(one[: len(one) // 2] + "\n" + other)
    assert "several-runs" in {problem.code for problem in log.problems}


@pytest.mark.parametrize("name", ["torchtitan", "maxtext", "diffusers", "openpcdet", "modded-nanogpt"])
def test_two_jobs_that_print_into_one_file_in_turn_are_no_ranks(read: Reader, name: str) -> None:
    """The first line of each step was taken for all of them; ranks of one job have about the same pace."""
    jobs = [synthetic_log(name, SampleRun([seconds] * 200)).splitlines() for seconds in (0.5, 0.8)]

    def codes(one: list[str], other: list[str]) -> set[str]:
        text = "".join(f"{line}\n" for lines in zip(one, other, strict=True) for line in lines)
        return {problem.code for problem in read(text, given=Facts(gpus=8, batch_per_device=64)).problems}

    assert "several-runs" in codes(*jobs)
    assert "several-runs" not in codes(jobs[0], jobs[0])


def test_work_that_begins_anew_shows_a_second_run(read: Reader) -> None:
    line = "{{'loss': 1.2, 'tokens/train_per_sec_per_gpu': 2000.0, 'tokens/trainable': {}, 'epoch': 0.02}}\n"
    text = "world_size: 4\n" + "".join(line.format(8000 * at) for at in range(1, 50))

    assert read(text).status is Status.OK
    assert read(text + text).status is Status.INVALID


_COMPOSER = (
    "[batch={at}/900]:\n\t Train time/batch: {before}\n\t Train throughput/samples_per_sec: 32.5\n"
    "\t Train throughput/tokens_per_sec: 66560.0\n"
)


@pytest.mark.parametrize("end", range(0, 100, 7))
def test_composers_unit_is_tokens_wherever_the_first_part_of_its_log_ends(read: Reader, end: int) -> None:
    records = "".join(_COMPOSER.format(at=at, before=at - 1) for at in range(101, 900))

    log = read("x" * end + "\n" + records)

    assert (log.unit, log.records.count) == ("tokens/s", 799)


def test_two_runs_of_composer_in_a_file_are_refused(read: Reader) -> None:
    records = [_COMPOSER.format(at=at, before=at - 1) for at in range(1, 61)]

    assert read("".join(records)).status is Status.OK
    both = read("".join(records[:40] + records))
    assert (both.status, both.problems[0].code) == (Status.INVALID, "several-runs")


def test_without_a_batch_there_is_no_rate(read: Reader) -> None:
    run = SampleRun([0.5] * 100, interval=20)
    text = "".join(
        line + "\n" for line in synthetic_log("detectron2", run).splitlines() if "IMS_PER_BATCH" not in line
    )

    result = measure_log(read(text))

    assert (result.value, result.status) == (None, Status.INCOMPLETE)


@pytest.mark.parametrize(
    ("line", "given", "value"),
    [
        ("Train on 60000 samples\n60000/60000 [======] - 5s 85us/step - loss: 0.3\n", _GIVEN, 1 / 85e-6),
        ("60000/60000 [======] - 5s 85us/sample - loss: 0.3\n", Facts(), 1 / 85e-6),
        (
            "samples/sec: 45.123 | iteration       10/  320000 | elapsed time per iteration (ms): 22692.1 | lm |\n",
            Facts(),
            45.123,
        ),
        (
            " iteration      122/  250000 | elapsed time per iteration (s): 2.00 | global batch size: 1024 | lm |\n",
            Facts(),
            512.0,
        ),
    ],
)
def test_older_and_other_versions_of_a_line(read: Reader, line: str, given: Facts, value: float) -> None:
    assert measure_log(read(line * 30, given=given)).value == pytest.approx(value)


def test_averages_of_a_resumed_run_are_a_doubt(read: Reader) -> None:
    text = "[09/02 02:37:00 d2.engine.train_loop]: Starting training from iteration 5000\n"
    log = read(text + synthetic_log("detectron2", SampleRun([0.5] * 100, interval=20)))

    assert "resumed" in doubts_of(log)


def test_a_rate_with_an_exponent_and_a_batch_with_commas_are_read_completely(read: Reader) -> None:
    text = """***** Running training *****
  Instantaneous batch size per device = 1,024
  Total train batch size (w. parallel, distributed & accumulation) = 4,096
  Gradient Accumulation steps = 1
{'train_runtime': '0:05:00', 'train_samples_per_second': '1.234e+04', 'train_steps_per_second': '3.01', 'epoch': '1'}
"""
    log = read(text)

    assert (log.facts.batch_per_device, log.facts.global_batch, log.facts.gpus) == (1024, 4096, 4)
    assert measure_log(log).value == 12340


def test_a_format_is_known_by_whole_lines_however_long_its_header_is(read: Reader) -> None:
    # Where the first 32 KiB end in a record, a poorer form of the line matches what is left of it, without the batch.
    run = SampleRun([0.5] * 40, gpus=8, batch_per_device=2, interval=1)
    lines = [line for line in synthetic_log("megatron-lm", run).splitlines(True) if "] iteration " in line]
    until = 32_768 - 4 * len(lines[0])

    values = [
        measure_log(read("#" * header + "\n" + "".join(lines))).value
        for header in range(until, until + len(lines[0]), 50)
    ]

    assert values == [pytest.approx(32)] * len(values)


def test_the_line_of_megatron_bridge_is_read_as_that_of_megatron_lm(read: Reader) -> None:
    # Written for this test in the form of its source, which also prints the time of a step on a line of its own.
    line = (
        "Step Time : 0.50s GPU utilization: 400.0MODEL_TFLOP/s/GPU\n"
        " [2026-03-01 12:{minute:02}:00] iteration {step:8d}/    1000 | consumed samples: {consumed:12d} |"
        " elapsed time per iteration (ms): 500.0 | throughput per GPU (TFLOP/s/GPU): 400.0 |"
        " learning rate: 1.000000E-04 | global batch size:   128 | lm loss: 5.000000E+00 | loss scale: 1.0 |"
        " grad norm: 1.000 | number of skipped iterations:   0 | number of nan iterations:   0 |\n"
    )
    text = "".join(line.format(minute=n, step=120 * n, consumed=128 * 120 * n) for n in range(1, 20))

    log = read(text)

    assert (log.format, log.global_batch or log.facts.global_batch) == ("megatron-lm", 128)
    assert measure_log(log).value == pytest.approx(256)
    assert log.figures["tflops"] == 400


def test_the_second_value_of_primus_is_its_running_average_and_not_read(read: Reader) -> None:
    # The form of its patch of Megatron-LM's line: the value of the interval, a slash, the average of the last lines.
    line = (
        "[2026-03-01 12:{minute:02}:00] iteration {step:8d}/    1000 | consumed samples: {consumed:12d} |"
        " elapsed time per iteration (ms): 500.0/812.4 | hip mem usage/free/total/usage_ratio: 150.0GB/41.0GB/191.0GB"
        "/78.53% | compute per GPU (TFLOP/s/GPU): 400.0 (avg 246.0) | tokens/s/GPU inst/harmonic mean: 131072.0/80668.0"
        " | learning rate: 1.000000E-04 | global batch size:   128 | lm loss: 5.000000E+00 |\n"
    )
    text = "".join(line.format(minute=n, step=120 * n, consumed=128 * 120 * n) for n in range(1, 20))

    assert measure_log(read(text)).value == pytest.approx(256)


def test_unsloths_banner_has_the_batch_and_the_devices(read: Reader) -> None:
    log = read(
        "==((====))==  Unsloth - 2x faster free finetuning | Num GPUs used = 2\n"
        "   \\\\   /|    Num examples = 51,760 | Num Epochs = 1 | Total steps = 60\n"
        "O^O/ \\_/ \\    Batch size per device = 2 | Gradient accumulation steps = 4\n"
        "\\        /    Data Parallel GPUs = 2 | Total batch size (2 x 4 x 2) = 16\n"
        ' "-____-"     Trainable parameters = 41,943,040 of 8,072,204,288 (0.52% trained)\n'
        "{'loss': 1.5, 'grad_norm': 0.5, 'learning_rate': 2e-05, 'epoch': 0.01}\n"
        "{'train_runtime': 240.0, 'train_samples_per_second': 4.0, 'train_steps_per_second': 0.25, "
        "'train_loss': 1.2, 'epoch': 0.02}\n"
    )

    assert log.format == "hf-trainer"
    facts = log.facts
    assert (facts.gpus, facts.batch_per_device, facts.accumulation, facts.global_batch) == (2, 2, 4, 16)
    assert measure_log(log).value == 4.0


@pytest.mark.parametrize("name", ["axolotl", "liger-kernel", "trl"])
def test_the_results_of_the_trainer_below_a_program_are_no_other_run(read: Reader, name: str) -> None:
    log = read(synthetic_log(name, SampleRun([0.5] * 60)))

    assert log.format == name
    assert "several-formats" not in {problem.code for problem in log.problems}


def test_the_counter_of_a_pipeline_engine_may_be_of_a_total(read: Reader) -> None:
    """The engine of diffusion-pipe."""
    text = "".join(
        f"step: {at:>5} /  5000 loss: 0.2{at:03} iter time (s): 0.500 samples/sec: 64.000 eta: 4{at % 10}m\n"
        for at in range(1, 60)
    )

    log = read(text)

    assert (log.format, log.records.count) == ("deepspeed", 59)
    assert measure_log(log).value == pytest.approx(64)
