"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
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
    for line in lines_of(run):
        yield (
            f"{line.clock:%Y-%m-%d %H:%M:%S} [INFO]\t[TRAIN] epoch: 1, iter: {line.step}/{len(run.step_times_s)}, "
            f"loss: 1.5033, lr: 0.009345, batch_cost: {line.step_time_s:.4f}, reader_cost: 0.02020, "
            f"ips: {line.rate / run.gpus:.4f} samples/sec | ETA 00:03:18"
        )
