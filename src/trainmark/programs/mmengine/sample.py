"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    stamp = f"{run.start:%Y/%m/%d %H:%M:%S} - mmengine - INFO - "
    yield stamp
    yield "System environment:"
    yield f"    GPU number: {run.gpus}"
    yield f"{stamp}Config:"
    yield f"optim_wrapper = dict(type='{'AmpOptimWrapper' if run.amp else 'OptimWrapper'}')"
    yield f"train_dataloader = dict(batch_size={run.batch_per_device}, num_workers=2)"
    total = len(run.step_times_s)
    for line in lines_of(run):
        yield (
            f"{line.clock:%Y/%m/%d %H:%M:%S} - mmengine - INFO - Iter(train) [{line.step:6d}/{total}]  "
            f"lr: 1.9820e-03  eta: 4:27:58  time: {line.step_time_s:.4f}  data_time: 0.0554  memory: 20138  loss: 0.8"
        )
