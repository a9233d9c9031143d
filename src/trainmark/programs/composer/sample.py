"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield "*" * 30
    yield "Config:"
    yield f"n_gpus: {run.gpus}"
    yield f"precision: {'amp_fp16' if run.amp else 'fp32'}"
    yield "*" * 30
    total = len(run.step_times_s)
    for line in lines_of(run):
        yield f"[batch={line.step}/{total}]:"
        yield f"\t Train time/batch: {line.step - 1}"
        yield "\t Train loss/train/total: 8.4213"
        yield f"\t Train throughput/tokens_per_sec: {line.rate:.4f}"
        yield f"\t Train throughput/device/tokens_per_sec: {line.rate / run.gpus:.4f}"
        yield "\t Train throughput/device/mfu: 0.4101"
