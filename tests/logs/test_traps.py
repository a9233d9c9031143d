"""Logs whose lines read like another number: each gives the right one, a doubt, or none."""

from statistics import fmean

import pytest
from conftest_logs import Reader, doubts_of, sound

from trainmark.campaign.executor import steps_shown
from trainmark.logs import Facts, ParsedLog
from trainmark.measure.rules import measure_log


def _epochs(*bars: str, times: int = 9) -> str:
    return "".join(f"Epoch {n}/{times}\n" + "".join(f"{bar}\n" for bar in bars) for n in range(1, times + 1))


_KERAS = Facts(gpus=1, batch_per_device=32)
_DRAWN = "[==============================]"
_ONE_EPOCH = f"195/195 {_DRAWN} - 99s 507ms/step - loss: 2\n"


@pytest.mark.parametrize(
    ("text", "value", "doubt"),
    [
        (_epochs(f"1875/1875 {_DRAWN} - 5s 2ms/step - loss: 0.2"), 12_000, "few-digits"),
        (_epochs(f"195/195 {_DRAWN} - 300s 2s/step - loss: 0.2"), 20.8, None),
        (_epochs(f"195/195 {_DRAWN} - 42s 63ms/step - loss: 0.2"), None, "rates-contradict-clock"),
        (_epochs(f"195/195 {_DRAWN} - 12s 63ms/step - loss: 0.2"), 32 / 0.063, None),
        (
            _epochs(f"195/195 {_DRAWN} - 12s 63ms/step - loss: 0.2", f"195/195 {_DRAWN} - 6s 31ms/step - loss: 0.2"),
            32 / 0.063,
            None,
        ),
        (
            _epochs(f"195/195 {_DRAWN} - 12s 63ms/step - loss: 0.2") + f"313/313 {_DRAWN} - 1s 3ms/step\n" * 9,
            32 / 0.063,
            None,
        ),
        (_ONE_EPOCH * 9 + f"195/195 {_DRAWN} - 98s 505ms/step\n", None, "evaluation-read"),
        (_ONE_EPOCH * 9 + f"313/313 {_DRAWN} - 160s 511ms/step - loss: 3\n", None, "evaluation-read"),
        (_ONE_EPOCH * 9, 32 / 0.507, None),
        (_epochs(f"3/3 {_DRAWN} - 60s 20s/step - loss: 0.2"), 1.6, "few-steps"),
    ],
    ids=[
        "digits",
        "seconds-are-finer",
        "first-step",
        "whole",
        "evaluate",
        "predict",
        "one-epoch-and-predict",
        "one-epoch-and-evaluate",
        "fits-of-one-epoch",
        "last-batch",
    ],
)  # fmt: skip
def test_keras_two_times_are_compared(
    read: Reader, text: str, value: float | None, doubt: str | None
) -> None:
    log = read(text, given=_KERAS)

    assert doubts_of(log).keys() - {"stall"} == ({doubt} if doubt else set())
    assert value is None or measure_log(log).value == pytest.approx(value)


def test_validation_within_an_epoch_of_lightning_is_a_doubt(read: Reader) -> None:
    def epoch(validation: str) -> str:
        bars = [
            f"Epoch 0:  5%|█▏| {n}/400 [00:{n // 8:02d}<02:55,  8.00it/s, v_num=0]\n"
            for n in range(50, 401, 50)
        ]
        return (
            "GPU available: True\n"
            + "".join((*bars[:4], validation, *bars[4:]))
            + "`Trainer.fit` stopped: x\n"
        )

    validation = "Validation DataLoader 0: 100%|██| 50/50 [00:30<00:00,  1.66it/s]\n"
    after = epoch("").replace("`Trainer", validation + "`Trainer")

    assert doubts_of(read(epoch(validation), given=_KERAS)).keys() == {"evaluation-included"}
    assert doubts_of(read(after, given=_KERAS)).keys() == set()


def test_a_batch_that_several_devices_share_is_a_doubt(read: Reader) -> None:
    bars = "".join(
        f"Epoch 0:  5%|█▏| {n}/400 [00:50<02:55,  8.00it/s, v_num=0]\n" for n in range(50, 401, 50)
    )
    log = read(
        f"GPU available: True\ntensor_model_parallel_size: 8\n{bars}`Trainer.fit` stopped: x\n", given=_KERAS
    )

    assert "model-parallel" in doubts_of(log)


def test_a_step_of_old_megatron_is_a_batch_of_each_model_parallel_group(read: Reader) -> None:
    arguments = "using world size: 64 and model-parallel size: 8\n" + "".join(
        f"  {name} ...................... {value}\n"
        for name, value in (("batch_size", 4), ("model_parallel_size", 8))
    )
    lines = (
        f" iteration {n:8d}/   50000 | elapsed time per iteration (ms): 1000.0 | learning rate 1.5E-04 |\n"
        for n in range(100, 5001, 100)
    )
    log = read(
        f"{arguments}{''.join(lines)}exiting program at iteration 5000\n", given=Facts(batch_per_device=4)
    )

    assert sound(log) == pytest.approx(4 * 8)


def _maskrcnn(start: int) -> str:
    took = 0.0
    lines = ["maskrcnn_benchmark INFO: Using 8 GPUs", "SOLVER:", "  IMS_PER_BATCH: 16", "TEST:"]
    for n in range(start + 1, 3001):
        took += 0.5
        if n % 20 == 0:
            mean = took / (n - start)
            lines.append(
                f"maskrcnn_benchmark.trainer INFO: eta: 1:02  iter: {n}  loss: 1  time: 0.5 ({mean:.4f})  data: 0.01"
            )
    return "\n".join((*lines, "maskrcnn_benchmark.trainer INFO: Total training time: 0:25:00", ""))


def test_averages_that_begin_late_are_those_of_a_resumed_run(read: Reader) -> None:
    assert sound(read(_maskrcnn(0))) == pytest.approx(32)
    assert doubts_of(read(_maskrcnn(1000))).keys() == {"resumed"}


def test_a_progress_bar_that_counts_steps_before_a_checkpoint_is_a_doubt(read: Reader) -> None:
    head = "***** Running training *****\n  Total train batch size (w. parallel, distributed & accumulation) = 64\n"
    bars = "".join(
        f"Steps:  5%|█▏ | {n}/1500 [00:{n // 50:02d}<01:00,  1.2s/it, lr=1e-05]\n" for n in range(1, 1501)
    )

    log = read(f"{head}Resuming from checkpoint checkpoint-1000\n{bars}")

    assert "resumed" in doubts_of(log)
    assert "resumed" not in doubts_of(read(head + bars))


def test_the_batch_that_a_configuration_is_scaled_to_counts(read: Reader) -> None:
    scaled = (
        "[09/02 02:30:04 d2.engine.defaults]: Auto-scaling the config to batch_size=8, learning_rate=0.01.\n"
    )

    assert read(f"\nSOLVER:\n  IMS_PER_BATCH: 16\n\n{scaled}" + _D2 * 9).facts.global_batch == 8


_D2 = "[09/02 02:37:24 d2.utils.events]:  eta: 0:05  iter: 19  total_loss: 1.9  time: 1.1  data_time: 0.02  lr: 0.1\n"
_TIMER = "[2023-04-18 03:36:{n:02d},683] [INFO] [timer.py:199:stop] {at}, RunningAvgSamplesPerSec={rate}, CurrSamplesPerSec={rate}, MemAllocated=4GB\n"  # noqa: E501


def test_the_line_that_times_both_engines_wins_over_those_of_each(read: Reader) -> None:
    both = (
        "|E2E latency=3.17s |Gather latency=0.00s (0.00%) |Others=0.23 (7.40%)|CurSamplesPerSec=10.09 |Avg\n"
    )
    lines = "".join(
        "".join(
            _TIMER.format(n=n, at=f"epoch=0/micro_step={n}/global_step={n}", rate=rate) for rate in (100, 250)
        )
        + both
        for n in range(1, 60)
    )
    log = read(f"cmd = deepspeed main.py\n{lines}act_loss: 0.1\nProcess 1 exits successfully.\n")

    assert sound(log) == pytest.approx(10.09)


def test_an_old_timer_without_a_printed_configuration_is_a_doubt(read: Reader) -> None:
    lines = "".join(_TIMER.format(n=n, at=f"0/{10 * n}", rate=12.5) for n in range(1, 60))

    assert "unit-unclear" in doubts_of(
        read(f"DeepSpeed info: version=0.7\n{lines}Process 1 exits successfully.\n")
    )


@pytest.mark.parametrize(
    ("line", "unclear"),
    [
        ("563/563 - 0s - {}us/step - loss: 2.3030\n", False),
        ("60000/60000 [==============================] - 2s {}us/step - loss: 2.3030\n", True),
    ],
)
def test_microseconds_of_keras_3_are_those_of_a_step(read: Reader, line: str, unclear: bool) -> None:
    lines = (f"Epoch {epoch}/9\n{line.format(230 + epoch)}" for epoch in range(1, 10))

    assert ("unit-unclear" in doubts_of(read("".join(lines)))) is unclear


def test_deepspeeds_pipeline_engine_is_not_read_next_to_megatrons_line(read: Reader) -> None:
    lines = [
        f"steps: {n} loss: 2.3000 iter time (s): 0.500 samples/sec: 64.000\n" for n in range(10, 990, 10)
    ]
    neox = " samples/sec: 54.243 | iteration {n:8d}/  3200 | elapsed time per iteration (ms): 23597.6 | learning rate 9.7E-05 | lm_loss: 2 |\n"  # noqa: E501
    log_text = "".join(line + neox.format(n=10 * n) for n, line in enumerate(lines, 1))

    alone = read("".join(lines))
    log = read(f"using world size: 96\n{log_text}exiting program at iteration 3000\n")

    assert (alone.format, log.format) == ("deepspeed", "megatron-lm")
    assert measure_log(alone).value == pytest.approx(64)
    assert sound(log) == pytest.approx(54.243)


_MXNET = "Namespace(batch_size=256, gpus='0,1,2,3', kv_store='{store}', network='resnet')\n"


@pytest.mark.parametrize(
    ("store", "workers", "value"),
    [("device", 1, 2000), ("dist_sync", 1, None), ("dist_sync_device", 3, 6000)],
)
def test_a_worker_of_a_distributed_store_prints_its_own_rate(
    read: Reader, store: str, workers: int, value: float | None
) -> None:
    tags = [f"Node[{n}] " if workers > 1 else "" for n in range(workers)]
    lines = "".join(
        f"{tag}INFO:root:Epoch[0] Batch [{batch}]\tSpeed: 2000.00 samples/sec\tacc=0.1\n"
        for batch in range(20, 999, 20)
        for tag in tags
    )

    result = measure_log(read(_MXNET.format(store=store) + lines))

    assert result.value == (pytest.approx(value) if value else None)


_LAUNCH = "+ python -m paddle.distributed.launch {} --gpus 0,1,2,3 tools/train.py\n"


@pytest.mark.parametrize(
    ("head", "devices"),
    [
        (_LAUNCH.format('--ips="10.0.0.1,10.0.0.2"'), 8),
        (_LAUNCH.format("--ips=node1,node2"), 8),
        (_LAUNCH.format("--nnodes=2 --master=10.0.0.1:8090"), 8),
        (_LAUNCH.format("") + "ips: 10.0.0.1,10.0.0.2\nnproc_per_node: None\n", 8),
        (_LAUNCH.format("") + "|          PADDLE_TRAINERS_NUM                8          |\n", 8),
        (_LAUNCH.format("") + "ips: None\n", 4),
        (
            _LAUNCH.format("")
            + "LAUNCH INFO x Job: default, mode collective, replicas 2[2:2], elastic False\n",
            8,
        ),
        ("LAUNCH INFO x nnodes: 2\nLAUNCH INFO x devices: None\nLAUNCH INFO x nproc_per_node: 4\n", 8),
        ("LAUNCH INFO x nnodes: 1\nLAUNCH INFO x Run Pod: abcdef, replicas 4, status ready\n", 4),
    ],
)
def test_paddles_launcher_prints_nodes_in_many_forms(read: Reader, head: str, devices: int) -> None:
    line = "[07/28 06:51:13] ppdet.engine.callbacks INFO: Epoch: [0] [20/7329] lr: 0.1 ips: 27.8440 images/s, max_mem\n"

    log = read(head + line)

    assert (log.format, log.facts.gpus, log.records.count) == ("paddledetection", devices, 1)


@pytest.mark.parametrize("shown", ["14,8861", "1,214.8861"])
def test_a_comma_does_not_end_a_number(read: Reader, shown: str) -> None:
    line = f"2023-07-27 12:00:00 [INFO]\t[TRAIN] epoch: 1, iter: 10/400, loss: 1.5, ips: {shown} samples/sec | ETA\n"

    log = read(line * 30, given=Facts(gpus=1))

    assert measure_log(log).value is None
    assert "commas" in log.problems[0].message


def _nemo_bar(n: int, consumed: int) -> str:
    return (
        f"Epoch 0: :  15%|▏ | {n}/300 [00:10<10:00, v_num=, global_step={float(f'{n - 1:.3g}'):.1f}, "
        f"consumed_samples={float(f'{consumed:.3g}'):.1f}, train_step_timing in s=6.080]\n"
    )


def test_of_several_batches_the_one_by_which_samples_are_consumed_counts(read: Reader) -> None:
    config = (
        "[NeMo I x] y\n  validation_ds:\n    global_batch_size: 8\n  train_ds:\n    global_batch_size: 128\n"
    )
    bars = "".join(_nemo_bar(n, n * 128) for n in range(1, 3001))
    end = "`Trainer.fit` stopped: x\n"

    assert sound(read(config + bars + end)) == pytest.approx(128 / 6.08)
    assert read(config + end).facts.global_batch is None


def test_the_batch_of_a_loader_is_not_that_of_its_sampler(read: Reader) -> None:
    config = (
        "Config:\ntrain_dataloader = dict(\n    batch_sampler=dict(type='X', batch_size=16),\n"
        "    batch_size=2,\n    dataset=dict(type='Y'))\nval_dataloader = dict(\n    batch_size=1)\n"
    )
    line = "2023/11/29 02:19:30 - mmengine - INFO - Epoch(train)  [1][ 50/663]  time: 1.0137  data_time: 0.05  x\n"

    assert read(f"{config}{line}").facts.batch_per_device == 2
    assert read(f"{config.replace('    batch_size=2,', '    x=2,')}{line}").facts.batch_per_device is None


def test_a_world_size_that_contradicts_being_distributed_is_unknown(read: Reader) -> None:
    line = "Epoch: [0]  [  10/5005]  eta: 0:35:22  lr: 0.1  time: 0.4294  data: 0.0003  max mem: 6000\n"

    assert read(f"Namespace(distributed=True, world_size=1)\n{line}").facts.gpus is None
    assert read(f"Namespace(distributed=False, world_size=1)\n{line}").facts.gpus == 1


@pytest.mark.parametrize("every", [1, 5, 10, 20])
def test_means_of_the_last_steps_count_each_step_once(read: Reader, every: int) -> None:
    """MetricLogger prints the mean of its last 20 steps: the last ones are in fewer lines than those before them."""
    seconds = [5.0] + [1.5] * 10 + [0.5] * 370 + [1.0] * 20
    lines = ["Not using distributed mode", "Namespace(batch_size=8, model='resnet50')"]
    for step in range(0, 401, every):
        mean = fmean(seconds[max(0, step - 19) : step + 1])
        lines.append(
            f"Epoch: [0]  [{step:3}/401]  eta: 0:01:00  lr: 0.1  loss: 2.3 (2.3)  time: {mean:.4f}  data: 0.0001"
        )

    log = read("\n".join([*lines, ""]))

    assert measure_log(log).value == pytest.approx(8 / fmean(seconds[21:]))


def test_means_of_the_last_steps_begin_anew_in_each_epoch(read: Reader) -> None:
    line = "Epoch: [{e}]  [{n:3}/50]  eta: 0:01:00  lr: 0.1  loss: 2.3 (2.3)  time: 0.5000  data: 0.0001\n"
    log = read("".join(line.format(e=e, n=n) for e in range(3) for n in range(0, 50, 10)))

    assert [(row.epoch, row.step) for row in log.records.rows()] == [
        (epoch, step) for epoch in range(3) for step in (0, 20, 40)
    ]


def test_means_of_the_last_steps_of_short_epochs_agree_with_their_total_time(read: Reader) -> None:
    """Print each tenth of 61 steps, in two epochs: the line of step 0 is that of one step."""
    line = "Epoch: [{e}]  [{n:3}/61]  eta: 0:01:00  lr: 0.1  loss: 2.3 (2.3)  time: 0.5000  data: 0.0001\n"
    epoch = (
        "".join(line.format(e="{e}", n=n) for n in range(0, 61, 10)) + "Epoch: [{e}] Total time: {total}\n"
    )
    head = "Namespace(batch_size=8, model='resnet50', world_size=1)\n"

    def log(total: str) -> ParsedLog:
        return read(head + "".join(epoch.format(e=e, total=total) for e in range(2)))

    assert "totals-disagree" not in doubts_of(log("0:00:30"))
    assert "totals-disagree" in doubts_of(log("0:00:55"))
    assert steps_shown(log("0:00:30")) == 2 * 61


def test_the_total_time_of_an_epoch_has_the_printed_time_of_its_first_step(read: Reader) -> None:
    """On a GPU the first step takes 20 s, the 199 others 13 s: what the program prints of both agrees."""
    line = "Epoch: [0]  [{n:3}/200]  eta: 0:01:00  lr: 0.1  loss: 2.3 (2.3)  time: {t:.4f}  data: 0.0001\n"
    lines = "".join(line.format(n=n, t=21.7 if n == 0 else 0.065) for n in range(0, 200, 20))
    head = "Namespace(batch_size=8, model='resnet50', world_size=1)\n"
    assert "totals-disagree" not in doubts_of(read(head + lines + "Epoch: [0] Total time: 0:00:34\n"))
    assert "totals-disagree" in doubts_of(read(head + lines + "Epoch: [0] Total time: 0:00:59\n"))


def test_a_rate_of_micro_batches_is_checked_against_the_tokens_per_step(read: Reader) -> None:
    line = "step {n:05d}/21400 (0.05%) | loss: 8.1 | dt: 440.12ms | tok/sec: {rate:,} | mfu: 48.02 | total\n"
    head = "Total batch size 524,288 => gradient accumulation steps: 8\n"

    def log(rate: int) -> ParsedLog:
        return read(head + "".join(line.format(n=n, rate=rate) for n in range(100)))

    assert doubts_of(log(148_904)).keys() == {"rates-contradict-batch"}
    assert sound(log(1_191_239)) == pytest.approx(1_191_239)


def test_iterations_that_are_left_out_are_not_missing(read: Reader) -> None:
    lines = ["tokens per iteration will be: 491,520"]
    for n in range(0, 2000, 10):
        if n % 250 == 0:
            lines.append(f"step {n}: train loss 3.1, val loss 3.2")
        lines.append(f"iter {n}: loss 8.2133, time {20000 if n % 250 == 0 else 135.4:.2f}ms, mfu 12.30%")

    assert sound(read("\n".join([*lines, ""]))) == pytest.approx(491520 / 0.1354)
    assert "records-missing" in doubts_of(read("\n".join([*lines[:50], *lines[60:], ""])))


def test_a_log_of_llm_c_begins_with_step_1(read: Reader) -> None:
    line = (
        "step {n:4d}/18865 | loss 8.7 (+0.00z)| norm 4.5 | lr 1e-05 | 230.11 ms | 58.0% MFU | 2278384 tok/s\n"
    )

    assert sound(read("".join(line.format(n=n) for n in range(1, 100)))) == pytest.approx(2_278_384)


def test_torchtitans_current_mesh_gives_the_devices(read: Reader) -> None:
    mesh = "[titan] 2025-06-16 22:20:01,100 - root - INFO - Building device mesh with parallelism: {}\n"
    line = "[titan] 2025-06-16 22:30:50,322 - root - INFO - step: 200  loss:  6.1  memory: 49.66GiB  tps: 5,856  x\n"

    log = read(mesh.format("pp=2, dp_replicate=1, dp_shard=8, cp=1, tp=4, ep=8, etp=1") + line)

    assert log.facts.gpus == 64


def test_torchtitans_context_length_is_the_tokens_of_a_sequence(read: Reader) -> None:
    log = read(
        "[titan] 2026-08-21 22:20:01,100 - root - INFO - Trainer is initialized with 16384 tokens per DP rank, "
        "32768 tokens per train step, gradient accumulation steps 1, maximum context length 2048, total steps 120\n"
        "[titan] 2026-08-21 22:30:50,322 - root - INFO - step: 9  loss:  6.1  memory: 49.66GiB  tps: 5,856  x\n"
    )

    assert (log.facts.sequence_length, log.facts.global_batch) == (2048, 32768)


def test_fairseqs_line_of_2019_is_a_mean_since_the_epochs_start(read: Reader) -> None:
    head = "Namespace(arch='transformer', distributed_world_size=8, max_tokens=3584)\n"

    def line(n: int) -> str:
        mean = 28_800 * n / (n + 50)  # the first steps took 50 s more
        return (
            f"| epoch 001: {n:6d} / 5000 loss=9.1, wps={mean:.1f}, ups=1, wpb=28800.0, wall=1, train_wall=9\n"
        )

    log = read(head + "".join(map(line, range(100, 5000, 100))) + "| done training in 5000.0 seconds\n")

    assert log.facts.gpus == 8
    assert sound(log) == pytest.approx(28_800, rel=1e-3)


@pytest.mark.parametrize(("slower", "doubts"), [(1.6, {"rates-contradict-clock"}), (1.0, set())])
def test_paddledetections_time_stamps_are_checked_against_its_step_times(
    read: Reader, slower: float, doubts: set[str]
) -> None:
    lines = []
    for n in range(60):
        passed = int(3600 * 23 + 3500 + n * 20 * 0.2873 * slower)
        stamp = f"07/{28 + passed // 86400:02d} {passed // 3600 % 24:02d}:{passed // 60 % 60:02d}:{passed % 60:02d}"
        lines.append(
            f"[{stamp}] ppdet.engine INFO: Epoch: [0] [{20 * n:4d}/7329] learning_rate: 0.0003 loss: 1.9 eta: 1:02:03 "
            "batch_cost: 0.2873 data_cost: 0.0003 ips: 27.8440 images/s\n"
        )
    log = read(_LAUNCH.format("--nnodes=1") + "".join(lines))

    assert doubts_of(log).keys() == doubts
    assert measure_log(log).value == pytest.approx(4 * 27.844)


@pytest.mark.parametrize(("flag", "devices"), [("False", 1), ("True", None)])
def test_paddleocr_says_whether_there_is_more_than_one_process(
    read: Reader, flag: str, devices: int | None
) -> None:
    head = f"[2024/08/06 18:03:30] ppocr INFO: Global : \n[2024/08/06 18:03:30] ppocr INFO:     distributed : {flag}\n"
    line = "[2024/08/06 18:03:31] ppocr INFO: epoch: [1/2], global_step: 100, ips: 355.1 samples/s\n"

    log = read(head + line)

    assert (log.facts.nodes, log.facts.gpus) == (devices, devices)


def test_a_log_without_either_end_has_one_problem_for_both(read: Reader) -> None:
    line = "[2023-04-18 03:36:{:02},683] [INFO] [timer.py:199:stop] 0/{}, SamplesPerSec=265.3, MemAllocated=4.34GB\n"

    log = read("".join(line.format(i, 20 + i) for i in range(30)))

    found = [problem for problem in log.problems if problem.code == "incomplete"]
    assert len(found) == 1
    assert found[0].message == (
        "the start of the log (the program prints its settings there) and the end of the run are missing"
    )


def test_the_average_of_a_resumed_megatron_swift_covers_fewer_steps_than_its_counter(read: Reader) -> None:
    head = "[INFO:swift] args: SftArguments(per_device_train_batch_size=4, gradient_accumulation_steps=2)\n"
    lines = [
        f"{{'loss': 0.4, 'iteration': '{1000 + done}/5000', 'elapsed_time': '4m 10s', 'remaining_time': '15m', "
        f"'memory(GiB)': 70.1, 'train_speed(s/it)': {(200 + 5 * done) / done:.6f}}}\n"
        for done in range(10, 310, 10)
    ]

    assert "resumed" in doubts_of(read(head + "".join(lines), given=Facts(gpus=1)))


def test_ranks_with_other_speeds_are_a_doubt(read: Reader) -> None:
    line = "[rank{rank}]:[titan] 2026-03-01 12:{m:02}:{s:02},000 - root - INFO - step: {at}  loss:  8.0  memory: 1GiB(1%)  tps: {tps}  tflops: 100.00  mfu: 20.00%\n"  # noqa: E501

    def text(slower: int) -> str:
        return "".join(
            line.format(rank=rank, m=8 * at // 60, s=8 * at % 60, at=at, tps=1024 - slower * rank)
            for at in range(1, 61)
            for rank in range(8)
        )

    assert "ranks-differ" not in doubts_of(read(text(2), given=Facts(gpus=8)))
    log = read(text(100), given=Facts(gpus=8))
    assert "ranks-differ" in doubts_of(log)
    message = next(problem.message for problem in log.problems if problem.code == "ranks-differ")
    assert "prints 1024 units/s, all 8 ranks 674 on average (324 to 1024)" in message


@pytest.mark.parametrize(("data", "doubted"), [(0.01, False), (0.25, False), (0.9, True)])
def test_a_wait_that_is_longer_than_the_step_is_a_doubt(read: Reader, data: float, doubted: bool) -> None:
    text = "".join(
        f"Epoch: [0][{at:5d}/5005]\tTime  0.250 ( 0.250)\tData  {data:.3f} ( {data:.3f})\tLoss 6.9 (6.9)\t"
        "Acc@1   0.00 (  0.10)\tAcc@5   0.4 (  0.5)\n"
        for at in range(0, 2000, 10)
    )

    log = read(text, given=Facts(gpus=1, batch_per_device=256))

    assert ("wait-left-out" in doubts_of(log)) is doubted


@pytest.mark.parametrize(("seconds", "doubted"), [(5, False), (10, True)])
def test_detectron2s_times_are_held_against_its_stamps(read: Reader, seconds: int, doubted: bool) -> None:
    text = "".join(
        f"[03/01 12:{seconds * at // 60:02}:{seconds * at % 60:02} d2.utils.events]:  eta: 1:00:00  "
        f"iter: {20 * at - 1}  total_loss: 1.0  time: 0.2500  data_time: 0.01  lr: 0.01  max_mem: 5000M\n"
        for at in range(1, 100)
    )

    log = read(text, given=Facts(gpus=8, batch_per_device=2))

    assert ("rates-contradict-clock" in doubts_of(log)) is doubted


@pytest.mark.parametrize(("steps", "doubted"), [(100, False), (50, True)])
def test_trainings_of_other_lengths_in_a_log_of_keras_are_a_doubt(
    read: Reader, steps: int, doubted: bool
) -> None:
    text = "".join(
        f"Epoch {epoch}/3\n{of}/{of} {_DRAWN} - 10s {10_000 // of}ms/step - loss: 2.0\n"
        for of in (100, steps)
        for epoch in (1, 2, 3)
    )

    assert ("several-runs" in doubts_of(read(text, given=_KERAS))) is doubted
