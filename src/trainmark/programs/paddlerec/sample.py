"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield f"I0220 14:53:33.269541  9974 communicator.h:205] trainers: {run.gpus}"
    for epoch, line in enumerate(lines_of(run)):
        seconds = line.step_time_s * run.interval
        yield (
            f"{line.clock:%Y-%m-%d %H:%M:%S},123 - INFO - Epoch: {epoch}, Batch: 100, auc: [0.66], cost: [0.49],  "
            f"avg_batch_cost: 1.02084 sec, avg_samples: 1000.00000, ips: 979.58359 example/sec"
        )
        yield (
            f"{line.clock:%Y-%m-%d %H:%M:%S},412 - INFO - Epoch: {epoch}, using time {seconds} second, "
            f"ips {line.rate / run.gpus} example/sec."
        )
