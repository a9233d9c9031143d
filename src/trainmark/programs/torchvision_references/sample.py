"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator
from datetime import timedelta

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield f"| distributed init (rank 0): env://, world_size={run.gpus}"
    yield f"Namespace(amp={run.amp}, batch_size={run.batch_per_device}, model='resnet50', world_size={run.gpus})"
    total = len(run.step_times_s)
    for line in lines_of(run):
        rate = run.batch_per_device / line.last_step_time_s
        yield (
            f"Epoch: [0]  [{line.step - 1:4d}/{total}]  eta: 0:35:22  lr: 0.1  img/s: {rate:.2f}  "
            f"loss: 6.9812 (7.0133)  acc1: 0.0000 (0.1000)  time: {line.step_time_s:.4f}  data: 0.0003  max mem: 7812"
        )
    yield f"Epoch: [0] Total time: {timedelta(seconds=round(sum(run.step_times_s)))}"
