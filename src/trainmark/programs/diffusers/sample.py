"""Writer of synthetic log lines of this program, for trying out a reader or a script."""

from collections.abc import Iterator

from trainmark.logs.synthetic import SampleRun, lines_of


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield f"Num processes: {run.gpus}"
    yield f"Mixed precision type: {'fp16' if run.amp else 'no'}"
    yield "***** Running training *****"
    yield f"  Instantaneous batch size per device = {run.batch_per_device}"
    yield f"  Total train batch size (w. parallel, distributed & accumulation) = {run.global_batch}"
    yield "  Gradient Accumulation steps = 1"
    total = len(run.step_times_s)
    for line in lines_of(run):
        passed = round(line.elapsed_s)
        yield (
            f"Steps: {100 * line.step // total:3d}%|###   | {line.step}/{total} "
            f"[{passed // 60:02d}:{passed % 60:02d}<10:00,  1.49it/s, lr=1e-05, step_loss=0.1]"
        )
