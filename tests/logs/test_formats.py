"""Every format: what was put into a synthetic log comes out of it."""

import io
import random

import pytest

from trainmark.logs import Facts, Status
from trainmark.logs.synthetic import SampleRun
from trainmark.measure.rules import find_rule, measure_log
from trainmark.programs import find_format, formats, read_stream, samples, synthetic_log
from trainmark.programs.reading import descriptions
from trainmark.schema.precision import Precision

_INTERVALS = {
    "paddleclas": 10,
    "paddlenlp-bert": 10,
    "paddleseg": 5,
    "fairseq": 10,
    "ngc-tensorflow-convnets": 10,
    "mmsegmentation": 2,
    "paddlerec": 50,
    "mlperf": 50,
    "tensorflow-models": 50,
    "keras": 20,
    "detectron2": 20,
    "deepspeed": 10,
    "open-clip": 10,
    "lightning": 50,
    "diffusers": 10,
    "nvidia-gnmt": 20,
    "hugectr": 20,
    "oneflow-bert": 20,
    "oneflow-gpt": 10,
    "oneflow-wide-deep": 20,
    "nvidia-ncf": 10,
    "maskrcnn-benchmark": 20,
}
# What these programs print does not say devices and batch: their users give them by flag.
_SILENT = {"pytorch-imagenet", "timm", "keras", "lightning"}
_NEVER_AMP = {each.name for each in descriptions() if "{amp" not in str(each.sample)}
"""Formats whose synthetic log has one precision; the examples in their descriptions check it."""
_NO_PRECISION = {
    "hugectr",
    "oneflow-wide-deep",
    "build-nanogpt",
    "modded-nanogpt",
    "keras",
    "torchtitan",
    "pytorch-imagenet",
    "horovod-synthetic",
    "mlperf",
    "paddlerec",
    "tf-cnn-benchmarks",
}
_SAYS_ONLY_AMP = {"nemo", "lightning", "paddleseg", "mmsegmentation"}
"""Programs that say nothing where there is no mixed precision: silence is unknown."""
_EITHER = {"timm"}
"""Programs that say the same of FP16 and of BF16: their command tells."""
_PURE = {"deepspeed": Precision.FP16, "megatron-lm": Precision.BF16}
"""Programs that turn the network itself into 16 bits."""


def _run(name: str, *, amp: bool = False) -> SampleRun:
    chance = random.Random(7)
    times = [0.5 * (1 + 0.05 * chance.random()) for _ in range(400)]
    return SampleRun(times, gpus=8, batch_per_device=64, interval=_INTERVALS.get(name, 1), amp=amp)


def test_every_format_has_a_writer_and_every_writer_a_format() -> None:
    assert set(samples()) == {known.name for known in formats()}


@pytest.mark.parametrize("name", sorted(samples()))
def test_a_synthetic_log_gives_the_values_it_was_written_from(name: str) -> None:
    run = _run(name)
    given = Facts(gpus=8, batch_per_device=64) if name in _SILENT else None

    log = read_stream(io.BytesIO(synthetic_log(name, run).encode()), "-", given)
    result = measure_log(log)
    if result.needs:
        wanted = Facts(gpus=8, batch_per_device=None if log.facts.batch_per_device else 64)
        log = read_stream(io.BytesIO(synthetic_log(name, run).encode()), "-", wanted)
        result = measure_log(log)

    assert (log.format, log.status) == (name, Status.OK)
    assert log.unit == find_format(name).unit
    assert result.value == pytest.approx(run.global_batch * 400 / sum(run.step_times_s), rel=0.01)
    if log.facts.gpus is not None:
        assert log.facts.gpus == 8
    if log.facts.batch_per_device is not None:
        assert log.facts.batch_per_device * (log.facts.accumulation or 1) == 64


@pytest.mark.parametrize(
    ("words", "precision"),
    [
        ("--amp", Precision.AMP_FP16),
        ("--amp --amp-dtype bfloat16", Precision.AMP_BF16),
        ("--amp-dtype=bfloat16 --amp", Precision.AMP_BF16),
        ("--amp --amp-dtype float16", Precision.AMP_FP16),
        ("", None),
    ],
)
def test_timms_command_decides_between_fp16_and_bf16(words: str, precision: Precision | None) -> None:
    text = (
        f"torchrun --nproc-per-node 8 train.py /data {words}\n{synthetic_log('timm', _run('timm', amp=True))}"
    )
    assert read_stream(io.BytesIO(text.encode())).facts.precision is precision


@pytest.mark.parametrize("name", sorted(set(samples()) - _NO_PRECISION - _NEVER_AMP))
@pytest.mark.parametrize("amp", [False, True])
def test_precision_is_read(name: str, amp: bool) -> None:
    log = read_stream(io.BytesIO(synthetic_log(name, _run(name, amp=amp)).encode()))

    # Without the device's name nobody knows whether single precision was FP32 or TF32; our own runs say it.
    single = Precision.FP32 if name == "trainmark" else None
    if name in _SAYS_ONLY_AMP and not amp:
        assert log.facts.precision is None
        return
    expected = None if name in _EITHER else _PURE.get(name, Precision.AMP_FP16)
    assert log.facts.precision is (expected if amp else single)
    assert ("tf32-unknown" in [problem.code for problem in log.problems]) is (not amp and single is None)


@pytest.mark.parametrize(
    ("line", "format_name", "rate"),
    [
        (
            'DLLL {"timestamp": "1691128074.9", "datetime": "2023-08-04 05:47:54.922593", "elapsedtime": "5.0", '
            '"type": "LOG", "step": [0, 2], "data": {"train.loss": 6.3, "train.total_ips": 742.94, "train.lr": 0.1}}',
            "ngc-pytorch-convnets",
            742.94,
        ),
        (
            'DLLL {"timestamp": "1669262971.3", "datetime": "2022-11-24 04:09:31.352262", "elapsedtime": "5.0", '
            '"type": "LOG", "step": [0, 200], "data": {"total_ips": 9360.806356242965}}',
            "ngc-tensorflow-convnets",
            9360.806356242965,
        ),
        (
            "DLL 2020-08-14 03:35:07.412316 - (0, 21) imgs_per_sec : 358.42310532 cross_entropy : 7.02 l2_loss : 0.78 "
            "total_loss : 7.8 learning_rate : 0.0005",
            "ngc-tensorflow-convnets",
            358.42310532,
        ),
        (
            'DLLL {"timestamp": "1690784401.7", "datetime": "2023-07-31 06:20:01.765747", "elapsedtime": "5.0", '
            '"type": "LOG", "step": [0, 39], "data": {"train.loss": 7.0, "train.ips": 1502.2445}}',
            "ngc-mxnet-convnets",
            1502.2445,
        ),
        (
            'DLLL {"timestamp": "1690863416.4", "datetime": "2023-08-01 04:16:56.456185", "elapsedtime": "5.0", '
            '"type": "LOG", "step": [6], "data": {"throughput_train": 537.102, "mlm_loss": 10.41}}',
            "ngc-tensorflow-bert",
            537.102,
        ),
        (
            "[2022/01/02 03:04:05] ppcls INFO: [Train][Epoch 1/2][Iter: 10/500]lr: 0.10000, top1: 0.0, loss: 7.0, "
            "batch_cost: 0.38674s, reader_cost: 0.1, ips: 165.49 samples/sec, eta: 0:03:10",
            "paddleclas",
            165.49,
        ),
        (
            "2021-05-08 17:45:47,195-INFO: step_idx: 10, epoch: 0, batch: 10, avg loss: 10.1, ppl: 25, batch_cost: "
            "0.22501 sec, reader_cost: 0.00011 sec, tokens: 46643, ips: 20729.05367 words/sec",
            "paddlenlp-transformer",
            20729.05367,
        ),
        (
            "tobal step: 20, epoch: 0, batch: 19, loss: 11.09, avg_reader_cost: 0.00011 sec, avg_batch_cost: 0.14243 "
            "sec, avg_samples: 96.00000, ips: 673.51948 sequences/sec",
            "paddlenlp-bert",
            673.51948,
        ),
        (
            "[rank:0] [train], epoch: 0/50, iter: 100/625, loss: 0.86, top1: 0.05, throughput: 1390.19 | 2021-10-10",
            "oneflow",
            1390.19,
        ),
        (
            "step: 19, total_loss: 11.162, mlm_loss: 10.474, nsp_loss: 0.688, throughput: 149.842 1606801234.5678",
            "oneflow-bert",
            149.842,
        ),
        (
            "| 10       | 10              | 20              | 4.91978    | 0.40652    | 10.97391   |",
            "oneflow-gpt",
            4.91978,
        ),
        (
            "2020-11-03 10:11:12 | INFO | train_inner | epoch 001:    100 / 1500 loss=9.1, nll_loss=8.8, ppl=440, "
            "wps=30112.5, ups=8.4, wpb=3590.2, bsz=120, num_updates=100, lr=1e-05, gnorm=2, train_wall=12, wall=40",
            "fairseq",
            30112.5,
        ),
        ("INFO:root:Epoch[0] Batch [20-40]\tSpeed: 2000.50 samples/sec\taccuracy=0.1", "gluoncv", 2000.5),
    ],
)
def test_the_other_lines_of_a_format_are_read(line: str, format_name: str, rate: float) -> None:
    log = read_stream(io.BytesIO((line + "\n").encode()))

    assert log.format == format_name
    assert [record.rate for record in log.records.rows()] == [rate]


@pytest.mark.parametrize(
    ("switches", "precision"),
    [
        ("precision : fp32  use_tf_amp : True", Precision.AMP_FP16),
        ("precision : fp32  use_tf_amp : False", None),  # or TF32: the device is not named
        ("precision : fp16  use_tf_amp : False", Precision.FP16),
    ],
)
def test_the_tensorflow_program_of_container_20_03_is_read_in_its_mode_train(
    switches: str, precision: Precision | None
) -> None:
    lines = [
        f"DLL 2020-08-14 03:35:00.000000 - PARAMETER arch : resnet50  mode : train  iter_unit : batch  {switches} ",
        "Num GPUs 8",
        "Per-GPU Batch Size 128",
        *(
            f"DLL 2020-08-14 03:35:{second // 2:02d}.{second % 2 * 5}00000 - (0, {20 + second}) "
            f"imgs_per_sec : {2048.25 + second % 3} cross_entropy : 7.02 l2_loss : 0.78 total_loss : 7.8 "
            "learning_rate : 0.0005 "
            for second in range(100)
        ),
        "DLL 2020-08-14 03:36:00.000000 - () train_throughput : 2049.24 ",
    ]
    log = read_stream(io.BytesIO("".join(f"{line}\n" for line in lines).encode()))
    assert (log.format, log.facts.precision, log.facts.gpus) == ("ngc-tensorflow-convnets", precision, 8)
    assert [record.step for record in log.records.rows()] == list(range(20, 120))
    assert measure_log(log).value == pytest.approx(2048.0)
    assert measure_log(log, find_rule("dlperf-speed")).value == pytest.approx(2049.24)


def test_the_pure_fp16_of_nvidias_older_convnets_is_not_called_fp32() -> None:
    text = synthetic_log("ngc-pytorch-convnets", _run("ngc-pytorch-convnets"))
    log = read_stream(io.BytesIO(text.replace("amp : False", "amp : False  fp16 : True").encode()))
    assert log.facts.precision is Precision.FP16


def test_mlperfs_tracked_throughput_is_read_if_the_log_prints_the_batch() -> None:
    batch = ':::MLLOG {"time_ms": 1700000000000, "key": "global_batch_size", "value": 96, "metadata": {}}'
    lines = [
        ':::MLLOG {"namespace": "", "time_ms": 1700000000000, "event_type": "POINT_IN_TIME", "key": "tracked_stats", '
        f'"value": {{"throughput": {rate}}}, "metadata": {{"step": {step}}}}}'
        for step, rate in enumerate((2500.0, 2600.0), start=1)
    ]

    log = read_stream(io.BytesIO("\n".join([batch, *lines, ""]).encode()))
    unsized = read_stream(io.BytesIO("\n".join([*lines, ""]).encode()))

    assert [record.rate for record in log.records.rows()] == [2500.0, 2600.0]
    assert unsized.records.count == 0


@pytest.mark.parametrize(
    ("bar", "framework"),
    [("[==============================] -", "tensorflow"), ("━━━━━━━━━━━━━━━━━━━━", None)],
)
def test_a_bar_of_keras_3_states_no_framework(bar: str, framework: str | None) -> None:
    lines = "".join(f"Epoch {epoch}/3\n100/100 {bar} 5s 50ms/step - loss: 1.5\n" for epoch in (1, 2, 3))
    read = read_stream(io.BytesIO(lines.encode()), "log")
    assert (read.format, read.framework) == ("keras", framework)
