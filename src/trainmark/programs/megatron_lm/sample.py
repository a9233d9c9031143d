"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield f"using world size: {run.gpus}, data-parallel-size: {run.gpus}, tensor-model-parallel size: 1, pipeline 1"
    yield "------------------------ arguments ------------------------"
    yield f"  global_batch_size ............................... {run.global_batch}"
    yield f"  micro_batch_size ................................ {run.batch_per_device}"
    yield f"  params_dtype .................................... torch.{'bfloat16' if run.amp else 'float32'}"
    for line in lines_of(run):
        yield (
            f" [{line.clock:%Y-%m-%d %H:%M:%S.%f}] iteration {line.step:8d}/{len(run.step_times_s):8d} | "
            f"consumed samples: {line.step * run.global_batch:12d} | "
            f"elapsed time per iteration (ms): {line.step_time_s * 1000:.1f} | "
            f"throughput per GPU (TFLOP/s/GPU): 150.1 | learning rate: 9.150000E-06 | "
            f"global batch size: {run.global_batch:5d} | lm loss: 2.504220E+00 | loss scale: 1.0 | "
            "grad norm: 0.231 | number of skipped iterations:   0 | number of nan iterations:   0 |"
        )
    yield "[after training is done] datetime: 2024-01-01 12:00:00"
