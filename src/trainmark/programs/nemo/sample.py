"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield f"[NeMo I {run.start:%Y-%m-%d %H:%M:%S} nemo_logger:145] Experiments will be logged"
    yield f"All distributed processes registered. Starting with {run.gpus} processes"
    if run.amp:
        yield "Using 16bit Automatic Mixed Precision (AMP)"
    total = len(run.step_times_s)
    for line in lines_of(run):
        yield (
            f"Training epoch 0, iteration {line.step - 1}/{total - 1} | lr: 6.897e-06 | "
            f"global_batch_size: {run.global_batch} | global_step: {line.step - 1} | reduced_train_loss: 11.96 | "
            f"train_step_timing in s: {line.last_step_time_s:.4g} | consumed_samples: {line.step * run.global_batch}"
        )
    yield "`Trainer.fit` stopped: `max_steps=100` reached."
