"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield (
        f"Namespace(batch_size={run.batch_per_device}, dtype='{'float16' if run.amp else 'float32'}', "
        f"log_interval={run.interval}, model='mobilenet1.0', num_gpus={run.gpus})"
    )
    for line in lines_of(run):
        yield (
            f"INFO:root:Epoch[0] Batch [{line.step - 1}]\tSpeed: {line.rate:.6f} samples/sec\t"
            "accuracy=0.001172\tlr=0.400000"
        )
    yield "INFO:root:[Epoch 0] validation: err-top1=0.9 err-top5=0.8"
