"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, dll_stamp, end_of, lines_of, overall_rate


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield (
        f"{dll_stamp(run.start)} PARAMETER arch : resnet50  mode : training_benchmark  batch_size : "
        f"{run.batch_per_device}  iter_unit : batch  display_every : {run.interval}  "
        f"xla : True  data_format : NHWC  amp : {run.amp} "
    )
    yield from (f"Num GPUs {run.gpus}", f"Per-GPU Batch Size {run.batch_per_device}")
    for line in lines_of(run):
        rate = run.global_batch / line.last_step_time_s
        yield f"{dll_stamp(line.clock)} (0, {line.step}) total_ips : {rate} "
    yield f"{dll_stamp(end_of(run))} () train_throughput : {overall_rate(run)} images/s"
