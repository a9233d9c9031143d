"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, dll_stamp, end_of, lines_of, mean_rate


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield (
        f"{dll_stamp(run.start)} PARAMETER data : /imagenet  data_backend : dali-cpu  arch : resnet50  batch_size : "
        f"{run.batch_per_device}  optimizer_batch_size : -1  amp : {run.amp}  memory_format : nchw  "
        f"world_size : {run.gpus} "
    )
    for line in lines_of(run):
        yield (
            f"{dll_stamp(line.clock)} Epoch: 0 Iteration: {line.step}  train.loss : 6.91234 None train.compute_ips : "
            f"{line.rate * 1.003:.2f} images/s train.total_ips : {line.rate:.2f} images/s train.lr : 0.1  "
            "train.grad_scale : 256.00000 None"
        )
    total = (
        f"train.loss : 6.9 None train.total_ips : {mean_rate(run):.2f} images/s val.total_ips : None images/s"
    )
    yield f"{dll_stamp(end_of(run))} Epoch: 0  {total}"
    yield f"{dll_stamp(end_of(run))} Summary: {total}"
    yield "Experiment ended"
