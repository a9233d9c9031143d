"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, dll_stamp, lines_of, mean_rate


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``: each interval is an epoch."""
    settings = f"amp : {run.amp}  batch_size : {run.global_batch}  world_size : {run.gpus}"
    yield f"{dll_stamp(run.start)} PARAMETER {settings} "
    for epoch, line in enumerate(lines_of(run)):
        yield f"{dll_stamp(line.clock)} ({epoch},) train_throughput : {line.rate:.3e} samples/s hr@10 : 0.81 None "
    best = max((line.rate for line in lines_of(run)), default=0.0)
    yield (
        f"{dll_stamp(run.start)} () best_train_throughput : {best} samples/s "
        f"mean_train_throughput : {mean_rate(run)} samples/s "
    )
