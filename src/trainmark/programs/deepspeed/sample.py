"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    stamp = f"[{run.start:%Y-%m-%d %H:%M:%S},000] [INFO]"
    yield f"{stamp} [logging.py:96:log_dist] [Rank 0] DeepSpeed info: version=0.14.0"
    settings = {
        "fp16_enabled": run.amp,
        "gradient_accumulation_steps": 1,
        "train_batch_size": run.global_batch,
        "train_micro_batch_size_per_gpu": run.batch_per_device,
        "world_size": run.gpus,
    }
    for name, value in settings.items():
        yield f"{stamp} [config.py:1000:print]   {name} {'.' * (30 - len(name))} {value}"
    first = sum(run.step_times_s[:2])
    for line in lines_of(run):
        if line.step <= 2:
            continue
        average = (line.step - 2) * run.global_batch / (line.elapsed_s - first)
        yield (
            f"[{line.clock:%Y-%m-%d %H:%M:%S},{line.clock.microsecond // 1000:03d}] [INFO] [timer.py:260:stop] "
            f"epoch=0/micro_step={line.step}/global_step={line.step}, RunningAvgSamplesPerSec={average}, "
            f"CurrSamplesPerSec={run.global_batch / line.last_step_time_s}, MemAllocated=4.34GB, "
            "MaxMemAllocated=12.81GB"
        )
    yield f"{stamp} [launch.py:460:main] Process 10392 exits successfully."
