"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of, mean_rate


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield from (
        "Model: resnet50",
        f"Batch size: {run.batch_per_device}",
        f"Number of GPUs: {run.gpus}",
        "Running benchmark...",
    )
    for number, line in enumerate(lines_of(run)):
        yield f"Iter #{number}: {line.rate / run.gpus:.1f} img/sec per GPU"
    yield f"Img/sec per GPU: {mean_rate(run) / run.gpus:.1f} +-0.5"
    yield f"Total img/sec on {run.gpus} GPU(s): {mean_rate(run):.1f} +-4.0"
