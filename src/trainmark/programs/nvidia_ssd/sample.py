"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, overall_rate


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield f"Namespace(N_gpu={run.gpus}, amp={run.amp}, batch_size={run.batch_per_device})"
    images, seconds = len(run.step_times_s) * run.global_batch, sum(run.step_times_s)
    yield (
        f"Done benchmarking. Total images: {images}\ttotal time: {seconds:.3f}\t"
        f"Average images/sec: {overall_rate(run):.3f}\tMedian images/sec: {overall_rate(run):.3f}"
    )
