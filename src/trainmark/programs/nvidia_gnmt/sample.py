"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``: each interval is an epoch."""
    yield f"0: Namespace(math='{'fp16' if run.amp else 'fp32'}', train_batch_size=128, world_size={run.gpus})"
    for epoch, line in enumerate(lines_of(run)):
        yield f"0: Performance: Epoch: {epoch}\tTraining: {line.rate:.0f} Tok/s\tValidation: 900123 Tok/s"
        yield f"0: Finished epoch {epoch}"
