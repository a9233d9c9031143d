"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    if run.amp:
        yield "Using 16bit Automatic Mixed Precision (AMP)"
    yield "GPU available: True (cuda), used: True"
    yield f"All distributed processes registered. Starting with {run.gpus} processes"
    total = len(run.step_times_s)
    for line in lines_of(run):
        passed = f"{int(line.elapsed_s) // 60:02d}:{int(line.elapsed_s) % 60:02d}"
        pace = line.step / line.elapsed_s
        shown = f"{pace:5.2f}it/s" if pace >= 1 else f"{1 / pace:5.2f}s/it"
        yield (
            f"Epoch 0: {100 * line.step // total:3d}%|#####     | {line.step}/{total} [{passed}<02:55, {shown}, "
            "v_num=0, train_loss=2.300]"
        )
    yield "`Trainer.fit` stopped: `max_epochs=1` reached."
