"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of, overall_rate


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield from ("TensorFlow:  1.15", "Model:       resnet50")
    yield from (f"Batch size:  {run.global_batch} global", f"             {run.batch_per_device} per device")
    yield "Step\tImg/sec\ttotal_loss"
    for line in lines_of(run):
        yield f"{line.step}\timages/sec: {line.average_rate:.1f} +/- 0.5 (jitter = 1.2)\t7.972"
    yield "-" * 64
    yield f"total images/sec: {overall_rate(run):.2f}"
