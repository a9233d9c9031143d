"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, dll_stamp, end_of, lines_of, overall_rate


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    devices = list(range(run.gpus))
    dtype = "float16" if run.amp else "float32"
    yield (
        f"{dll_stamp(run.start)} PARAMETER arch : resnetv15  num_layers : 50  gpus : {devices}  kv_store : horovod  "
        f"dtype : {dtype}  amp : False  batch_size : {run.global_batch}  disp_batches : {run.interval} "
    )
    for line in lines_of(run):
        yield (
            f"{dll_stamp(line.clock)} Epoch: 0 Iteration: {line.step - 1}  train.loss : 7.002006530761719 "
            f"train.ips : {line.rate} images/s train.lr : 0.015974400000000002"
        )
    yield f"{dll_stamp(end_of(run))} Epoch: 0  train.loss : 6.4  train.ips : {overall_rate(run)} images/s"
    yield f"{dll_stamp(end_of(run))} Summary: train.loss : 6.4  train.ips : {overall_rate(run)} images/s"
