"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    stamp = f"[{run.start:%Y/%m/%d %H:%M:%S}] ppocr INFO:"
    yield f"python -m paddle.distributed.launch --gpus={','.join(map(str, range(run.gpus)))} tools/train.py"
    yield f"{stamp} Global : "
    yield f"{stamp}     use_amp : {run.amp}"
    yield f"{stamp} Train : "
    yield f"{stamp}         batch_size_per_card : {run.batch_per_device}"
    yield f"{stamp} Eval : "
    for line in lines_of(run):
        yield (
            f"[{line.clock:%Y/%m/%d %H:%M:%S}] ppocr INFO: epoch: [1/1], global_step: {line.step}, lr: 0.000005, "
            f"loss: 69.376022, avg_reader_cost: 0.00971 s, avg_batch_cost: {line.step_time_s:.5f} s, "
            f"avg_samples: {run.batch_per_device:.1f}, ips: {line.rate / run.gpus:.5f} samples/s, eta: 0:32:33"
        )
    yield f"{stamp} best metric, acc: 0.5, is_float16: False"
