"""Writes a log of any known format from given step times: for tests, benchmarks, and to try one's own scripts on.

The lines are written from the documented formats (see each module of ``trainmark.logs.formats``), so that what a
reader makes of them can be compared with what was put in. Nothing here is a measurement.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta


@dataclass(frozen=True, slots=True)
class Run:
    """What is to be written: a run of equal steps but for their times.

    ``step_times_s`` are seconds, one a step (of the optimizer, where a format accumulates). A record is printed
    every ``interval`` steps. ``batch_per_device`` counts samples, or tokens in the Transformer formats.
    """

    step_times_s: Sequence[float]
    gpus: int = 8
    batch_per_device: int = 64
    interval: int = 1
    amp: bool = False
    start: datetime = datetime(2023, 7, 28, 6, 50, 0, tzinfo=UTC)

    @property
    def global_batch(self) -> int:
        """Samples of one step over all devices."""
        return self.gpus * self.batch_per_device


@dataclass(frozen=True, slots=True)
class _Line:
    """One record to be: the last step that it covers (from 1), its clock, its interval's step time and rates."""

    step: int
    clock: datetime
    elapsed_s: float
    step_time_s: float
    rate: float
    last_step_time_s: float
    average_rate: float


def synthetic_log(format_name: str, run: Run) -> str:
    """Return a whole log in the format called ``format_name``; raises ``KeyError`` for one without a writer."""
    return "".join(line + "\n" for line in WRITERS[format_name](run))


def _lines(run: Run) -> Iterator[_Line]:
    elapsed, interval_s = 0.0, 0.0
    for step, seconds in enumerate(run.step_times_s, start=1):
        elapsed += seconds
        interval_s += seconds
        if step % run.interval == 0:
            mean_s = interval_s / run.interval
            yield _Line(
                step=step,
                clock=run.start + timedelta(seconds=elapsed),
                elapsed_s=elapsed,
                step_time_s=mean_s,
                rate=run.global_batch / mean_s,
                last_step_time_s=seconds,
                average_rate=step * run.global_batch / elapsed,
            )
            interval_s = 0.0


def _end(run: Run) -> datetime:
    return run.start + timedelta(seconds=sum(run.step_times_s))


def _mean(run: Run) -> float:
    rates = [line.rate for line in _lines(run)]
    return sum(rates) / len(rates) if rates else float("nan")


def _overall(run: Run) -> float:
    return run.global_batch * len(run.step_times_s) / sum(run.step_times_s)


def _dll(moment: datetime) -> str:
    return f"DLL {moment:%Y-%m-%d %H:%M:%S.%f} -"


def _ngc_pytorch_convnets(run: Run) -> Iterator[str]:
    yield (
        f"{_dll(run.start)} PARAMETER data : /imagenet  data_backend : dali-cpu  arch : resnet50  batch_size : "
        f"{run.batch_per_device}  optimizer_batch_size : -1  amp : {run.amp}  memory_format : nchw  "
        f"world_size : {run.gpus} "
    )
    for line in _lines(run):
        yield (
            f"{_dll(line.clock)} Epoch: 0 Iteration: {line.step}  train.loss : 6.91234 None train.compute_ips : "
            f"{line.rate * 1.003:.2f} images/s train.total_ips : {line.rate:.2f} images/s train.lr : 0.1  "
            "train.grad_scale : 256.00000 None"
        )
    total = f"train.loss : 6.9 None train.total_ips : {_mean(run):.2f} images/s val.total_ips : None images/s"
    yield f"{_dll(_end(run))} Epoch: 0  {total}"
    yield f"{_dll(_end(run))} Summary: {total}"
    yield "Experiment ended"


def _ngc_tensorflow_convnets(run: Run) -> Iterator[str]:
    yield (
        f"{_dll(run.start)} PARAMETER arch : resnet50  mode : training_benchmark  batch_size : {run.batch_per_device}  "
        f"iter_unit : batch  display_every : {run.interval}  xla : True  data_format : NHWC  amp : {run.amp} "
    )
    yield from (f"Num GPUs {run.gpus}", f"Per-GPU Batch Size {run.batch_per_device}")
    for line in _lines(run):
        rate = run.global_batch / line.last_step_time_s
        yield f"{_dll(line.clock)} (0, {line.step}) total_ips : {rate} "
    yield f"{_dll(_end(run))} () train_throughput : {_overall(run)} images/s"


def _ngc_mxnet_convnets(run: Run) -> Iterator[str]:
    devices = list(range(run.gpus))
    dtype = "float16" if run.amp else "float32"
    yield (
        f"{_dll(run.start)} PARAMETER arch : resnetv15  num_layers : 50  gpus : {devices}  kv_store : horovod  "
        f"dtype : {dtype}  amp : False  batch_size : {run.global_batch}  disp_batches : {run.interval} "
    )
    for line in _lines(run):
        yield (
            f"{_dll(line.clock)} Epoch: 0 Iteration: {line.step - 1}  train.loss : 7.002006530761719 "
            f"train.ips : {line.rate} images/s train.lr : 0.015974400000000002"
        )
    yield f"{_dll(_end(run))} Epoch: 0  train.loss : 6.4  train.ips : {_overall(run)} images/s"
    yield f"{_dll(_end(run))} Summary: train.loss : 6.4  train.ips : {_overall(run)} images/s"


_ACCUMULATION = 4


def _ngc_pytorch_bert(run: Run) -> Iterator[str]:
    yield (
        f"{_dll(run.start)} PARAMETER Config : [\"Namespace(bert_model='bert-base', fp16={run.amp}, "
        f"gradient_accumulation_steps={_ACCUMULATION}, max_predictions_per_seq=20, n_gpu_total={run.gpus}, "
        f'train_batch_size={run.batch_per_device})"] '
    )
    yield f"{_dll(run.start)} PARAMETER batch_size_per_gpu : {run.batch_per_device // _ACCUMULATION} "
    for line in _lines(run):
        yield (
            f"{_dll(line.clock)} Training Epoch: 0 Training Iteration: {line.step}  average_loss : 9.11  "
            "step_loss : 9.1  learning_rate : 0.004 "
        )
    seconds = sum(run.step_times_s)
    yield (
        f"{_dll(_end(run))}  e2e_train_time : {seconds + 9} s training_sequences_per_second : {_overall(run)} "
        f"sequences/s final_loss : 8.5 None raw_train_time : {seconds} s"
    )


def _ngc_tensorflow_bert(run: Run) -> Iterator[str]:
    yield (
        f"+ mpirun python3 run_pretraining.py --train_batch_size={run.batch_per_device // _ACCUMULATION} "
        f"--num_accumulation_steps={_ACCUMULATION} --amp={run.amp} num_gpus: {run.gpus}"
    )
    for line in _lines(run):
        yield (
            f"{_dll(line.clock)} Iteration: {line.step}  throughput_train : {line.rate:.3f} sequences/s mlm_loss : "
            "10.41  nsp_loss : 0.70  total_loss : 11.11  learning_rate : 0.0 "
        )
    yield f"{_dll(_end(run))}  throughput_train : {_overall(run):.3f} sequences/s"
    yield f"Throughput Average (sentences/sec) = {_overall(run):.2f}"


def _paddleclas(run: Run) -> Iterator[str]:
    stamp = f"[{run.start:%Y/%m/%d %H:%M:%S}] ppcls INFO:"
    yield f"LAUNCH INFO {run.start:%Y-%m-%d %H:%M:%S},627 devices: {','.join(map(str, range(run.gpus)))}"
    yield f"LAUNCH INFO {run.start:%Y-%m-%d %H:%M:%S},627 ips: None"
    yield f"LAUNCH INFO {run.start:%Y-%m-%d %H:%M:%S},628 nnodes: 1"
    yield from (
        f"{stamp} Global : ",
        f"{stamp}     epochs : 1",
        f"{stamp} Arch : ",
        f"{stamp}     name : ResNet50",
    )
    if run.amp:
        yield from (f"{stamp} AMP : ", f"{stamp}     scale_loss : 128.0", f"{stamp}     level : O1")
    yield from (f"{stamp} Optimizer : ", f"{stamp} DataLoader : ", f"{stamp}     Train : ")
    yield from (f"{stamp}             batch_size : {run.batch_per_device}", f"{stamp}     Eval : ")
    for line in _lines(run):
        seconds = line.elapsed_s / line.step
        yield (
            f"[{line.clock:%Y/%m/%d %H:%M:%S}] ppcls INFO: epoch:0   train step:{line.step}  lr: 0.100000, "
            f"loss:  6.5369 top1:  0.0078 top5: -0.0312 batch_cost: {seconds:.5f} s, reader_cost: 0.00051 s, ips: "
            f"{line.average_rate / run.gpus:.5f} samples/sec."
        )
    yield f"[{_end(run):%Y/%m/%d %H:%M:%S}] ppcls INFO: END epoch:0   train loss: 6.5 batch_cost_sum: 47.44 s"


def _paddlenlp_bert(run: Run) -> Iterator[str]:
    yield (
        f"Namespace(batch_size={run.batch_per_device}, gradient_merge_steps=1, max_steps={len(run.step_times_s)}, "
        f"model_name_or_path='bert-base-uncased', use_amp={run.amp}, use_pure_fp16=False)"
    )
    for line in _lines(run):
        yield (
            f"total step: {line.step}, epoch: 0, batch: {line.step - 1}, loss: 11.090787, avg_reader_cost: "
            f"0.00011 sec, avg_batch_cost: {line.step_time_s:.5f} sec, avg_samples: {run.batch_per_device:.5f}, "
            f"ips: {line.rate / run.gpus:.5f} sequences/sec"
        )
    yield f"python -m paddle.distributed.launch --gpus={','.join(map(str, range(run.gpus)))} run_pretrain.py"


def _paddlenlp_transformer(run: Run) -> Iterator[str]:
    yield "{'beam_search_version': 'v1',"
    yield from (f" 'batch_size': {run.batch_per_device},", f" 'max_iter': {len(run.step_times_s) + 1},")
    yield from (f" 'use_amp': {run.amp},", " 'use_pure_fp16': False,", " 'weight_sharing': True}")
    for line in _lines(run):
        tokens = run.batch_per_device * run.interval
        yield (
            f"\x1b[32m[{line.clock:%Y-%m-%d %H:%M:%S},{line.clock.microsecond // 1000:03d}] [    INFO]\x1b[0m - "
            f"step_idx: {line.step}, epoch: 0, batch: {line.step}, avg loss: 2.8957, normalized loss: 1.5281, "
            f"ppl: 18.09, avg_speed: {1 / line.step_time_s:.2f} step/s, batch_cost: {line.step_time_s:.5f} sec, "
            f"reader_cost: 0.00439 sec, tokens: {tokens}, ips: {line.rate / run.gpus:.5f} words/sec\x1b[0m"
        )
    yield f"python -m paddle.distributed.launch --gpus={','.join(map(str, range(run.gpus)))} train.py"


def _paddleseg(run: Run) -> Iterator[str]:
    yield from (
        "------------Environment Information-------------",
        f"GPUs used: {run.gpus}",
        "PaddleSeg: develop",
    )
    yield from (
        "---------------Config Information---------------",
        f"batch_size: {run.batch_per_device}",
        "model:",
        "  type: DeepLabV3P",
    )
    if run.amp:
        yield f"{run.start:%Y-%m-%d %H:%M:%S} [INFO]\tuse AMP to train. AMP level = O1"
    for line in _lines(run):
        yield (
            f"{line.clock:%Y-%m-%d %H:%M:%S} [INFO]\t[TRAIN] epoch: 1, iter: {line.step}/{len(run.step_times_s)}, "
            f"loss: 1.5033, lr: 0.009345, batch_cost: {line.step_time_s:.4f}, reader_cost: 0.02020, "
            f"ips: {line.rate / run.gpus:.4f} samples/sec | ETA 00:03:18"
        )


def _paddlerec(run: Run) -> Iterator[str]:
    yield f"I0220 14:53:33.269541  9974 communicator.h:205] trainers: {run.gpus}"
    for epoch, line in enumerate(_lines(run)):
        seconds = line.step_time_s * run.interval
        yield (
            f"{line.clock:%Y-%m-%d %H:%M:%S},123 - INFO - Epoch: {epoch}, Batch: 100, auc: [0.66], cost: [0.49],  "
            f"avg_batch_cost: 1.02084 sec, avg_samples: 1000.00000, ips: 979.58359 example/sec"
        )
        yield (
            f"{line.clock:%Y-%m-%d %H:%M:%S},412 - INFO - Epoch: {epoch}, using time {seconds} second, "
            f"ips {line.rate / run.gpus} example/sec."
        )


def _fairseq(run: Run) -> Iterator[str]:
    yield (
        f"Namespace(amp={run.amp}, arch='transformer_wmt_en_de_big_t2t', distributed_world_size={run.gpus}, "
        f"fp16=False, max_tokens={run.batch_per_device}, update_freq=[1])"
    )
    for line in _lines(run):
        yield (
            f"Transformer | epoch 0 | step {line.step} |avg loss 5.113 |avg tokens {run.global_batch:.3f} "
            f"|tokens/s {line.rate:.3f} |walltime {line.elapsed_s + 12:.3f} |"
        )
    yield "| Translated 3000 sentences (7441 tokens) in 1.7s (1795.71 sentences/s, 35631.64 tokens/s)"
    yield f"| done training in {sum(run.step_times_s):.1f} seconds"


def _mmsegmentation(run: Run) -> Iterator[str]:
    def stamp(moment: datetime) -> str:
        return f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d} - mmseg - INFO -"

    yield f"{stamp(run.start)} Distributed training: {run.gpus > 1}"
    yield f"{stamp(run.start)} Config:"
    yield from ("model = dict(", "    type='EncoderDecoder',", "    pretrained=None)")
    yield f"data = dict(samples_per_gpu={run.batch_per_device}, workers_per_gpu=4)"
    yield f"gpu_ids = range(0, {run.gpus})"
    if run.amp:
        yield "fp16 = dict(loss_scale='dynamic')"
    for line in _lines(run):
        yield (
            f"{stamp(line.clock)} Iter [{line.step}/{len(run.step_times_s)}]\tlr: 8.426e-03, eta: 0:01:06, "
            f"time: {line.step_time_s:.3f}, data_time: 0.008, memory: 18707, decode.loss_ce: 1.9157, loss: 2.1"
        )


def _pytorch_imagenet(run: Run) -> Iterator[str]:
    yield "=> creating model 'resnet50'"
    total = len(run.step_times_s)
    for line in _lines(run):
        mean_s = line.elapsed_s / line.step
        yield (
            f"Epoch: [0][{line.step - 1:4d}/{total}]\tTime {line.last_step_time_s:6.3f} ({mean_s:6.3f})\t"
            "Data  0.001 ( 0.002)\tLoss 6.9812e+00 (7.0133e+00)\tAcc@1   0.00 (  0.10)\tAcc@5   0.78 (  0.50)"
        )
    yield "Test: [ 0/50]\tTime  2.153 ( 2.153)\tLoss 6.9e+00 (6.9e+00)\tAcc@1   0.00 (  0.00)\tAcc@5   0.00 (  0.00)"


def _gluoncv(run: Run) -> Iterator[str]:
    yield (
        f"Namespace(batch_size={run.batch_per_device}, dtype='{'float16' if run.amp else 'float32'}', "
        f"log_interval={run.interval}, model='mobilenet1.0', num_gpus={run.gpus})"
    )
    for line in _lines(run):
        yield (
            f"INFO:root:Epoch[0] Batch [{line.step - 1}]\tSpeed: {line.rate:.6f} samples/sec\t"
            "accuracy=0.001172\tlr=0.400000"
        )
    yield "INFO:root:[Epoch 0] validation: err-top1=0.9 err-top5=0.8"


def _oneflow(run: Run) -> Iterator[str]:
    yield from (
        "model = resnet50",
        f"batch_size_per_device = {run.batch_per_device}",
        f"gpu_num_per_node = {run.gpus}",
        "num_nodes = 1",
        f"use_fp16 = {run.amp}",
    )
    for line in _lines(run):
        yield (
            f"train: epoch 0, iter {line.step}, loss: 7.087004, top_1: 0.000000, top_k: 0.000000, "
            f"samples/s: {line.rate:.3f} {line.clock.timestamp()}"
        )
    yield "validation: epoch 0, iter 195, top_1: 0.000957, top_k: 0.005313, samples/s: 964.656"


def _tensorflow_models(run: Run) -> Iterator[str]:
    dtype = "fp16" if run.amp else "fp32"
    yield f"I0605 12:00:00.123456 140 common.py:1] num_gpus: {run.gpus} batch_size: {run.global_batch} dtype: {dtype}"
    for line in _lines(run):
        seconds = line.step_time_s * run.interval
        yield (
            f"I0605 12:11:40.123456 140 keras_utils.py:145] TimeHistory: {seconds:.2f} seconds, {line.rate:.2f} "
            f"examples/second between steps {line.step - run.interval} and {line.step}"
        )
    yield "I0605 12:30:00.123456 140 resnet_ctl_imagenet_main.py:197] Run stats:"


def _tf_cnn_benchmarks(run: Run) -> Iterator[str]:
    yield from ("TensorFlow:  1.15", "Model:       resnet50")
    yield from (f"Batch size:  {run.global_batch} global", f"             {run.batch_per_device} per device")
    yield "Step\tImg/sec\ttotal_loss"
    for line in _lines(run):
        yield f"{line.step}\timages/sec: {line.average_rate:.1f} +/- 0.5 (jitter = 1.2)\t7.972"
    yield "-" * 64
    yield f"total images/sec: {_overall(run):.2f}"


def _timm(run: Run) -> Iterator[str]:
    if run.gpus == 1:
        yield "Training with a single process on 1 device (cuda:0)."
    else:
        mode = "Training in distributed mode with multiple processes, 1 device per process."
        yield f"{mode}Process 0, total {run.gpus}, device cuda:0."
    yield "Model resnet50 created, param count:25557032"
    if run.amp:
        yield "Using native Torch AMP. Training in mixed precision."
    else:
        yield "AMP not enabled. Training in float32."
    total = len(run.step_times_s)
    for line in _lines(run):
        mean_s = line.elapsed_s / line.step
        rate = run.global_batch / line.last_step_time_s
        yield (
            f"Train: 0 [{line.step - 1:4d}/{total} ({100 * line.step // total:3d}%)]  Loss: 6.943 (6.95)  "
            f"Time: {line.last_step_time_s:.3f}s, {rate:>7.2f}/s  ({mean_s:.3f}s, {line.average_rate:>7.2f}/s)  "
            "LR: 1.000e-01  Data: 0.010 (0.110)"
        )
    yield "Test: [   0/48]  Time: 2.1 (2.1)  Loss:  6.9 (6.9)  Acc@1:  0.1 ( 0.1)  Acc@5:  0.5 ( 0.5)"
    yield "*** Best metric: 0.1 (epoch 0)"


def _horovod(run: Run) -> Iterator[str]:
    yield from (
        "Model: resnet50",
        f"Batch size: {run.batch_per_device}",
        f"Number of GPUs: {run.gpus}",
        "Running benchmark...",
    )
    for number, line in enumerate(_lines(run)):
        yield f"Iter #{number}: {line.rate / run.gpus:.1f} img/sec per GPU"
    yield f"Img/sec per GPU: {_mean(run) / run.gpus:.1f} +-0.5"
    yield f"Total img/sec on {run.gpus} GPU(s): {_mean(run):.1f} +-4.0"


def _mlperf(run: Run) -> Iterator[str]:
    def event(moment: datetime, key: str, value: object, metadata: dict[str, object]) -> str:
        document = {
            "namespace": "",
            "time_ms": int(moment.timestamp() * 1000),
            "event_type": "POINT_IN_TIME",
            "key": key,
            "value": value,
            "metadata": metadata,
        }
        return ":::MLLOG " + json.dumps(document)

    yield event(run.start, "submission_benchmark", "resnet", {})
    yield event(run.start, "global_batch_size", run.global_batch, {})
    yield event(run.start, "train_samples", run.global_batch * run.interval, {})
    yield event(run.start, "run_start", None, {})
    for number, line in enumerate(_lines(run), start=1):
        began = line.clock - timedelta(seconds=line.step_time_s * run.interval)
        yield event(began, "epoch_start", None, {"epoch_num": number})
        yield event(line.clock, "epoch_stop", None, {"epoch_num": number})
    yield event(_end(run), "run_stop", None, {"status": "success"})


def _trainmark(run: Run) -> Iterator[str]:
    def event(step: object, data: dict[str, object]) -> str:
        return "DLLL " + json.dumps({"step": step, "data": data})

    yield event(
        "PARAMETER",
        {
            "schema": "trainmark.events/1",
            "framework": "pytorch",
            "model": "resnet50",
            "precision": "amp-fp16" if run.amp else "fp32",
            "world_size": run.gpus,
            "batch_per_device": run.batch_per_device,
        },
    )
    yield event([0, 0], {"phase": "first_step", "step_time_s": 9.0, "loss": 6.9})
    for number, seconds in enumerate(run.step_times_s, start=1):
        yield event([0, number], {"phase": "measured", "step_time_s": seconds, "loss": 6.9})
    seconds = sum(run.step_times_s)
    samples = run.global_batch * len(run.step_times_s)
    yield event(
        [], {"window_s": seconds, "samples": samples, "throughput": samples / seconds, "world_size": run.gpus}
    )


WRITERS: dict[str, Callable[[Run], Iterator[str]]] = {
    "trainmark": _trainmark,
    "ngc-pytorch-convnets": _ngc_pytorch_convnets,
    "ngc-tensorflow-convnets": _ngc_tensorflow_convnets,
    "ngc-mxnet-convnets": _ngc_mxnet_convnets,
    "ngc-pytorch-bert": _ngc_pytorch_bert,
    "ngc-tensorflow-bert": _ngc_tensorflow_bert,
    "paddleclas": _paddleclas,
    "paddlenlp-bert": _paddlenlp_bert,
    "paddlenlp-transformer": _paddlenlp_transformer,
    "paddleseg": _paddleseg,
    "paddlerec": _paddlerec,
    "fairseq": _fairseq,
    "mmsegmentation": _mmsegmentation,
    "pytorch-imagenet": _pytorch_imagenet,
    "gluoncv": _gluoncv,
    "oneflow": _oneflow,
    "tensorflow-models": _tensorflow_models,
    "tf-cnn-benchmarks": _tf_cnn_benchmarks,
    "timm": _timm,
    "horovod-synthetic": _horovod,
    "mlperf": _mlperf,
}
