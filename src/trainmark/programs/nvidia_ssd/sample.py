"""Made-up lines of this program, to try a reader or a script on."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, overall_rate


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the lines of a log of ``run``."""
    yield f"Namespace(N_gpu={run.gpus}, amp={run.amp}, batch_size={run.batch_per_device})"
    images, seconds = len(run.step_times_s) * run.global_batch, sum(run.step_times_s)
    yield (
        f"Done benchmarking. Total images: {images}\ttotal time: {seconds:.3f}\t"
        f"Average images/sec: {overall_rate(run):.3f}\tMedian images/sec: {overall_rate(run):.3f}"
    )
