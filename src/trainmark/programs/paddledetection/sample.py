"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    devices = ",".join(map(str, range(run.gpus)))
    batch = f"TrainReader.batch_size={run.batch_per_device}"
    yield f"python -m paddle.distributed.launch --gpus={devices} tools/train.py -o {batch}"
    yield f"use_amp: {run.amp}"
    total = len(run.step_times_s)
    for line in lines_of(run):
        yield (
            f"[{line.clock:%m/%d %H:%M:%S}] ppdet.engine INFO: Epoch: [0] [{line.step - 1:4d}/{total}] "
            f"learning_rate: 0.000333 loss: 1.912 eta: 1:02:03 batch_cost: {line.step_time_s:.4f} data_cost: 0.0003 "
            f"ips: {line.rate / run.gpus:.4f} images/s"
        )
