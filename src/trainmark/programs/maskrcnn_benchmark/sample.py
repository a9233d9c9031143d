"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    stamp = f"{run.start:%Y-%m-%d %H:%M:%S},000 maskrcnn_benchmark INFO:"
    yield f"{stamp} Using {run.gpus} GPUs"
    yield f"{stamp} Running with config:"
    yield f'DTYPE: "{"float16" if run.amp else "float32"}"'
    yield "SOLVER:"
    yield f"  IMS_PER_BATCH: {run.global_batch}"
    yield "TEST:"
    for line in lines_of(run):
        yield (
            f"{line.clock:%Y-%m-%d %H:%M:%S},000 maskrcnn_benchmark.trainer INFO: eta: 1:02:03  iter: {line.step}  "
            f"loss: 1.9812 (2.1012)  time: {line.last_step_time_s:.4f} ({line.elapsed_s / line.step:.4f})  "
            "data: 0.0101 (0.0202)  lr: 0.020000  max mem: 5123"
        )
    yield f"{stamp} Total training time: 0:05:22 (0.4500 s / it)"
