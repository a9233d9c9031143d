"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    before = "[rank0]:[titan] "
    yield f"{before}{run.start:%Y-%m-%d %H:%M:%S},000 - root - INFO - Starting job: Llama 3 8B training"
    mesh = f"Building 1-D device mesh with ['dp_shard'], [{run.gpus}]"
    yield f"{before}{run.start:%Y-%m-%d %H:%M:%S},000 - root - INFO - {mesh}"
    for line in lines_of(run):
        stamp = f"{line.clock:%Y-%m-%d %H:%M:%S},{line.clock.microsecond // 1000:03d}"
        yield (
            f"{before}{stamp} - root - INFO - step: {line.step:2}  loss:  8.1309  grad_norm:  1.2345  "
            f"memory: 47.60GiB(50.12%)  tps: {round(line.rate / run.gpus):,}  tflops: 339.16  mfu: 34.29%"
        )
    yield f"{before}{run.start:%Y-%m-%d %H:%M:%S},000 - root - INFO - Training completed"
