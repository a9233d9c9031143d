"""Variants of each family of published logs, with the traps that are known of them, read by name and content."""

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from trainmark.logs import Facts, ParsedLog, Status
from trainmark.measure.rules import measure_log
from trainmark.programs import read_stream
from trainmark.schema.precision import Precision


@dataclass(frozen=True)
class Expected:
    """What a log must be read as; ``records`` and ``value`` where they say more than that it was read."""

    format: str
    gpus: int | None
    batch: int | None
    precision: Precision | None
    unit: str
    records: int
    nodes: int | None = None
    value: float | None = None
    codes: frozenset[str] = frozenset()


Lines = Iterator[str]


def _paddleclas(
    gpus_line: str = "", *, nodes: int = 1, o2: bool = False, batch: int = 128, end: str = ""
) -> str:
    def lines() -> Lines:
        yield "grep: warning: GREP_OPTIONS is deprecated; please use an alias or script"
        if gpus_line:
            stamp = "LAUNCH INFO 2023-07-28 07:49:49,627"
            yield from (
                f"{stamp} devices: {gpus_line}",
                f"{stamp} ips: {'None' if nodes == 1 else '10.0.0.1,10.0.0.2'}",
            )
            yield f"{stamp} nnodes: {nodes}"
        stamp = "[2023/07/28 06:50:01] ppcls INFO:"
        if o2:
            yield from (
                f"{stamp} AMP : ",
                f"{stamp}     scale_loss : 128.0",
                f"{stamp}     use_pure_fp16 : True",
            )
        yield from (f"{stamp} Arch : ", f"{stamp}     name : ResNet50", f"{stamp} DataLoader : ")
        yield from (
            f"{stamp}     Train : ",
            f"{stamp}             batch_size : {batch}",
            f"{stamp}     Eval : ",
        )
        yield from (f"{stamp}             batch_size : 64", f"{stamp} Global : ", f"{stamp}     epochs : 8")
        yield f"{stamp} Optimizer : "
        yield "W0728 06:50:05.1 1 gpu_resources.cc:61] WARNING: device: \0. The installed Paddle is compiled with 8.2"
        yield from (
            "100%|####| 10/10\r 50%|##| 5/10\r",
            "W0728 GPU Compute Capability: 7.0, Driver API Version: 12.0",
        )
        for step in range(10, 810, 10):
            second = 120 + step * batch / 400
            yield (
                f"[2023/07/28 06:{50 + int(second) // 60 % 10:02d}:{int(second) % 60:02d}] ppcls INFO: epoch:0   train "
                f"step:{step:<4d}  lr: 0.100000, loss:  6.5369 top1: {'-' if step % 3 else ' '}0.0078 top5: -0.0312 "
                f"batch_cost: {batch / 400:.5f} s, reader_cost: 0.00051 s, ips: 400.00000 samples/sec."
            )
        if end:
            yield end

    return "\n".join(lines())


def _ngc_pytorch(gpus: int | None, *, mpi: bool, steps: int = 99) -> str:
    def lines() -> Lines:
        rank = iter(range(1 << 30))
        for line in body():
            number = next(rank)
            yield f"Wed Jun  1 10:54:{number % 60:02d} 2022[1,0]<stdout>:{line}" if mpi else line
            if mpi and number % 9 == 0:
                yield f"Wed Jun  1 10:54:{number % 60:02d} 2022[1,{number % 4}]<stderr>:[[1,5]<stderr>:06:24:28] x"

    def body() -> Lines:
        if gpus:
            yield (
                "DLL 2023-08-04 05:47:49.926771 - PARAMETER data : /imagenet  data_backend : dali-cpu  arch : resnet50"
                f"  batch_size : 256  optimizer_batch_size : -1  amp : True  memory_format : nhwc  world_size : {gpus} "
            )
        for step in range(1, steps + 1):
            when = f"2023-08-04 05:{48 + step // 60:02d}:{step % 60:02d}.922593"
            rate = 55.12 if step == 1 else 179.5 if step == steps and steps < 99 else 6000.0
            if mpi:
                yield f"DLL {when} - Epoch: 0 Iteration: {step}  train.loss : 6.9  train.total_ips : {rate:.1f} img/s"
            else:
                yield (
                    f"DLL {when} - Epoch: 0 Iteration: {step}  train.loss : 6.37483 None train.compute_ips : "
                    f"{rate * 1.01:.2f} images/s train.total_ips : {rate:.2f} images/s train.lr : 0.1  train.grad_scale"
                    " : 256.00000 None"
                )
        total = "train.loss : 6.1 None train.total_ips : 5900.00 images/s val.top1 : None %"
        yield f"DLL 2023-08-04 05:59:31.703305 - Epoch: 0  {total}"
        yield f"DLL 2023-08-04 05:59:33.047158 - Summary: {total}"
        yield "Experiment ended"

    return "\n".join(lines())


def _ngc_tensorflow(gpus: int, *, mpi: bool) -> str:
    def lines() -> Lines:
        if not mpi:
            yield (
                "DLL 2022-11-24 04:09:31.727199 - PARAMETER arch : resnet50  mode : training_benchmark  batch_size :"
                " 256  iter_unit : batch  warmup_steps : 200  amp : True "
            )
            yield from (f"Num GPUs {gpus}", "Per-GPU Batch Size 256")
        for record in range(30):
            second = record * 5
            text = (
                f"DLL 2022-11-24 04:{10 + second // 60:02d}:{second % 60:02d}.886213 - (0, {200 + record * 10}) "
                f"total_ips : {4096.0 + record % 3} "
            )
            yield f"Thu Nov 24 04:10:01 2022[1,0]<stdout>:{text}" if mpi else text
        end = "DLL 2022-11-24 04:13:00.618463 - () train_throughput : 4096.5"
        yield f"Thu Nov 24 04:13:00 2022[1,0]<stdout>:{end} " if mpi else f"{end} images/s"
        if mpi:
            yield "Thu Nov 24 04:13:00 2022[1,0]<stdout>:"

    return "\n".join(lines())


def _ngc_mxnet(gpus: int, *, listed: int, batch: int) -> str:
    def lines() -> Lines:
        yield (
            "[1,0]<stdout>:DLL 2023-07-31 06:20:00.1 - PARAMETER arch : resnetv15  num_layers : 50  gpus : "
            f"{list(range(listed))}  kv_store : horovod  dtype : float16  amp : False  batch_size : {batch * gpus}  "
            "dllogger_log : benchmark_report_fp16.json-8,256 "
        )
        for rank in range(gpus):
            yield f"[1,{rank}]<stderr>:[[1,{rank}]<stderr>:06:24:28] ../src/storage.cc:196: Using Pooled StorageManager"
        for step in range(19, 500, 20):
            yield (
                f"[1,0]<stdout>:DLL 2023-07-31 06:2{step // 100}:{step % 100 // 2:02d}.765747 - Epoch: 0 Iteration: "
                f"{step}  train.loss : 7.0020 train.ips : {10000.5} images/s train.lr : 0.0159744"
            )
        yield "[1,0]<stdout>:DLL 2023-07-31 06:40:01.1 - Epoch: 0  train.loss : 6.20 train.ips : 9800.1 images/s"
        yield "[1,0]<stdout>:DLL 2023-07-31 06:40:02.1 - Summary: train.loss : 6.20  train.ips : 9800.1 images/s"
        yield from (
            "train.ips",
            "           |    256    |",
            "------------------------",
            f"     {gpus}     |   10336   |",
            "",
        )

    return "\n".join(lines())


def _paddlenlp_bert(word: str, *, header: bool, launcher: str = "") -> str:
    def lines() -> Lines:
        if header:
            yield "Namespace(batch_size=96, gradient_merge_steps=22, max_steps=500, use_amp=True, use_pure_fp16=False)"
        for step in range(10, 501, 10):
            yield (
                f"{word} step: {step}, epoch: 0, batch: {step - 1}, loss: 11.090787, avg_reader_cost: 0.00011 sec, "
                "avg_batch_cost: 0.14243 sec, avg_samples: 96.00000, ips: 673.51948 sequences/sec"
            )
        if launcher:
            yield launcher

    return "\n".join(lines())


def _ngc_pytorch_bert(*, gpus: int, batch: int, accumulation: int) -> str:
    def lines() -> Lines:
        yield (
            "DLL 2023-07-28 15:20:00.992899 - PARAMETER Config : [\"Namespace(bert_model='bert-base', fp16=True, "
            f"gradient_accumulation_steps={accumulation}, max_predictions_per_seq=20, n_gpu=1, "
            f'train_batch_size={batch * accumulation})"] '
        )
        for record in range(33):
            second, iteration = record * 20, max(record - 12, 1)
            clock = f"2023-07-28 15:{23 + second // 60:02d}:{second % 60:02d}.992899"
            if iteration < 20:
                yield (
                    f"DLL {clock} - Training Epoch: 0 Training Iteration: {iteration}  average_loss : 9.11 "
                    f"learning_rate : 0.004 skipped_steps : 10"
                )
            else:
                yield f"DLL {clock} - Training Epoch: 0 Training Iteration: {iteration}  final_loss : 8.56 None"
            yield "Iteration:  67%|######7   | 773/1147 [02:21<01:06,  5.65it/s]\r"
        rate = gpus * batch * accumulation / 20
        yield (
            f"DLL 2023-07-28 15:40:00.1 -  e2e_train_time : 428.12 s training_sequences_per_second : {rate} sequences/s"
            " final_loss : 8.57 None raw_train_time : 400.43 s"
        )

    return "\n".join(lines())


def _ngc_tensorflow_bert(*, summary: bool) -> str:
    def lines() -> Lines:
        for record in range(40):
            iteration = max(record - 7, 1)
            yield f"Skipping time record for  {iteration}  due to checkpoint-saving/warmup overhead"
            yield (
                f"DLL 2023-08-01 04:{16 + record:02d}:56.456185 - Iteration: {iteration}  throughput_train : 537.102 "
                "sequences/s mlm_loss : 10.41  nsp_loss : 0.70  total_loss : 11.11  learning_rate : 1.2e-05  "
                "loss_scaler : 134217728"
            )
        if summary:
            yield "DLL 2023-08-01 04:58:56.456185 -  throughput_train : 464.65 sequences/s"
            yield from (
                "Throughput Average (sentences/sec) = 464.65",
                "Throughput Average (sentences/sec) = 1702.11",
            )

    return "\n".join(lines())


def _paddlenlp_old() -> str:
    return "\n".join(
        f"2021-05-08 17:{45 + i // 6 % 15:02d}:{i % 6 * 10:02d},195-INFO: step_idx: {i * 10}, epoch: 0, batch: {i},"
        " avg loss: 10.1, normalized loss: 8.7, ppl: 25.0, "
        + ("" if i == 0 else "avg_speed: 4.44 step/s, batch_cost: 0.22501 sec, reader_cost: 0.00011 sec, ")
        + ("" if i == 0 else "tokens: 46643, ips: 20729.05367 words/sec")
        for i in range(41)
    )


def _fairseq(*, mpi: bool, gpus: int) -> str:
    def lines() -> Lines:
        tag = "Wed Jun  1 10:54:35 2022[1,0]<stdout>:" if mpi else ""
        yield (
            f"{tag}Namespace(amp=True, arch='transformer_wmt_en_de_big_t2t', distributed_world_size={gpus}, fp16=False,"
            " max_tokens=5120, update_freq=[1])"
        )
        for step in range(10, 3950, 10):
            yield (
                f"{tag}Transformer | epoch 0 | step {step} |avg loss 5.113 |avg tokens 36795.500 |tokens/s 210024.282 "
                f"|walltime {12 + step * 36795.5 / 210024.282:.3f} |"
            )
        yield f"{tag}| Translated 3000 sentences (7441 tokens) in 1.7s (1795.71 sentences/s, 31529.53 tokens/s)"
        yield f"{tag}| done training in 680.3 seconds"
        yield f"{tag}Transformer | epoch 0 | step () |avg loss 4.774 |walltime 690.627 |"

    return "\n".join(lines())


def _paddleseg(used: int, *, steps: int = 50, launcher: str = "") -> str:
    def lines() -> Lines:
        if launcher:
            yield launcher
        yield from (
            "------------Environment Information-------------",
            f"GPUs used: {used}",
            "PaddleSeg: develop",
        )
        yield from (
            "---------------Config Information---------------",
            "batch_size: 4",
            "model:",
            "  type: DeepLabV3P",
        )
        yield "2022-02-05 04:28:30 [INFO]\tuse AMP to train. AMP level = O1"
        for step in range(10, steps + 1, 10):
            yield (
                f"2023-07-27 12:59:{step // 10:02d} [INFO]\t[TRAIN] epoch: 1, iter: {step}/{steps}, loss: 1.5033, lr: "
                "0.009345, batch_cost: 0.5374, reader_cost: 0.02020, ips: 7.4431 samples/sec | ETA 00:03:18"
            )
        yield "\x1b[32mTotal Flops: 228440246784     Total Params: 26794243\x1b[0m"

    return "\n".join(lines())


def _mmseg(*, mpi: bool) -> str:
    def lines() -> Lines:
        yield "2022-02-10 06:18:58,913 - mmseg - INFO - Distributed training: True"
        yield "2022-02-10 06:18:58,953 - mmseg - INFO - Config:"
        yield from ("model = dict(", "    type='EncoderDecoder',", "    pretrained=None)")
        yield from (
            "data = dict(",
            "    samples_per_gpu=8,",
            "    workers_per_gpu=4)",
            "gpu_ids = range(0, 1)",
        )
        for step in range(2, 41, 2):
            yield (
                f"2022-02-10 06:21:{step:02d},088 - mmseg - INFO - Iter [{step}/40]\tlr: 8.426e-03, eta: 0:01:06, time:"
                " 0.500, data_time: 0.008, memory: 18707, decode.loss_ce: 1.9157, loss: 2.1"
            )

    tag = "Thu Feb 10 06:21:17 2022[1,0]<stderr>:" if mpi else ""
    return "\n".join(tag + line for line in lines())


def _paddlerec(trainers: int, *, batches: bool) -> str:
    def lines() -> Lines:
        yield f"I0220 14:53:33.269551  9974 communicator.h:205] trainers: {trainers}"
        for epoch in range(3):
            if batches:
                yield (
                    f"2021-02-20 14:28:02,412 - INFO - Epoch: {epoch}, Batch: 100, auc: [0.66], cost: [0.49],  "
                    "avg_batch_cost: 1.02084 sec, avg_samples: 1000.00000, ips: 979.58359 example/sec"
                )
            yield (
                f"2021-02-22 02:2{epoch}:19,513 - INFO - Epoch: {epoch}, using time 130.599303007 second, ips "
                "84225.62561 example/sec."
            )

    return "\n".join(lines())


_FP32, _AMP, _PURE = Precision.FP32, Precision.AMP_FP16, Precision.FP16
_LAUNCH = "python -m paddle.distributed.launch --log_dir=./mylog --gpus=0,1,2,3,4,5,6,7 {} run_pretrain.py"
_IPS = "--ips=10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4"
_CASES: dict[str, tuple[Callable[[], str], Expected]] = {
    "V100-LOG/PaddleClas_ResNet50_bs128_pure_fp16_DP_N1C1_log": (
        lambda: _paddleclas(o2=True),
        Expected("paddleclas", 1, 128, _PURE, "images/s", 80, 1, 400.0),
    ),
    "V100-LOG/PaddleClas_ResNet50_bs256_fp32_DP_N4C32_log": (
        lambda: _paddleclas(
            "0,1,2,3,4,5,6,7", nodes=4, batch=256, end="LAUNCH INFO x Terminating with signal 15"
        ),
        Expected("paddleclas", 32, 256, _FP32, "images/s", 80, 4, 12800.0),
    ),
    "V100-LOG/pytorch_gpu8_amp_bs256.txt": (
        lambda: _ngc_pytorch(8, mpi=False, steps=63),
        Expected("ngc-pytorch-convnets", 8, 256, _AMP, "images/s", 63),
    ),
    "V100-LOG/pytorch_gpu32_amp_bs256.txt": (
        lambda: _ngc_pytorch(None, mpi=True),
        Expected("ngc-pytorch-convnets", 32, 256, _AMP, "images/s", 99, None, 6000.0),
    ),
    "V100_LOG/tf_gpu1_amp_bs256.txt": (
        lambda: _ngc_tensorflow(1, mpi=False),
        Expected("ngc-tensorflow-convnets", 1, 256, _AMP, "images/s", 30),
    ),
    "V100_LOG/tf_gpu32_amp_bs256.txt": (
        lambda: _ngc_tensorflow(32, mpi=True),
        Expected("ngc-tensorflow-convnets", 32, 256, _AMP, "images/s", 30),
    ),
    "V100_LOG/mxnet_gpu8_amp_bs256.txt": (
        lambda: _ngc_mxnet(8, listed=8, batch=256),
        Expected("ngc-mxnet-convnets", 8, 256, _AMP, "images/s", 25, None, 10000.5),
    ),
    "V100_LOG/mxnet_gpu32_amp_bs256.txt": (
        lambda: _ngc_mxnet(32, listed=8, batch=256),
        Expected("ngc-mxnet-convnets", 32, 256, _AMP, "images/s", 25, None, 10000.5),
    ),
    "V100_LOG/PaddleNLP_bert_base_seqlen128_bs96_fp32_DP_N4C32_log": (
        lambda: _paddlenlp_bert("tobal", header=False, launcher=_LAUNCH.format("")),
        Expected("paddlenlp-bert", 32, 96, _FP32, "sequences/s", 50, 4, 32 * 673.51948),
    ),
    "V100_LOG/PaddleNLP_bert_base_seqlen128_bs96_amp_fp16_DP_N4C32_log": (
        lambda: _paddlenlp_bert("tobal", header=True, launcher=_LAUNCH.format(_IPS)),
        Expected("paddlenlp-bert", 32, 96, _AMP, "sequences/s", 50, 4, 32 * 673.51948),
    ),
    "V100_LOG/bert_base_lamb_pretraining.pyt_bert_pretraining_phase1_fp16_bs96_gpu8.log": (
        lambda: _ngc_pytorch_bert(gpus=8, batch=96, accumulation=88),
        Expected("ngc-pytorch-bert", 8, 96, _AMP, "sequences/s", 33, None, 8 * 96 * 88 / 20),
    ),
    "V100_LOG/tf_bert_pretraining_lamb_base_fp16_bs96_gpu8.log": (
        lambda: _ngc_tensorflow_bert(summary=True),
        Expected(
            "ngc-tensorflow-bert",
            8,
            96,
            _AMP,
            "sequences/s",
            40,
            None,
            537.102,
            frozenset({"summary-differs"}),
        ),
    ),
    "V100_LOG/tf_bert_pretraining_lamb_base_fp32_bs48_gpu1.log": (
        lambda: _ngc_tensorflow_bert(summary=False),
        Expected(
            "ngc-tensorflow-bert", 1, 48, _FP32, "sequences/s", 40, None, 537.102, frozenset({"incomplete"})
        ),
    ),
    "V100_LOG/PaddleNLP_transformer_big_bs5120_fp32_DP_N4C32_log": (
        _paddlenlp_old,
        Expected("paddlenlp-transformer", 32, 5120, _FP32, "words/s", 40, 4, 32 * 20729.05367),
    ),
    "V100_LOG/transformer_pytorch_bs5120_amp_gpu1": (
        lambda: _fairseq(mpi=False, gpus=1),
        Expected("fairseq", 1, 5120, _AMP, "tokens/s", 394, None, 210024.282),
    ),
    "V100_LOG/transformer_pytorch_bs5120_fp16_gpu32": (
        lambda: _fairseq(mpi=True, gpus=32),
        Expected("fairseq", 32, 5120, _AMP, "tokens/s", 394, None, 210024.282),
    ),
    "Deeplabv3_AMP_BS4-N32.log": (
        lambda: _paddleseg(32),
        Expected("paddleseg", 32, 4, _AMP, "samples/s", 5, None, 32 * 7.4431),
    ),
    "launched/Deeplabv3_AMP_BS4-N32.log": (
        lambda: _paddleseg(32, launcher=_LAUNCH.format(_IPS)),
        Expected("paddleseg", 32, 4, _AMP, "samples/s", 5, 4, 32 * 7.4431),
    ),
    "own/Deeplabv3_AMP_BS4-N32.log": (
        lambda: _paddleseg(8),
        Expected("paddleseg", 32, 4, _AMP, "samples/s", 5, None, 32 * 7.4431),
    ),
    "V100/deeplabv3p_c32_fp32.log": (
        lambda: _mmseg(mpi=True),
        Expected("mmsegmentation", 32, 8, _FP32, "samples/s", 20, None, 32 * 8 / 0.5),
    ),
    "CtrDnn_DataLoader_16Thread_2Node": (
        lambda: _paddlerec(4, batches=True),
        Expected(
            "paddlerec",
            None,
            None,
            None,
            "example/s",
            3,
            4,
            4 * 84225.62561,
            frozenset({"name-contradicts-log"}),
        ),
    ),
    "CtrDnn_Dataset_16Thread_1Node": (
        lambda: _paddlerec(1, batches=False),
        Expected("paddlerec", None, None, None, "example/s", 3, 1, 84225.62561),
    ),
}


def _read(name: str, text: str) -> ParsedLog:
    return read_stream(io.BytesIO(text.encode()), name)


@pytest.mark.parametrize("name", sorted(_CASES))
def test_a_variant_is_read_by_its_content_and_its_name(name: str) -> None:
    build, expected = _CASES[name]

    log = _read(name, build())
    result = measure_log(log)

    facts = log.facts
    assert log.status is Status.OK, log.problems
    assert (log.format, log.unit, log.records.count) == (expected.format, expected.unit, expected.records)
    assert (facts.gpus, facts.batch_per_device, facts.precision, facts.nodes) == (
        expected.gpus,
        expected.batch,
        expected.precision,
        expected.nodes,
    )
    codes = {problem.code for problem in (*log.problems, *result.problems)}
    assert expected.codes <= codes
    assert "name-contradicts-log" in expected.codes or "name-contradicts-log" not in codes
    if expected.value is not None:
        assert result.value == pytest.approx(expected.value, rel=0.01)


@pytest.mark.parametrize("name", sorted(_CASES))
def test_the_last_line_of_a_log_without_a_line_end_is_not_lost(name: str) -> None:
    text = _CASES[name][0]().rstrip("\n")

    assert _read(name, text).records.count == _read(name, text + "\n").records.count


def test_a_printed_number_of_micro_batches_tells_a_step_from_its_parts() -> None:
    log = _read("x_gpu1.log", _ngc_pytorch_bert(gpus=1, batch=96, accumulation=704))

    assert (log.facts.batch_per_device, log.facts.accumulation, log.global_batch) == (96, 704, 67584)


def test_a_given_batch_that_the_log_contradicts_is_reported() -> None:
    log = read_stream(
        io.BytesIO(_mmseg(mpi=True).encode()), "deeplabv3p_c32_fp32.log", Facts(batch_per_device=4)
    )

    assert measure_log(log).value is None
    assert "flag-contradicts-log" in {problem.code for problem in log.problems}
